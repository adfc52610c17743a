"""Reads and writes at machine addresses, as single instructions.

Inner loops pass addresses, not arrays: an array handed from function to function costs atomic reference counting,
several times the work on one value. A kernel takes arrays, which its caller keeps alive, and turns them into addresses
once. Nothing here checks bounds: callers compare with the end of the event (reads) or the capacity of the arena
(writes) first. Little-endian machines only, as are logs and arenas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from databus.binlog.kernels.memory import INLINE

cgutils: Any = _cgutils  # numba's compiler interface has no types


def _address_of(typing_context: Any, array: Any) -> Any:  # noqa: ARG001 - numba's calling convention
    """Return the address of an array's first element; the caller keeps the array alive."""
    signature = types.int64(array)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return signature, codegen


address_of: Callable[[Any], int] = intrinsic(_address_of)


def _loader(bits: int) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's calling convention
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(types.int64), codegen

    return load


def _storer(bits: int) -> Any:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001 - numba's calling convention
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            builder.store(args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits)), pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return store


load_8: Callable[[Any], int] = _loader(8)
"""load(address) → unsigned number as int64."""
load_16: Callable[[Any], int] = _loader(16)
load_32: Callable[[Any], int] = _loader(32)
load_64: Callable[[Any], int] = _loader(64)
"""load(address) → the eight bytes as a signed int64."""
store_8: Callable[[Any, Any], None] = _storer(8)
"""store(address, value): writes the low bits of value."""
store_16: Callable[[Any, Any], None] = _storer(16)
store_32: Callable[[Any, Any], None] = _storer(32)
store_64: Callable[[Any, Any], None] = _storer(64)


def _copy(typing_context: Any, target: Any, source: Any, size: Any) -> Any:  # noqa: ARG001 - numba's calling convention
    """Copy `size` bytes between addresses whose ranges do not overlap."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
        byte = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(builder, builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


copy: Callable[[Any, Any, Any], None] = intrinsic(_copy)


@njit(**INLINE)
def read_little(at: int, size: int) -> int:
    """Read `size` (≤ 8) bytes, least significant first."""
    if size == 1:
        return load_8(at)
    if size == 2:
        return load_16(at)
    if size == 4:
        return load_32(at)
    if size == 8:
        return load_64(at)
    value = np.int64(0)
    for k in range(size):
        value |= load_8(at + k) << (8 * k)
    return value  # type: ignore[return-value]  # numba's int64 is Python's int outside


@njit(**INLINE)
def read_big(at: int, size: int) -> int:
    """Read `size` (≤ 8) bytes, most significant first."""
    value = np.int64(0)
    for k in range(size):
        value = (value << 8) | load_8(at + k)
    return value  # type: ignore[return-value]  # numba's int64 is Python's int outside


@njit(**INLINE)
def bit(at: int, number: int) -> int:
    """Return a bit of a bitmap that counts from the lowest bit of its first byte."""
    return (load_8(at + (number >> 3)) >> (number & 7)) & 1


@njit(**INLINE)
def cell(matrix: int, width: int, row: int, column: int) -> int:
    """Return the address of an element of an int64 matrix."""
    return matrix + 8 * (row * width + column)
