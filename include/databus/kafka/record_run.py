"""Runs of records handed to a producer by compiled code: from the columns' own bytes, without a Python object each.

librdkafka copies key, value and headers of each record as it takes it, as it does for the client's `produce()`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from databus.kafka.producer_handle import QUEUE_FULL, ProducerHandle, code_of
from databus.kafka.record_kernels import FIXED, WORDS, Flags, Ints, hand_over

_NOTHING = ctypes.create_string_buffer(1)
"""Address of an empty value: a null pointer would be no value."""


class Bytes(NamedTuple):
    """Column of texts or bytes.

    Attributes:
        offsets: int[n + 1], of `data`.
        data: uint8; kept alive by whoever uses its address.
        valid: bool[n], False where there is no value.
    """

    offsets: npt.NDArray[Any]
    data: npt.NDArray[np.uint8]
    valid: Flags


class Records(NamedTuple):
    """Records of one batch, in its order.

    Attributes:
        topics: names, without a zero byte.
        topic: int64[n], index into `topics`.
        partition: int64[n].
        value: values.
        key: keys.
        headers: name and values of each; a record has those that are valid.
        tombstone: bool[n], whether a record without a value follows.
        tombstone_headers: names of the headers that it has, too.
    """

    topics: Sequence[str]
    topic: Ints
    partition: Ints
    value: Bytes
    key: Bytes
    headers: Sequence[tuple[str, Bytes]]
    tombstone: Flags
    tombstone_headers: Sequence[str]


class RecordRun:
    """Records on their way to a producer, handed over piece by piece."""

    def __init__(self, handle: ProducerHandle, records: Records):
        columns = [records.value, records.key, *(column for _, column in records.headers)]
        names = [name for name, _ in records.headers]
        self._handle, self._records, self._second = handle, records, False
        self._texts = [ctypes.create_string_buffer(text.encode()) for text in (*records.topics, *names)]
        addresses = np.array([ctypes.addressof(text) for text in self._texts], np.int64)
        self._topics, self._names = np.split(addresses, [len(records.topics)])
        self._bases = np.array([_base(column.data) for column in columns], np.int64)
        self._offsets = np.stack([column.offsets.astype(np.int64) for column in columns])
        self._valid = np.stack([column.valid for column in columns])
        self._behind = np.array([name in records.tombstone_headers for name in names], np.bool_)
        self._units = np.zeros(WORDS * (FIXED + len(names)), np.int64)

    @property
    def half(self) -> bool:
        """True where the row that `hand_over` came to is produced, and its tombstone is not."""
        return self._second

    def hand_over(self, start: int, stop: int) -> tuple[int, int]:
        """Produce the rows from `start` on.

        Returns:
            The first row that is not produced, or not wholly (`half`), and the code of librdkafka's error, 0 at `stop`.
        """
        row, second, error = hand_over(
            self._handle.produceva,
            self._handle.producer,
            start,
            stop,
            self._second,
            self._topics,
            self._records.topic,
            self._records.partition,
            self._bases,
            self._offsets,
            self._valid,
            self._names,
            self._records.tombstone,
            self._behind,
            self._units,
            self._units.ctypes.data,
        )
        self._second = bool(second)
        return int(row), code_of(error) if error else 0

    def produced(self) -> None:
        """Note that the row that `hand_over` came to has been produced by other means."""
        self._second = False


def is_full(code: int) -> bool:
    """Return whether an error says that the producer's queue takes no more for now."""
    return code == QUEUE_FULL


def _base(data: npt.NDArray[np.uint8]) -> int:
    return int(data.ctypes.data) if data.size else ctypes.addressof(_NOTHING)
