"""Runs of one flow, started one after the other as a scheduler that retries would, and how long recoveries take."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

from databus import Flow
from tests.faults.report import Report
from tests.faults.schedule import Fault
from tests.faults.world import Run, World

STUCK_S = 90.0


class FlowRuns:
    """Starts runs, and notes how they end.

    Attributes:
        all: every run so far.
        fault: what is tried just now; findings name it.
        stuck_s: a commit that takes longer is a finding.
    """

    stuck_s = STUCK_S

    def __init__(self, world: World, flow: Flow, report: Report, while_waiting: Callable[[], None]):
        """Start nothing yet; `while_waiting` is called again and again while commits are waited for."""
        self._world, self._flow, self._report, self._while_waiting = world, flow, report, while_waiting
        self.all: list[Run] = []
        self.fault = "none"
        self._owed: tuple[str, float] | None = None

    def slot(self, fault: Fault) -> int:
        """Return whose executor a fault hits: in the live lane that of the first slot writes all of them."""
        return 0 if self._flow.mode == "live" else fault.slot

    def start(self, fault: Fault | None = None, action: str = "", **options: Any) -> Run:
        """Start a run, with the point of a fault armed in it."""
        command: dict[str, Any] = {}
        if fault is not None and fault.point:
            group = fault.kind in ("kill both", "zombie both")
            command["point"] = {
                "point": fault.point, "hit": fault.hit, "action": action, "group": group,
                "slot": self.slot(fault),
            }  # fmt: skip
        if fault is not None and fault.kind == "kill under a wrong clock":
            command["clock_offset_s"] = fault.clock_offset_s
        rows = options.pop("max_rows", fault.max_rows if fault else 40)
        run = self._world.start(
            self._flow,
            batching={"max_rows": rows, "max_seconds": 0.3},
            limits={"max_seconds": 60, "lease_wait_s": 20, **options},
            **command,
        )
        self.all.append(run)
        self._report.note(f"run {run.number} started as {run.pid}")
        return run

    def committing(self, commits: int, run: Run | None = None, within_s: float = 0.0) -> Run | None:
        """Keep runs going, as a scheduler that retries, until so many batches were committed from now on.

        None, and a finding, where that takes longer than `within_s`, or what is usual.
        """
        within_s = within_s or self.stuck_s
        since, deadline = time.time(), time.monotonic() + within_s
        while time.monotonic() < deadline:
            if run is None or run.status is not None:
                if run is not None:
                    self._report.note_end(run)
                    self._world.expire(run)
                run = self.start()
            fresh = [e for e in run.told("committed") if e["at"] > since]
            if len(fresh) >= commits:
                self.recovered(run)
                return run
            self._while_waiting()
            with run.changed:
                run.changed.wait(0.1)
        last = run.events[-1] if run is not None and run.events else None
        self._report.find("stuck", self.fault, f"no {commits} commits within {within_s:.0f} s; last told: {last}")
        if run is not None:
            run.signal_group(signal.SIGUSR1)  # the stacks of all its threads go to the runs' log
            run.wait_end(2)
            run.signal_group(signal.SIGKILL)
            run.wait_end(10)
            self._world.expire(run)
        return None

    def ended(self, run: Run, within_s: float) -> int | None:
        """Wait until a run has ended by itself; return its exit code, None where it goes on.

        Changes come meanwhile: a run that has nothing to move does not ask for an executor, and misses none.
        """
        deadline = time.monotonic() + within_s
        while run.wait_end(0.5) is None and time.monotonic() < deadline:
            self._while_waiting()
        return run.status

    def stop_in_order(self, run: Run) -> None:
        """Kill the run between faults: what ends a round must not be another fault to be judged."""
        run.signal_group(signal.SIGKILL)
        run.wait_end(10)
        self._report.note_end(run)
        self._world.expire(run)

    def owe(self, fault: str, since: float) -> None:
        """The next commit of any run tells how long the recovery took."""
        self._owed = (fault, since)

    def recovered(self, run: Run) -> None:
        """Note the time from what is owed to this run's first commit after it."""
        if self._owed is None:
            return
        fault, since = self._owed
        after = [e["at"] for e in run.told("committed") if e["at"] > since]
        if after:
            self._report.recovery_s.setdefault(fault, []).append(min(after) - since)
        self._owed = None
