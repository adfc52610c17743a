"""The direct lane in this process: Spark's part is to call one function per slot, and here a loop does so.

For tests whose subject is what a run leaves behind, not the engine: all else is the real thing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from databus import Flow, __version__
from databus.ops.run import run_flow
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.runtime.window import WindowControl, WindowLimits, WindowResult
from tests.integration.conftest import World


class OneProcess:
    """As much of a Spark session as `runtime/direct.py` asks for."""

    def addTag(self, tag: str) -> None:  # noqa: N802
        """Jobs are not tagged here."""

    def interruptTag(self, tag: str) -> None:  # noqa: N802
        """No job outlives this process."""

    def range(self, start: int, end: int, step: int, partitions: int) -> _Numbers:
        return _Numbers(range(start, end, step))


class _Numbers:
    def __init__(self, numbers: range):
        self._numbers = numbers

    def mapInArrow(self, function: Callable[[Any], Any], schema: str) -> _Rows:  # noqa: N802
        batches = ([pa.RecordBatch.from_pydict({"id": pa.array([n], pa.int64())})] for n in self._numbers)
        return _Rows([row for batch in batches for answer in function(batch) for row in answer.to_pylist()])


class _Rows:
    def __init__(self, rows: list[dict[str, Any]]):
        self._rows = rows

    def collect(self) -> list[dict[str, Any]]:
        return self._rows


class OneProcessWorld(World):
    """Servers without Spark; flows must take the direct lane."""

    def run(self, flow: Flow, **limits: Any) -> WindowResult:
        control = WindowControl(WindowLimits(max_seconds=240, until_caught_up=True, lease_wait_s=0, **limits))
        with open_services(flow, self.connections, self.settings) as services:
            return run_flow(flow, services, OneProcess(), RunIdentity(f"run of {flow.name}", "", __version__), control)
