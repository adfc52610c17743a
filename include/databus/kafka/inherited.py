"""Clients in a forked process: its parent's, whose threads do not exist there."""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import WeakSet

_open: WeakSet[Any] = WeakSet()


def note(client: Any) -> None:
    """Note an open client, so that a process that is forked now or later does not destroy it.

    librdkafka's threads are not forked, and to destroy a client waits for them: a child that ended in order, as its
    interpreter dropped what it had inherited, died of SIGSEGV.
    """
    _open.add(client)


def _leave_alone() -> None:
    """Hold what was inherited for ever: beyond the interpreter's end, which clears every module."""
    for client in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _open.clear()


os.register_at_fork(after_in_child=_leave_alone)
