"""A flow is as far behind as the sink that is furthest behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus import Flow, MysqlBinlog, Noop
from databus.cli.main import app
from databus.connections.environment import EnvironmentConnections
from databus.core.connections import Connection
from databus.core.errors import ConnectionMissingError
from databus.core.positions.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.ops.health.lag import Beginning, measure, measure_each
from databus.runtime.context import Services
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from tests.contract.amendments import FLOW, move


def services_of(store: Any) -> Services:
    recorder: Any = None
    return Services(Settings("test", "", ""), EnvironmentConnections({}), store, None, recorder, SystemClock())


def test_the_sink_furthest_behind_counts() -> None:
    store: Any = MemoryCheckpoints()
    services = services_of(store)
    flow = Flow(name=FLOW, source=Mock(rows=10), sinks=(Noop(name="kafka"), Noop(name="search")))
    lease: Any = store.claim(FLOW, "run-1", wait_s=0)
    store.start(FLOW, lease, SequenceOffset(0), "run-1")
    store.detach(FLOW, lease, "search", "away")
    move(store, lease, 5)

    assert store.load(FLOW).offset == SequenceOffset(5)
    assert measure(flow, services).committed == str(SequenceOffset(0))


@pytest.mark.parametrize(("start", "at"), [("earliest", "0"), ("latest", "1")])
def test_a_flow_that_never_ran_is_told_as_such_with_its_beginning_and_the_head(
    start: Any, at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flow = Flow(name=FLOW, source=Mock(rows=10, start=start), sinks=(Noop(),))
    found = measure(flow, services_of(MemoryCheckpoints()))
    assert (found.committed, found.lag, found.error) == (None, None, None)
    assert found.beginning == Beginning(start, at, "1")

    (tmp_path / "flow.py").write_text(
        f"from databus import Flow, Mock, Noop\n"
        f"flow = Flow(name={FLOW!r}, source=Mock(rows=10, start={start!r}), sinks=(Noop(),))\n"
    )
    monkeypatch.setattr("databus.ops.health.lag.measure_each", lambda *_: [found])
    table = CliRunner().invoke(app, ["lag", FLOW, "--dags", str(tmp_path)], terminal_width=200)
    assert f"not started: begins at {at} (start={start})" in " ".join(table.stdout.split())
    assert "head 1" in " ".join(table.stdout.split())
    (row,) = json.loads(CliRunner().invoke(app, ["lag", FLOW, "--dags", str(tmp_path), "-o", "json"]).stdout)
    assert (row["committed"], row["head"], row["not_started"]) == (None, "1", {"start": start, "at": at})


def test_a_missing_connection_of_the_source_is_named_before_the_first_run_too() -> None:
    flow = Flow(name="lost", source=MysqlBinlog(conn_id="away", tables=("shop.orders",)), sinks=(Noop(),))
    with pytest.raises(ConnectionMissingError, match="no connection 'away'") as refused:
        measure(flow, services_of(MemoryCheckpoints()))
    assert "AIRFLOW_CONN_AWAY" in refused.value.hint


def test_a_zookeeper_that_is_away_is_waited_for_once_and_hides_no_other() -> None:
    asked = []

    class Asked(EnvironmentConnections):
        def get(self, conn_id: str) -> Connection:
            asked.append(conn_id)
            return super().get(conn_id)

    flows = [
        Flow(name=n, source=Mock(rows=1), sinks=(Noop(),), zookeeper_conn_id=z)
        for n, z in (("a", "z1"), ("b", "z1"), ("c", "z2"))
    ]
    found = measure_each(flows, Asked({}))
    assert asked == ["z1", "z2"]
    assert [f.flow for f in found] == ["a", "b", "c"]
    assert [f.error and f.error.code for f in found] == ["connection_missing"] * 3
