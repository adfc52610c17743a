"""Lane of a flow in words: by its definition, by the tables of its source, and in `databus plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus import Filter, Flow, InRange, Mask, Noop
from databus.cli.main import app
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.core.tables.wanted import TablesNow
from databus.core.times import SystemClock
from databus.ops.flows.lanes import lane_of, lanes_now
from databus.ops.runs.preview import preview
from databus.runtime.context import Services
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints
from databus.testing.table_batches import table

SOUNDING = Filter("xpath_boolean(name, 'a')", tables=("shop.people",))
TABLES = (
    table("shop.orders", {"id": "int", "amount": "int"}),
    table("shop.people", {"id": "int", "name": "text"}, schema_id=1),
)


class Defined(MockSource):
    """A source whose server tells the definitions of its tables."""

    def tables_now(self) -> TablesNow:
        return TablesNow("mock", TABLES, (), (), (), lambda _: True)  # type: ignore[arg-type]

    def tables_gone(self, standing: Any = None) -> tuple[str, ...]:
        return ()

    def tables_may_be_gone(self) -> bool:
        return False


def flow_of(**changes: Any) -> Flow:
    return Flow(name="one", source=Mock(tables=("shop.orders", "shop.people"), rows=4), sinks=(Noop(),), **changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "direct"),
        ({"transforms": (Mask("name"),)}, "direct, where the types of a table's columns allow it ("),
        ({"checks": (InRange("amount", 1),)}, "direct, where the types of a table's columns allow it ("),
        ({"lane": "spark"}, 'Spark, because lane="spark" says so'),
        ({"checks": (InRange("amount", 1, severity="fail"),)}, "Spark, because check in_range(amount, 1..) sees rows"),
    ],
)
def test_the_definition_says_as_much_as_it_can(changes: dict[str, Any], told: str) -> None:
    assert lane_of(flow_of(**changes)).startswith(told)


def test_each_table_says_its_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mock, "open", lambda spec, *_: Defined(spec))

    lanes = lanes_now(flow_of(transforms=(SOUNDING,)), EnvironmentConnections({}))

    assert lanes["shop.orders"] == "direct"
    assert lanes["shop.people"].startswith("Spark, because filter \"xpath_boolean(name, 'a')\": ")
    assert lanes["shop.people"].endswith(" is not compiled")


def test_plan_and_show_tell_it(tmp_path: Path) -> None:
    flow = flow_of(transforms=(Filter("id > 0", tables=("shop.orders",)),))
    services: Any = Services(
        Settings("t", "", ""), EnvironmentConnections({}), MemoryCheckpoints(), None, None, SystemClock()
    )  # type: ignore[arg-type]
    assert preview(flow, services).lanes == {"shop.orders": "direct", "shop.people": "direct"}
    lacking = flow_of(transforms=(Filter("missing > 0"),))
    assert preview(lacking, services).lanes["*"].startswith("none: filter 'missing > 0': shop.orders has no column")

    file = tmp_path / "one.py"
    file.write_text(f"from databus.registry import flow_from_json\nflow = flow_from_json({flow.to_json()!r})")
    words = ["flows", "show", "one", "--dags", str(tmp_path), "--output", "json"]
    shown = CliRunner().invoke(app, words)
    assert json.loads(shown.stdout)["lane_taken"].startswith("direct, where")
    connected = CliRunner().invoke(app, [*words, "--connect"])
    assert json.loads(connected.stdout)["lane_taken"]["*"].startswith("direct, where")
