"""Ports of the tests' servers: each process of a test run has a range of its own."""

from __future__ import annotations

import os

# All are below the range from which the kernel takes ports of outgoing connections (32768 on). Servers are asked for
# from 21,000 on; the third process starts Airflow's alone, from 25,000 on (tests/suite/groups.py).
_LOWER_BY = (0, 11_000, 16_000)


def ports_from(first: int) -> int:
    """First port of a sandbox in this process: `first`, or as much lower as the process has others before it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return first - _LOWER_BY[worker % len(_LOWER_BY)]
