"""Work that may take its time gives way to flows that move rows on the same machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BY = 5
"""Steps of niceness: a third of the weight of a window, so that work of some seconds still ends within a minute."""


@contextmanager
def giving_way() -> Iterator[None]:
    """Lower the priority of this thread, and of those that it starts, while the block runs.

    It stays lowered where the account may not raise it again; use it where a process ends with the work.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, before + BY)
    try:
        yield
    finally:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)
