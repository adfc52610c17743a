"""CPU turns of live flows on one machine: no more of their batches run at once than it has cores.

Batches that all run at once slow each other down, and what a batch reads was cut before. One that waits for its turn
first takes what has arrived meanwhile, and is then alone on its core (ADR 40). Only how soon a batch begins depends on
this: a turn that cannot be had in time is done without.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import time
import zlib

log = logging.getLogger(__name__)

WITHIN_S = 0.3
"""A turn that does not come so soon is done without: who holds it may wait for a server that is away."""

_MISSED = 3
_WITHOUT_S = 60.0
"""After so many turns in a row that did not come, none is asked for so long."""

# Linux's <sys/ipc.h> and <sys/sem.h>.
_CREATE, _EXCLUSIVE, _REMOVE, _SET_VALUE, _UNDO = 0o1000, 0o2000, 0, 16, 0x1000


class _Operation(ctypes.Structure):
    _fields_ = (("number", ctypes.c_ushort), ("change", ctypes.c_short), ("flags", ctypes.c_short))


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class MachineTurns:
    """A System V semaphore: the kernel hands a place to whoever waits longest, and takes it from a process that died.

    Used by one thread. Where there are no such semaphores every turn comes at once.
    """

    def __init__(self, places: int | None = None, name: str = "live batches") -> None:
        """Find the machine's semaphore, or make it.

        Args:
            places: turns at once; the number of cores when None.
            name: which semaphore, among those of this user.
        """
        self._places = places or _cores()
        self._key = zlib.crc32(f"databus {name} {os.getuid()} {self._places}".encode()) & 0x7FFFFFFF or 1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._held = False
        self._missed = 0
        self._from = 0.0
        self._set = self._open()

    def take(self) -> None:
        """Wait for a turn, `WITHIN_S` at most; does nothing while one is held."""
        if self._held or self._set < 0 or time.monotonic() < self._from:
            return
        if self._change(-1, WITHIN_S):
            self._held, self._missed = True, 0
            return
        self._missed += 1
        if self._missed >= _MISSED or ctypes.get_errno() != errno.EAGAIN:
            self._make_anew()

    def give_back(self) -> None:
        """End the turn; does nothing when none is held."""
        if self._held:
            self._held = False
            self._change(1, 0.0)

    def _open(self) -> int:
        if not hasattr(self._libc, "semtimedop"):
            return -1
        made = int(self._libc.semget(self._key, 1, _CREATE | _EXCLUSIVE | 0o600))
        if made >= 0:
            self._libc.semctl(made, 0, _SET_VALUE, ctypes.c_int(self._places))
            return made
        found = int(self._libc.semget(self._key, 1, 0o600))
        if found < 0:
            log.info("live flows of this machine take no turns: %s", os.strerror(ctypes.get_errno()))
        return found

    def _make_anew(self) -> None:
        """Do without for a while, and begin with a new semaphore then: whatever is wrong with this one goes with it."""
        log.info("no turn among the live batches of this machine came %d times: going on without", self._missed)
        self._libc.semctl(self._set, 0, _REMOVE)
        self._missed, self._from = 0, time.monotonic() + _WITHOUT_S
        self._set = self._open()

    def _change(self, change: int, within_s: float) -> bool:
        operation = _Operation(0, change, _UNDO)
        limit = _Timespec(int(within_s), int(within_s % 1 * 1e9))
        while True:
            done = self._libc.semtimedop(self._set, ctypes.byref(operation), ctypes.c_size_t(1), ctypes.byref(limit))
            if done == 0:
                return True
            if ctypes.get_errno() != errno.EINTR:
                return False


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
