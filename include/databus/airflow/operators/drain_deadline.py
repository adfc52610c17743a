"""A bound on draining: what cannot be finished before Airflow's SIGKILL is given up while the lease can be released."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from databus.core.errors.root import DatabusError

GRACE_S = 3.5
"""Airflow's supervisor sends SIGKILL 5 s after SIGTERM (`ActivitySubprocess.kill`); the rest is for closing."""


class DrainDeadlineError(DatabusError):
    """The batch in hand was given up; it is taken up again from its plan."""

    code = "drain_deadline"
    retryable = True


class DrainDeadline:
    """Raises DrainDeadlineError in the main thread, some time after `start`, if its block still runs then."""

    def __init__(self) -> None:
        self._inside = False

    def start(self) -> None:
        """Start the clock; nothing outside the block, where there is nothing to give up."""
        if self._inside and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._give_up)
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def __enter__(self) -> DrainDeadline:
        self._inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = False

    def _give_up(self, _number: int, _frame: FrameType | None) -> None:
        if self._inside:
            raise DrainDeadlineError(
                f"the batch in hand was not finished {GRACE_S:g} s after the cancel and is given up",
                hint="The next run takes its plan up again; nothing is lost or repeated.",
            )
