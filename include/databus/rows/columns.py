"""Views of Arrow columns as the plain NumPy arrays that kernels read, and Arrow columns made of kernel output."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def view(buffer: pa.Buffer | bytes, dtype: npt.DTypeLike, count: int = -1, offset: int = 0) -> np.ndarray:
    """Return a buffer as dtype[count], from a byte on; it cannot be written to, whoever owns it.

    Arrow gives buffers of its own as writable and those that came from another process as not: kernels, which are
    compiled for each kind of array, would be compiled once more in Spark's workers.
    """
    found = np.frombuffer(buffer, dtype, count, offset)
    found.flags.writeable = False
    return found


_EMPTY = view(b"", np.uint8)


def validity(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return bool[n], False where the slot is null."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    valid: npt.NDArray[np.bool_] = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def fixed(array: pa.Array, dtype: npt.DTypeLike, width: int = 1) -> np.ndarray:
    """Return a fixed-width column's values as dtype[n], or dtype[n, width] if `width` > 1; null slots hold anything."""
    flat = view(array.buffers()[1] or b"", dtype)
    start, stop = array.offset * width, (array.offset + len(array)) * width
    return flat[start:stop].reshape(-1, width) if width > 1 else flat[start:stop]


def text(array: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return offsets int32[n + 1] and bytes of a string or binary column; large and dictionary forms are converted."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        array = array.cast(pa.string() if pa.types.is_large_string(kind) else pa.binary())
    _, offsets, data = array.buffers()
    where = view(offsets or bytes(4), np.int32)
    where = where[array.offset : array.offset + len(array) + 1] if offsets else where
    return where, view(data, np.uint8) if data else _EMPTY


def views(array: pa.Array) -> Iterator[pa.Buffer | None]:
    """Return each value of a string or binary column as a view of its bytes, nothing copied; None for a null slot."""
    offsets, data = text(array)
    found = map(pa.py_buffer(data).slice, offsets[:-1].tolist(), np.diff(offsets).tolist())
    if array.null_count == 0:
        return found
    return (view if valid else None for view, valid in zip(found, validity(array).tolist(), strict=True))


def string_array(
    offsets: npt.NDArray[np.int32], data: Bytes, valid: npt.NDArray[np.bool_] | None = None
) -> pa.StringArray:
    """Build a string column from kernel output; `valid` marks the slots that are not null."""
    bits = None
    if valid is not None and not valid.all():
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data), bits)


def binary_array(
    offsets: npt.NDArray[np.int32], data: Bytes, valid: npt.NDArray[np.bool_] | None = None
) -> pa.BinaryArray:
    """Build a binary column from kernel output; `valid` marks the slots that are not null."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [bits, pa.py_buffer(offsets), pa.py_buffer(data)])
