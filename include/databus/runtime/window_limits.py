"""Window limits: when a window ends, and how it is steered from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from databus.core.batches.report import BatchReport
from databus.core.flow import Mode
from databus.runtime.drain import Drain


@dataclass(frozen=True)
class WindowLimits:
    """Window limits: when a window ends.

    Attributes:
        max_seconds: no new batch is begun after this long.
        max_batches: no new batch is begun after this many; None for no bound.
        until_caught_up: end when the source has nothing new. In a log that others write too there always is: the window
            ends there once it has passed what was the head when it began, and found nothing more of the flow's own.
        lease_wait_s: how long to wait for another holder's lease before giving up.
        store_wait_s: how long to wait for a checkpoint store that is away before the run fails; what it has planned
            stays for the next.
        hands_over: end at once when another run waits for the lease; without, that one waits for the whole window.
    """

    max_seconds: float = 50.0
    max_batches: int | None = None
    until_caught_up: bool = False
    lease_wait_s: float = 30.0
    store_wait_s: float = 60.0
    hands_over: bool = True

    @classmethod
    def of_a_run(cls, seconds: float, mode: Mode = "standard") -> WindowLimits:
        """Return the limits of a scheduled run: it outwaits its predecessor's window, and a dead one's session.

        In economy mode it ends once nothing is new; else it goes on until its successor waits for the lease.
        """
        wait_s = max(seconds, cls.lease_wait_s)
        return cls(max_seconds=seconds, until_caught_up=mode == "economy", lease_wait_s=wait_s)


@dataclass(frozen=True)
class WindowControl:
    """Window control from outside.

    Attributes:
        limits: when it ends.
        drain: asks it to end early.
        on_batch: called after each committed batch.
    """

    limits: WindowLimits = field(default_factory=WindowLimits)
    drain: Drain = field(default_factory=Drain)
    on_batch: Callable[[BatchReport], None] = lambda _report: None
