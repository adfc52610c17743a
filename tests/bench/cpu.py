"""CPU seconds of servers and of the processes they start: on a busy machine they say more than wall time."""

from __future__ import annotations

import psutil

from databus.sandbox import Sandbox


def cpu_seconds(sandbox: Sandbox) -> dict[str, float]:
    """Return server → user and system seconds so far of its processes and all that they started, and of this one.

    Python workers of Spark stand apart as `spark_python`.
    """
    spent = {"driver": _own(psutil.Process())}
    for status in sandbox.status():
        for pid in status.processes.values():
            process = psutil.Process(pid)
            spent[status.name] = spent.get(status.name, 0.0) + _own(process)
            for child in process.children(recursive=True):
                name = "spark_python" if status.name == "spark" else status.name
                spent[name] = spent.get(name, 0.0) + _own(child)
    return spent


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return what was spent between two looks."""
    return {name: round(seconds - before.get(name, 0.0), 2) for name, seconds in sorted(after.items())}


def _own(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    # Children that ended and were waited for count with their parent.
    return float(times.user + times.system + times.children_user + times.children_system)
