"""VARIANT column writers of a batch: which kernels measure and write its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.core.errors.source import DecodeError
from databus.rows.columns import Bytes, Ints, fixed, text, validity
from databus.rows.temporal import is_temporal, iso_text
from databus.rows.variant import kernels

_SHORT_STRING_BYTES = 63


class ColumnWriter(Protocol):
    """Writes one column of a batch as VARIANT fields."""

    def measure(self, sizes: Ints) -> None:
        """Fill in the bytes of each row's value, -1 where the row has no such field."""
        ...

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        """Write the values of the rows [start, stop) at their positions."""
        ...


@dataclass(frozen=True)
class _Integers:
    values: Ints
    state: kernels.State

    def measure(self, sizes: Ints) -> None:
        kernels.measure_ints(self.values, self.state, sizes)

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        kernels.write_ints(self.values[start:stop], self.state[start:stop], positions[start:stop], out)


@dataclass(frozen=True)
class _Unsigned:
    values: Ints
    state: kernels.State

    def measure(self, sizes: Ints) -> None:
        kernels.measure_unsigned(self.values, self.state, sizes)

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        kernels.write_unsigned(self.values[start:stop], self.state[start:stop], positions[start:stop], out)


@dataclass(frozen=True)
class _Decimals:
    words: Ints
    scale: int
    state: kernels.State

    def measure(self, sizes: Ints) -> None:
        kernels.measure_decimals(self.words, self.scale, self.state, sizes)

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        kernels.write_decimals(self.words[start:stop], self.scale, self.state[start:stop], positions[start:stop], out)


@dataclass(frozen=True)
class _Floats:
    bits: Ints
    width: int
    header: int
    state: kernels.State

    def measure(self, sizes: Ints) -> None:
        kernels.measure_fixed(self.state, self.width + 1, sizes)

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        part = slice(start, stop)
        kernels.write_floats(self.bits[part], self.width, self.header, self.state[part], positions[part], out)


@dataclass(frozen=True)
class _Texts:
    offsets: npt.NDArray[np.int32]
    data: Bytes
    header: int
    state: kernels.State

    def measure(self, sizes: Ints) -> None:
        kernels.measure_bytes(self.offsets, self.header == kernels.STRING_HEADER, self.state, sizes)

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        part = slice(start, stop)
        offsets = self.offsets[start : stop + 1]
        kernels.write_bytes(offsets, self.data, self.header, self.state[part], positions[part], out)


@dataclass(frozen=True)
class _WithExceptions:
    """A column some of whose slots hold, instead of their null, a value that its Arrow type cannot express."""

    inner: ColumnWriter
    values: Mapping[int, bytes]

    def measure(self, sizes: Ints) -> None:
        self.inner.measure(sizes)
        for row, encoded in self.values.items():
            sizes[row] = len(encoded)

    def write(self, positions: Ints, start: int, stop: int, out: Bytes) -> None:
        self.inner.write(positions, start, stop, out)
        for row, encoded in self.values.items():
            if start <= row < stop:
                out[positions[row] : positions[row] + len(encoded)] = np.frombuffer(encoded, np.uint8)


def column_writer(batch: TableBatch, column: int) -> ColumnWriter:
    """Return the writer of one column.

    Raises:
        DecodeError: the column's Arrow type has no VARIANT encoding.
    """
    array = batch.images.column(column)
    state = column_state(batch, column, array)
    writer = _typed_writer(batch, column, array, state)
    exceptions = batch.exceptions.get(column)
    if not exceptions:
        return writer
    return _WithExceptions(
        writer, {row: _exception(value) for row, value in exceptions.items() if state[row] != kernels.ABSENT}
    )


def _typed_writer(batch: TableBatch, column: int, array: pa.Array, state: kernels.State) -> ColumnWriter:
    kind = array.type
    if is_temporal(kind):
        return _Texts(*text(iso_text(array, batch.schema.columns[column])), kernels.STRING_HEADER, state)
    if pa.types.is_integer(kind):
        width = kind.bit_width // 8
        values: Any = fixed(array, np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{width}"))
        if kind == pa.uint64():
            return _Unsigned(values.view(np.int64), state)
        return _Integers(values.astype(np.int64, copy=False), state)
    if pa.types.is_decimal128(kind):
        return _Decimals(fixed(array, np.int64, 2), kind.scale, state)
    if pa.types.is_float64(kind) or pa.types.is_float32(kind):
        wide = kind.bit_width == 64
        bits = fixed(array, np.int64 if wide else np.int32).astype(np.int64, copy=False)
        return _Floats(bits, kind.bit_width // 8, kernels.DOUBLE_HEADER if wide else kernels.FLOAT_HEADER, state)
    header = _text_header(kind)
    if header is None:
        name = batch.schema.columns[column].name
        raise DecodeError(
            f"column {name} of {batch.schema.full_name} has the Arrow type {kind}, which has no VARIANT encoding"
        )
    return _Texts(*text(array), header, state)


def _text_header(kind: pa.DataType) -> int | None:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return kernels.BINARY_HEADER
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return kernels.STRING_HEADER
    return None


def column_state(batch: TableBatch, column: int, values: pa.Array) -> kernels.State:
    """Return int8[images]: ABSENT where the image does not carry the column, else NULL or VALUE as in `values`."""
    state = validity(values).astype(np.int8) + np.int8(kernels.NULL)
    carried = np.array([present[column] for present in batch.presence_sets], np.bool_)
    if not carried.all():
        state[~carried[batch.presence]] = kernels.ABSENT
    return state


def _exception(value: str | bytes | LargeValue) -> bytes:
    if isinstance(value, LargeValue):
        raise TypeError("a value that was left in the log has to be moved out before its row is written")
    if isinstance(value, bytes):
        return bytes([kernels.BINARY_HEADER]) + len(value).to_bytes(4, "little") + value
    data = value.encode()
    if len(data) <= _SHORT_STRING_BYTES:
        return bytes([len(data) << 2 | 1]) + data
    return bytes([kernels.STRING_HEADER]) + len(data).to_bytes(4, "little") + data
