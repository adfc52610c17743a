"""Column writers of binary formats: which kernels measure and write a column's values."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.core.errors.source import DecodeError
from databus.rows.columns import Bytes, Ints, binary_array, fixed, text, validity
from databus.rows.json_text import json_literals
from databus.rows.temporal import is_temporal, iso_text
from databus.rows.variant.columns import column_state
from databus.rows.variant.kernels import NULL, VALUE, State
from databus.rows.wire import kernels
from databus.rows.wire.kernels import Framing

_MOST = 2**63 - 1

Kernel = tuple[Callable[..., None], tuple[Any, ...]]
"""A kernel and the arguments that describe the column."""


class WireField(Protocol):
    """Field of a column, in any of the formats."""

    @property
    def column(self) -> str:
        """The column's name in the row."""
        ...

    @property
    def type(self) -> Any:
        """The type as a schema has it."""
        ...

    @property
    def base(self) -> str:
        """Form of its values: int, long, unsigned (64 bits), float, double, boolean, string or bytes."""
        ...

    @property
    def scale(self) -> int | None:
        """Digits behind the point of a decimal that is written as the bytes of its unscaled number, else None."""
        ...


@dataclass(frozen=True)
class WireColumn:
    """Writer of one column of a batch.

    Attributes:
        state: int8[images], ABSENT, NULL or VALUE.
        sizing: adds the bytes of each value.
        writing: writes each value at its row's cursor.
    """

    state: State
    sizing: Kernel
    writing: Kernel

    def measure(self, frame: Framing, sizes: Ints) -> None:
        """Add the bytes of each row's value to int64[rows]."""
        kernel, arguments = self.sizing
        kernel(*arguments, self.state, frame, sizes)

    def put(self, frame: Framing, cursor: Ints, start: int, stop: int, out: Bytes) -> None:
        """Write the values of the rows [start, stop), and move their cursors behind them."""
        kernel, arguments = self.writing
        kernel(*arguments, self.state, frame, cursor, start, stop, out)

    def written(self, frame: Framing, *, empty: bool = False) -> pa.BinaryArray:
        """Return the values as a column, one by one.

        Args:
            frame: their framing.
            empty: whether it is empty, and not null, where there is no value and nothing stands for it.
        """
        rows = len(self.state)
        sizes = np.zeros(rows, np.int64)
        self.measure(frame, sizes)
        where = np.zeros(rows + 1, np.int64)
        np.cumsum(sizes, out=where[1:])
        out = np.empty(int(where[-1]), np.uint8)
        self.put(frame, where[:-1].copy(), 0, rows, out)
        return binary_array(where.astype(np.int32), out, None if empty or frame.none.size else self.state == VALUE)


def column_writer(batch: TableBatch, column: int, field: WireField, form: str) -> WireColumn:
    """Return the writer of a column as its field's type.

    A text that is no text of its character set is base64, and a value that was moved out is its reference, as in JSON;
    bytes hold what a reference says, too. Flags name them.

    Args:
        batch: row changes of one table.
        column: its number at the source.
        field: its field.
        form: what the format is called.

    Raises:
        DecodeError: the column holds what its field's type cannot, which is another one than was registered.
    """
    array = _with_exceptions(batch, column, field, form)
    state = column_state(batch, column, array)
    kind = array.type
    if field.base in ("int", "long", "unsigned") and pa.types.is_integer(kind):
        if field.base == "unsigned" or _fits_long(array):
            return _varints(array, state)
    elif field.base == "bytes" and field.scale is not None:
        words = _words(array, field.scale)
        if words is not None:
            return WireColumn(state, (kernels.measure_signed, (words,)), (kernels.put_signed, (words,)))
    elif field.base in ("float", "double", "boolean"):
        if (found := _bytes_per_row(array, field.base)) is not None:
            data, width = found
            return WireColumn(state, (kernels.measure_fixed, (width,)), (kernels.put_fixed, (data, width)))
    elif _is_text(kind) if field.base == "string" else field.base == "bytes" and _is_binary(kind):
        return _bytes(array, state)
    raise DecodeError(
        f"column {batch.schema.columns[column].name} of {batch.schema.full_name} has the Arrow type {kind}, and its "
        f"registered {form} type is {field.type}"
    )


def texts(array: pa.Array, frame: Framing, *, empty: bool = False) -> pa.BinaryArray:
    """Return a text column as values, one by one; a null is what the framing has for it.

    Args:
        array: the texts.
        frame: their framing.
        empty: whether a null for which nothing stands is left out.

    Raises:
        DecodeError: a null, nothing stands for it, and it may not be left out.
    """
    _require_values(array, frame, empty=empty)
    return _bytes(array, _state(array)).written(frame, empty=empty)


def longs(array: pa.Array, frame: Framing, *, empty: bool = False) -> pa.BinaryArray:
    """Return a column of integers as values, one by one; see `texts`.

    Raises:
        DecodeError: a null, nothing stands for it, and it may not be left out.
    """
    _require_values(array, frame, empty=empty)
    return _varints(array.cast(pa.int64()), _state(array)).written(frame, empty=empty)


def _varints(array: pa.Array, state: State) -> WireColumn:
    kind = array.type
    values = fixed(array, np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}"))
    words = values.view(np.int64) if kind == pa.uint64() else values.astype(np.int64, copy=False)
    return WireColumn(state, (kernels.measure_longs, (words,)), (kernels.put_longs, (words,)))


def _bytes(array: pa.Array, state: State) -> WireColumn:
    offsets, data = text(array)
    return WireColumn(state, (kernels.measure_bytes, (offsets,)), (kernels.put_bytes, (offsets, data)))


def _require_values(array: pa.Array, frame: Framing, *, empty: bool) -> None:
    if array.null_count and not frame.none.size and not empty:
        raise DecodeError("a member of the envelope is null, and its type has no null")


def reference_bytes(value: str | bytes | LargeValue) -> bytes:
    """Return what stands for a value that its Arrow type cannot hold: a text's bytes, base64 of bytes that are no text.

    Raises:
        TypeError: it was left in the log, and has to be moved out first.
    """
    if isinstance(value, LargeValue):
        raise TypeError("a value that was left in the log has to be moved out before its row is written")
    return base64.b64encode(value) if isinstance(value, bytes) else value.encode()


def _state(array: pa.Array) -> State:
    return validity(array).astype(np.int8) + np.int8(NULL)


def _fits_long(array: pa.Array) -> bool:
    """Return whether all integers are below 2^63: those of BIT(63) are, though their Arrow type has 64 bits."""
    return array.type != pa.uint64() or not bool(pc.any(pc.greater(array, pa.scalar(_MOST, pa.uint64()))).as_py())


def _with_exceptions(batch: TableBatch, column: int, field: WireField, form: str) -> pa.Array:
    """Return a column's values, temporal ones as ISO text, with what stands for those that Arrow cannot hold."""
    array, schema = batch.images.column(column), batch.schema.columns[column]
    if is_temporal(array.type):
        array = iso_text(array, schema)
    elif field.base == "string" and pa.types.is_decimal(array.type):
        array = json_literals(array, schema)
    exceptions: Mapping[int, str | bytes | LargeValue] = batch.exceptions.get(column, {})
    if not exceptions:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not (_is_text(array.type) or _is_binary(array.type)) or field.base not in ("string", "bytes"):
        raise DecodeError(
            f"column {schema.name} of {batch.schema.full_name} has a value that the {form} type {field.type} cannot "
            "hold"
        )
    rows = sorted(exceptions)
    mask = np.zeros(len(array), np.bool_)
    mask[rows] = True
    values = pa.array([reference_bytes(exceptions[row]) for row in rows], pa.binary())
    return pc.replace_with_mask(array.cast(pa.binary()), pa.array(mask), values).cast(array.type)


def _words(array: pa.Array, scale: int) -> Any:
    """Return unscaled numbers as int64[rows, 2] (low, high), None of another type."""
    kind = array.type
    if pa.types.is_decimal128(kind) and kind.scale == scale:
        return fixed(array, np.int64, 2)
    if scale or not pa.types.is_integer(kind):
        return None
    width = kind.bit_width // 8
    signed = not pa.types.is_unsigned_integer(kind)
    low = fixed(array, np.dtype(f"{'i' if signed else 'u'}{width}"))
    words = np.zeros((len(array), 2), np.int64)
    words[:, 0] = low.view(np.int64) if width == 8 else low
    if signed:
        words[:, 1] = words[:, 0] >> 63
    return words


def _bytes_per_row(array: pa.Array, base: str) -> tuple[Bytes, int] | None:
    """Return the bytes of each value, little-endian, and how many; None of another type."""
    kind = array.type
    if base == "boolean" and pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False)).astype(np.uint8), 1
    width = {"float": 4, "double": 8}.get(base)
    if width is None or not pa.types.is_floating(kind) or kind.bit_width != 8 * width:
        return None
    return fixed(array, np.dtype(f"f{width}")).view(np.uint8), width


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
