"""Ports of the tests' servers: each process of a test run has a range of its own."""

from __future__ import annotations

import os

# All are below the range from which the kernel takes ports of outgoing connections (32768 on).
_APART = 11_000


def ports_from(first: int) -> int:
    """First port of a sandbox in this process: `first`, or as much lower as the process has others before it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return first - _APART * (worker % 2)
