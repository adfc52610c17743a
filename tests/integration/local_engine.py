"""An engine in this process for flows of the direct lane: tasks run one after the other, servers and path are real.

What is tested with it has nothing to do with Spark, and many short runs of it cost seconds instead of minutes.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from databus import Flow, __version__
from databus.ops.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.direct import may_be_direct
from databus.runtime.window import WindowControl, WindowLimits, WindowResult
from tests.integration.conftest import World

_NUMBERS = itertools.count(1)


class LocalEngine:
    """As much of a Spark session as the direct lane asks for."""

    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Do nothing: nothing outlives a call."""

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def range(self, start: int, end: int, step: int, partitions: int) -> _Numbers:
        """Return numbers, one to a task."""
        assert (step, partitions) == (1, end - start)
        return _Numbers(list(range(start, end)))


class _Numbers:
    def __init__(self, numbers: list[int]):
        self._numbers = numbers
        self._run: Callable[[Any], Any] | None = None

    def mapInArrow(self, run: Callable[[Any], Any], _schema: str) -> _Numbers:  # noqa: N802 - Spark's name
        self._run = run
        return self

    def collect(self) -> list[dict[str, Any]]:
        assert self._run is not None
        batches = ([pa.RecordBatch.from_pydict({"id": [number]})] for number in self._numbers)
        return [row for batch in batches for answer in self._run(batch) for row in answer.to_pylist()]


def run_locally(world: World, flow: Flow, **limits: Any) -> WindowResult:
    """Run a window of a direct-lane flow until it has caught up."""
    assert may_be_direct(flow)
    control = WindowControl(WindowLimits(max_seconds=120, until_caught_up=True, lease_wait_s=0, **limits))
    identity = RunIdentity(f"local-{next(_NUMBERS)}", "", __version__)
    with open_services(flow, world.connections, world.settings) as services:
        try:
            return run_flow(flow, services, LocalEngine(), identity, control)
        finally:
            gc.collect()
