"""Ports of the tests' servers: each process of a test run has a range of its own."""

from __future__ import annotations

import os

FIRST, APART = 22_700, 10_000
"""Servers are asked for from the first port on, within so many; a second and third process have theirs as much lower.

All of them are above the well-known ones, and below the range from which the kernel takes ports of outgoing connections
(32768 on).
"""

AIRFLOW = range(25_000, 27_000)
"""The part of each range that tests/e2e alone asks for: a process may take other tests once Airflow has gone."""

PROCESSES = 3
"""There are ports for so many."""


def ports_from(first: int) -> int:
    """First port of a sandbox in this process: `first`, or as much lower as the process has others before it.

    Raises:
        ValueError: there are more processes than ranges of ports.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if worker >= PROCESSES:
        raise ValueError(f"process gw{worker} has no ports of its own: a run has at most {PROCESSES} processes (-n)")
    return first - APART * worker
