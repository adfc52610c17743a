"""Memory with a guard page behind it: kernels check no bounds, so the machine does."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import numpy.typing as npt


class Fenced:
    """Memory that ends where no byte can be read or written: a touch beyond it kills the process."""

    def __init__(self, size: int = 1 << 20) -> None:
        page = mmap.PAGESIZE
        self.size = size
        self._pages = mmap.mmap(-1, self.size + page)
        self._memory = np.frombuffer(self._pages, dtype=np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        self._protect = libc.mprotect
        self._protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._fence = self._memory.ctypes.data + self.size
        assert self._protect(self._fence, page, 0) == 0  # PROT_NONE

    def last(self, size: int) -> npt.NDArray[np.uint8]:
        """Return the last bytes before the guard page."""
        return self._memory[self.size - size : self.size]

    def open(self) -> None:
        """Take the guard away, so that the memory can be given back."""
        assert self._protect(self._fence, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
