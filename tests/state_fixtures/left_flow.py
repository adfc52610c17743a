"""Flow of a kept state: a run of it by the databus on the path, which is killed where it is told to be.

A program of its own, so that a checkout of an earlier commit runs it too: it names only what both have. Input is JSON:
flow, start, until ("", "plan" or "half"), batches, segments, records. Connections are variables, as for `databus run`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

INSTALLATION = "kept"
SNAPSHOT = "kept_snapshot"
MAX_ROWS = 12


def left_flow(name: str, start: str) -> Any:
    """Return the flow of a name; `kept_snapshot` begins with the rows of its table."""
    from databus import Batching, Flow, Kafka, MysqlBinlog, NotNull

    sink = Kafka(conn_id="kafka_east", topic=name, name="kafka", slots=2, partitions=2)
    if name == SNAPSHOT:
        source = MysqlBinlog(conn_id="mysql_shop", tables=("kept_shop.people",), snapshot="initial")
        return Flow(name=name, source=source, sinks=(sink,), batching=Batching(max_rows=MAX_ROWS))
    return Flow(
        name=name,
        source=MysqlBinlog(conn_id="mysql_shop", tables=("kept_shop.orders", "kept_shop.items"), start=start),
        checks=(NotNull("customer", tables=("kept_shop.orders",)),),
        sinks=(sink,),
        batching=Batching(max_rows=MAX_ROWS),
    )


class InlineEngine:
    """Runs a task of the direct lane in this process, slot by slot: what that lane asks of a Spark session."""

    def __init__(self, numbers: range = range(0), task: Callable[[Iterable[Any]], Iterable[Any]] | None = None):
        self._numbers, self._task = numbers, task

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """There are no jobs."""

    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """There are no jobs."""

    def range(self, start: int, end: int, step: int, partitions: int) -> InlineEngine:
        """Return numbers, one to a task."""
        return InlineEngine(range(start, end))

    def mapInArrow(self, task: Any, _schema: str) -> InlineEngine:  # noqa: N802 - Spark's name
        return InlineEngine(self._numbers, task)

    def collect(self) -> list[dict[str, Any]]:
        import pyarrow as pa

        assert self._task is not None
        given = ([pa.RecordBatch.from_pydict({"id": pa.array([n], pa.int64())})] for n in self._numbers)
        return [row for batch in given for answer in self._task(batch) for row in answer.to_pylist()]


def _die_at(until: str) -> None:
    """Kill this process before the first row is written ("plan"), or with rows of one slot committed ("half").

    Of the other slot all rows are in the broker then, in a transaction that stays open.
    """
    from databus.sinks.kafka.session import Session

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    commit, committed = Session.commit, []

    def commits(self: Any, marker: Any) -> None:
        if committed:
            self.flush()
            die()
        commit(self, marker)
        committed.append(marker)

    if until == "plan":
        Session.begin = lambda *_, **__: die()  # type: ignore[method-assign]
    elif until == "half":
        Session.commit = commits  # type: ignore[method-assign]


def _imported(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(f"databus.{name}")
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(names)


def run(wanted: Mapping[str, Any]) -> None:
    """Run a window of the flow."""
    from databus import __version__
    from databus.connections.environment import EnvironmentConnections
    from databus.core.settings import Settings
    from databus.ops.services import open_services
    from databus.runtime.context import RunIdentity
    from databus.runtime.window_limits import WindowControl, WindowLimits

    run_flow = _imported("ops.runs.run", "ops.run").run_flow
    _die_at(wanted["until"])
    flow = left_flow(wanted["flow"], wanted["start"])
    settings = Settings(INSTALLATION, wanted["segments"], wanted["records"], segment_keep="3650d")
    limits = WindowLimits(max_seconds=120, max_batches=wanted["batches"], until_caught_up=True, lease_wait_s=30)
    with open_services(flow, EnvironmentConnections(dict(os.environ)), settings) as services:
        identity = RunIdentity("kept-run", "http://airflow/kept", __version__)
        run_flow(flow, services, InlineEngine(), identity, WindowControl(limits))


if __name__ == "__main__":
    run(json.load(sys.stdin))
