"""Unaligned reads of byte buffers, as single machine instructions; `pointers` does the same at addresses.

None of these checks bounds: callers compare with the end of the event (reads) or the capacity of the arena (writes)
first. Logs and arenas are little-endian, as are all machines that numba and Arrow wheels are built for here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

cgutils: Any = _cgutils  # numba's compiler interface has no types

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

KERNEL: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
"""Options of every kernel."""

INLINE: dict[str, Any] = {**KERNEL, "forceinline": True}
"""Options of what kernels call for each value: a call would cost more than the work."""


def _loader(bits: int) -> Any:
    @intrinsic
    def load(typing_context: Any, buffer: Any, offset: Any) -> Any:  # noqa: ARG001 - numba's calling convention
        signature = types.int64(buffer, types.int64)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            array = context.make_array(sig.args[0])(context, builder, args[0])
            pointer = cgutils.pointer_add(builder, array.data, args[1], ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return signature, codegen

    return load


load_u16 = _loader(16)
"""load(buffer, offset) → unsigned 16-bit integer as int64."""
load_u32 = _loader(32)
load_i64 = _loader(64)


@intrinsic
def copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> Any:  # noqa: ARG001
    """Copy `size` bytes between buffers that do not overlap."""
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to = context.make_array(sig.args[0])(context, builder, args[0])
        origin = context.make_array(sig.args[2])(context, builder, args[2])
        cgutils.raw_memcpy(
            builder,
            cgutils.pointer_add(builder, to.data, args[1]),
            cgutils.pointer_add(builder, origin.data, args[3]),
            args[4],
            1,
        )
        return context.get_dummy_value()

    return signature, codegen


@njit(**INLINE)
def little_endian(buffer: Bytes, at: int, size: int) -> int:
    """Read `size` (≤ 8) bytes, least significant first."""
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(buffer[at + k]) << (8 * k)
    return value  # type: ignore[return-value]  # numba's int64 is Python's int outside
