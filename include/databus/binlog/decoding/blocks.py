"""Large blocks of memory that are used again: fresh pages cost more than what is written to them.

A block is taken again once nothing refers to it: neither an array nor an Arrow buffer. Each thread keeps its own.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
import numpy.typing as npt

Block = npt.NDArray[np.uint8]

_KEPT = 4
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 128 << 20
_UNUSED_REFERENCES = 3
"""Those of the list, of the variable that looks at it, and of `getrefcount` itself."""


class _KeptBlock(threading.local):
    def __init__(self) -> None:
        self.blocks: list[Block] = []


_kept = _KeptBlock()


def take_block(size: int) -> Block:
    """Return memory of at least so many bytes with whatever it held before."""
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        return np.empty(size, dtype=np.uint8)
    blocks = _kept.blocks
    for number in range(len(blocks)):
        block = blocks[number]
        if size <= len(block) <= 2 * size and sys.getrefcount(block) == _UNUSED_REFERENCES:
            blocks.append(blocks.pop(number))
            return block
    if len(blocks) == _KEPT:
        blocks.pop(0)
    block = np.empty(size, dtype=np.uint8)
    blocks.append(block)
    return block
