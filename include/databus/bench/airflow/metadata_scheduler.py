"""A real `airflow scheduler` for some seconds; prints how long each loop of its took, as Airflow's own metric says.

Arguments: the seconds, counted from the first loop on, and the tasks to hand out at least. The metric is
`scheduler.scheduler_loop_duration`; its backend stands here in the place of the StatsD client, so that every loop is
reported, and none is lost on the way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from airflow.__main__ import main as airflow
from airflow._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow._shared.observability.metrics.protocols import Timer
from airflow.observability.metrics import stats_utils

from databus.bench.airflow.metadata_executor import InstantExecutor

_SETTLE = 5
"""Loops after the last task that must be handed out: in one of them its run ends."""
LOOP = "scheduler.scheduler_loop_duration"


class _Loops:
    """Times each loop, as a StatsD client's timer would be asked to; ends the process after the last.

    Attributes:
        seconds: how long loops are timed from the first one on.
        tasks: so many must have been handed out before the end.
        done: seconds, and tasks handed out, of each.
    """

    def __init__(self, seconds: float, tasks: int):
        self.seconds, self.tasks = seconds, tasks
        self.done: list[tuple[float, int]] = []
        self._first = self._began = 0.0
        self._ended = self._after = 0

    def start(self) -> None:
        """Begin a loop."""
        self._began, self._ended = time.perf_counter(), InstantExecutor.ended
        self._first = self._first or self._began

    def stop(self) -> None:
        """End a loop."""
        now = time.perf_counter()
        self.done.append((now - self._began, InstantExecutor.ended - self._ended))
        self._after += InstantExecutor.ended >= self.tasks
        if now - self._first >= self.seconds and self._after >= _SETTLE:
            os.kill(os.getpid(), signal.SIGTERM)


def main(seconds: float, tasks: int) -> None:
    """Run the scheduler; print [seconds, tasks] of each loop as the last line."""
    loops = _Loops(seconds, tasks)

    class Backend(NoStatsLogger):  # type: ignore[misc]
        @classmethod
        def timer(cls, *arguments: Any, **_options: Any) -> Timer:
            return Timer(loops if arguments[:1] == (LOOP,) else None)

    stats_utils.get_stats_factory = lambda: Backend
    sys.argv = ["airflow", "scheduler", "--skip-serve-logs"]
    try:
        airflow()
    except SystemExit as over:
        if over.code:
            raise
    sys.stdout.write("\n" + json.dumps(loops.done) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
