"""Kernels that hand records to librdkafka: its `rd_kafka_produceva`, called by address, without the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WORDS = 9
"""Words of an `rd_kafka_vu_t`: an int, and a union of 64 bytes."""

FIXED = 5
"""Arguments of every record: topic, partition, value, key, flags; its headers follow."""

_TOPIC, _PARTITION, _VALUE, _KEY, _MSGFLAGS, _HEADER = 1, 3, 4, 5, 7, 9
_COPY = 2


@intrinsic
def _call(_: Any, function: Any, producer: Any, units: Any, count: Any) -> Any:  # noqa: ARG001 - numba's convention
    """Call `rd_kafka_error_t *produceva(rd_kafka_t *, const rd_kafka_vu_t *, size_t)` by its address."""
    signature = types.int64(types.int64, types.int64, types.int64, types.int64)

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        word = ir.IntType(64)
        function_type = ir.FunctionType(word, [word, word, word])
        return builder.call(builder.inttoptr(given[0], function_type.as_pointer()), list(given[1:]))

    return signature, generate


@njit(cache=True, nogil=True)
def hand_over(
    function: int,
    producer: int,
    start: int,
    stop: int,
    second: bool,
    topics: Ints,
    topic: Ints,
    partition: Ints,
    bases: Ints,
    offsets: Ints,
    valid: Flags,
    names: Ints,
    tombstone: Flags,
    behind: Flags,
    units: Ints,
    at: int,
) -> tuple[int, bool, int]:
    """Produce the rows from `start` to `stop`, of the first one the tombstone alone with `second`.

    Args:
        function: address of `rd_kafka_produceva`.
        producer: address of the `rd_kafka_t`.
        start: first row.
        stop: row behind the last.
        second: whether the first row itself is produced already.
        topics: addresses of the topics' names.
        topic: int64[n], index into `topics`.
        partition: int64[n].
        bases: int64[2 + h], addresses of the columns' bytes: value, key, headers.
        offsets: int64[2 + h, n + 1].
        valid: bool[2 + h, n].
        names: int64[h], addresses of the headers' names.
        tombstone: bool[n].
        behind: bool[h], headers that a tombstone has, too.
        units: int64[9 * (5 + h)], room for the arguments.
        at: address of `units`.

    Returns:
        The row it came to, whether that row itself is produced and its tombstone is not, and the address of an
        `rd_kafka_error_t`, 0 where all is produced.
    """
    value, key, header = 2 * WORDS, 3 * WORDS, FIXED * WORDS
    units[0], units[WORDS], units[value], units[key] = _TOPIC, _PARTITION, _VALUE, _KEY
    units[4 * WORDS], units[4 * WORDS + 1] = _MSGFLAGS, _COPY
    row = start
    while row < stop:
        units[1] = topics[topic[row]]
        units[WORDS + 1] = partition[row]
        units[value + 1], units[value + 2] = 0, 0
        if valid[0, row] and not second:
            units[value + 1], units[value + 2] = bases[0] + offsets[0, row], offsets[0, row + 1] - offsets[0, row]
        units[key + 1], units[key + 2] = 0, 0
        if valid[1, row]:
            units[key + 1], units[key + 2] = bases[1] + offsets[1, row], offsets[1, row + 1] - offsets[1, row]
        count = 0
        for each in range(len(names)):
            column = each + 2
            if valid[column, row] and (behind[each] or not second):
                unit = header + count * WORDS
                units[unit], units[unit + 1] = _HEADER, names[each]
                units[unit + 2] = bases[column] + offsets[column, row]
                units[unit + 3] = offsets[column, row + 1] - offsets[column, row]
                count += 1
        error: int = _call(function, producer, at, FIXED + count)  # type: ignore[call-arg]  # numba gives the context
        if error != 0:
            return row, second, error
        if tombstone[row] and not second:
            second = True
        else:
            second = False
            row += 1
    return row, False, 0
