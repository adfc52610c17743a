"""Keeps one run of the flow going, as a scheduler that retries does, and remembers what the runs committed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from databus import Flow
from tests.faults.report import Report
from tests.faults.world import Run, World

PAUSE_S = 0.5
"""Between the end of a run and the start of the next."""


class Supervisor:
    """Starts a run whenever the one before has ended or was let go.

    Attributes:
        runs: all runs so far.
    """

    def __init__(self, world: World, flow: Flow, report: Report, spark: Callable[[], str], **options: Any):
        """Keep a flow going.

        Args:
            world: the servers.
            flow: the flow.
            report: takes notes of starts and ends.
            spark: asked at each start for the Spark server's URL, which a restart may move; "" for none.
            options: of each run.
        """
        self._world, self._flow, self._report, self._spark, self._options = world, flow, report, spark, options
        self.runs: list[Run] = []
        self._let_go = threading.Event()
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._keep_going, name="supervisor", daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin with the first run."""
        self._thread.start()

    def stop(self) -> None:
        """End all runs, and start none any more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        for run in self.runs:
            run.signal_group(signal.SIGKILL)  # also executors that outlived their driver
        for run in self.runs:
            run.wait_end(10)

    def claimed(self, timeout_s: float = 60) -> Run:
        """Return the present run, once it holds the lease.

        Raises:
            TimeoutError: no run got so far.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._error is not None:
                raise self._error
            run = self.runs[-1] if self.runs else None
            if run is not None and run.status is None and run.told("claimed"):
                return run
            time.sleep(0.05)
        raise TimeoutError("no run holds the lease")

    def let_go(self) -> None:
        """Start another run beside the present one, which nobody looks after any more."""
        self._let_go.set()

    def commits(self, after: float) -> list[float]:
        """Return the times of all commits after a time, sorted."""
        return sorted(e["at"] for run in list(self.runs) for e in run.told("committed") if e["at"] > after)

    def last_told(self) -> str:
        """Return the last event of the present run, for a finding."""
        run = self.runs[-1] if self.runs else None
        return f"run {run.number}: {run.events[-1:]}" if run is not None else "no run"

    def _keep_going(self) -> None:
        try:
            while not self._stop.is_set():
                run = self._world.start(self._flow, spark=self._spark(), **self._options)
                self.runs.append(run)
                self._report.note(f"run {run.number} started as {run.pid}")
                while run.wait_end(0.1) is None and not self._stop.is_set() and not self._let_go.is_set():
                    pass
                self._let_go.clear()
                if run.status is not None:
                    self._report.note_end(run)
                    self._stop.wait(PAUSE_S)
        except BaseException as error:  # noqa: BLE001 - told by claimed()
            self._error = error
