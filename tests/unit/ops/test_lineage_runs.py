"""Lineage of windows through the client's own file transport: one START, one end, valid by OpenLineage's schemas."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openlineage.client import OpenLineageClient

from databus import Flow, Kafka, MysqlBinlog
from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.core.tables.column_lineage import ColumnStep, FieldLineage, TableLineage
from databus.ops.runs import lineage_events as lineage_runs
from databus.ops.runs.lineage_events import BACKLOG, LineageTeller
from databus.records.lineage.events import run_uuid
from databus.records.lineage.windows import WindowRun
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.openlineage_schemas import assert_valid
from tests.contract.record_samples import NOON, report

FLOW = Flow(
    name="orders_to_kafka",
    source=MysqlBinlog(conn_id="shop", tables=("shop.orders",)),
    sinks=(Kafka(conn_id="east", topic="cdc.orders"),),
)
CONNECTIONS = EnvironmentConnections({
    "AIRFLOW_CONN_SHOP": json.dumps({"conn_type": "mysql", "host": "db", "login": "u", "password": "s3cret"}),
    "AIRFLOW_CONN_EAST": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "k:9092"}}),
})  # fmt: skip
PARENT = "01901d2e-5a4c-7000-8000-000000000001"


@dataclass
class Told:
    """A teller, and the lines that its transport wrote."""

    file: Path
    settings: Settings

    @property
    def teller(self) -> LineageTeller:
        """A process of its own each time, as an attempt is."""
        transport = {"type": "file", "log_file_path": str(self.file), "append": True}
        client = OpenLineageClient(config={"transport": transport})
        return LineageTeller(FLOW, CONNECTIONS, self.settings, "databus", client.emit)

    @property
    def broken(self) -> LineageTeller:
        """A teller whose transport cannot be reached."""
        blocked = Told(self.file.parent / "missing" / "events", self.settings)
        return blocked.teller

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    @property
    def kinds(self) -> list[str]:
        return [event["eventType"] for event in self.events]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "events.ndjson", Settings("test", str(tmp_path), f"sqlite:///{tmp_path / 'records.db'}"))


def test_attempts_tell_one_start_and_one_end(told: Told) -> None:
    told.teller.started("r1", 0, PARENT)  # killed
    told.teller.started("r1", 0, PARENT)  # its retry
    with SqlRecorder.open(told.settings.records_url) as recorder:
        recorder.record(report(1, "r1"))
        recorder.record(report(2, "r1"))
    told.teller.ended("r1", 0, "COMPLETE")
    told.teller.ended("r1", 0, "FAIL")
    told.teller.close_left_open("r2", lambda _: "success")
    start, end = told.events
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert datetime.fromisoformat(start["eventTime"]) <= datetime.fromisoformat(end["eventTime"])
    assert {(d["namespace"], d["name"]) for d in start["inputs"]} == {("mysql://db:3306", "shop.orders")}
    assert {(d["namespace"], d["name"]) for d in end["outputs"]} == {("kafka://k:9092", "cdc.orders")}
    assert end["run"]["facets"]["parent"]["run"]["runId"] == PARENT
    assert end["run"]["facets"]["databus"]["values"]["batches"] == [1, 2]
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 20
    assert (end["job"]["namespace"], end["job"]["name"]) == ("databus", "orders_to_kafka.window")
    assert "s3cret" not in told.file.read_text()
    assert set(assert_valid(start)) == {"databus", "parent", "jobType", "tags"}
    assert set(assert_valid(end)) >= {"inputStatistics", "outputStatistics", "dataQualityAssertions"}


def test_the_end_tells_what_each_field_is_made_of(told: Told) -> None:
    mask, rule = ColumnStep("mask email", masking=True), ColumnStep("filter amt > 1")
    orders = TableLineage(
        "shop.orders",
        "kafka",
        "cdc.orders",
        (FieldLineage("after.total", "amt"), FieldLineage("after.email", "email", (mask,))),
        (FieldLineage("", "amt", (rule,)),),
    )
    other = TableLineage("shop.returns", "kafka", "cdc.orders", (FieldLineage("after.total", "sum"),))
    elsewhere = TableLineage("shop.orders", "kafka", "cdc.others", (FieldLineage("after.total", "nothing"),))
    told.teller.started("r1", 0, PARENT)
    with SqlRecorder.open(told.settings.records_url) as recorder:
        for number in (1, 2):
            recorder.record(report(number, "r1", columns=(orders, other, elsewhere)))
        recorder.record(report(3, "r2", columns=(elsewhere,)))
    told.teller.ended("r1", 0, "COMPLETE")
    end = told.events[-1]
    assert "columnLineage" in assert_valid(end)
    (output,) = end["outputs"]
    facet = output["facets"]["columnLineage"]
    identity = {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
    place = {"namespace": "mysql://db:3306", "name": "shop.orders"}
    masked = {"type": "DIRECT", "subtype": "TRANSFORMATION", "description": "mask email", "masking": True}
    assert {name: field["inputFields"] for name, field in facet["fields"].items()} == {
        "after.total": [
            {**place, "field": "amt", "transformations": [identity]},
            {**place, "name": "shop.returns", "field": "sum", "transformations": [identity]},
        ],
        "after.email": [{**place, "field": "email", "transformations": [masked]}],
    }
    left_out = {"type": "INDIRECT", "subtype": "FILTER", "description": "filter amt > 1", "masking": False}
    assert facet["dataset"] == [{**place, "field": "amt", "transformations": [left_out]}]
    unknown = end["run"]["facets"]["databus"]["values"]["columns_unknown"]
    assert unknown == [{"table": "shop.items", "reason": "no columns were noted when its rows were moved"}]


def test_what_is_unknown_is_said_and_nothing_is_invented(told: Told) -> None:
    why = "transform 'scripted' does not say which columns its values come from"
    told.teller.started("r1", 0, PARENT)
    with SqlRecorder.open(told.settings.records_url) as recorder:
        lost = tuple(TableLineage(f"shop.{name}", "kafka", "cdc.orders", unknown=why) for name in ("orders", "items"))
        recorder.record(report(1, "r1", columns=lost))
    told.teller.ended("r1", 0, "COMPLETE")
    end = told.events[-1]
    assert "columnLineage" not in assert_valid(end)
    assert end["run"]["facets"]["databus"]["values"]["columns_unknown"] == [
        {"table": "shop.items", "reason": why},
        {"table": "shop.orders", "reason": why},
    ]


def test_a_schema_would_refuse_what_is_wrong(told: Told) -> None:
    told.teller.started("r1", 0, PARENT)
    (event,) = told.events
    for change in ({"eventTime": "yesterday"}, {"run": {"runId": "r1"}}, {"inputs": [{"name": "x"}]}):
        with pytest.raises(jsonschema.ValidationError):
            assert_valid({**event, **change})


def test_a_window_whose_last_attempt_was_killed_is_ended_by_the_next_run(told: Told) -> None:
    told.teller.started("r1", 0, PARENT)
    told.teller.started("r2", 0, PARENT)
    told.teller.started("r3", 0, PARENT)
    states = {"r1": "failed", "r2": "running", "r3": ""}
    told.teller.close_left_open("r4", states.__getitem__)
    assert told.kinds == ["START", "START", "START", "FAIL", "ABORT"]
    assert [e["run"]["runId"] for e in told.events[3:]] == [told.events[i]["run"]["runId"] for i in (0, 2)]
    told.teller.close_left_open("r2", states.__getitem__)  # its own window is open while it runs
    told.teller.close_left_open("r4", states.__getitem__)
    assert len(told.events) == 5


def test_a_cleared_run_is_another_one(told: Told) -> None:
    told.teller.started("r1", 0, PARENT)
    told.teller.started("r1", 1, PARENT)  # cleared while it ran: nobody ended it
    told.teller.ended("r1", 1, "COMPLETE")
    told.teller.started("r1", 2, PARENT)  # cleared after its end
    told.teller.ended("r1", 2, "COMPLETE")
    assert told.kinds == ["START", "ABORT", "START", "COMPLETE", "START", "COMPLETE"]
    ids = [event["run"]["runId"] for event in told.events]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert ids[4] == ids[5]
    assert len(set(ids)) == 3


def test_what_could_not_be_sent_is_sent_later_with_its_own_time(told: Told) -> None:
    told.broken.started("r1", 0, PARENT)
    assert told.events == []
    told.broken.ended("r1", 0, "COMPLETE")
    assert told.events == []
    told.teller.close_left_open("r2", lambda _: "running")
    assert told.kinds == ["START", "COMPLETE"]
    told.teller.close_left_open("r3", lambda _: "running")
    assert told.kinds == ["START", "COMPLETE"]


def backlog(told: Told, windows: int) -> list[str]:
    """Windows that began and ended while the lineage server was away."""
    runs = [f"r{number:03}" for number in range(windows)]
    for run in runs:
        told.broken.started(run, 0, "")
        told.broken.ended(run, 0, "COMPLETE")
    assert told.events == []
    return runs


def ended(told: Told) -> list[str]:
    """Run ids of the windows whose end was sent, as their events name them."""
    return [event["run"]["runId"] for event in told.events if event["eventType"] != "START"]


def uuids(told: Told, runs: list[str]) -> list[str]:
    return [run_uuid(told.settings.installation, WindowRun(FLOW.name, run, 0, NOON)) for run in runs]


def test_a_long_backlog_is_sent_in_parts(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = backlog(told, 3 * BACKLOG)
    opened: list[RecordStore] = []
    monkeypatch.setattr(lineage_runs, "RecordStore", lambda url: opened.append(store := RecordStore(url)) or store)
    told.teller.close_left_open("next", lambda _: "success")
    assert len(opened) == 1
    assert len(ended(told)) == BACKLOG == 20
    for number in range(2):
        told.teller.close_left_open(f"next{number}", lambda _: "success")
    assert sorted(ended(told)) == sorted(uuids(told, runs))


@pytest.mark.parametrize(
    ("at_once", "windows", "poisoned"), [(4, 10, 1), (4, 20, 12), (BACKLOG, 50, 1), (BACKLOG, 100, 60)]
)
def test_windows_that_are_refused_again_and_again_keep_no_other_waiting(
    told: Told, monkeypatch: pytest.MonkeyPatch, at_once: int, windows: int, poisoned: int
) -> None:
    monkeypatch.setattr(lineage_runs, "BACKLOG", at_once)
    monkeypatch.setattr(lineage_runs, "_REFUSED_AT_MOST", 2 * at_once)
    runs = backlog(told, windows)
    bad, good = set(uuids(told, runs[:poisoned])), sorted(uuids(told, runs[poisoned:]))
    teller = told.teller
    asked: list[str] = []

    def picky(event: Any) -> None:
        asked.append(event.run.runId)
        if event.run.runId in bad:
            raise ValueError("the server takes no such event")
        teller.emit(event)

    for number in range(30):
        before, there = len(asked), len(ended(told))
        replace(teller, emit=picky).close_left_open(f"next{number}", lambda _: "success")
        assert len(ended(told)) - there <= at_once
        assert len(set(asked[before:])) <= 3 * at_once
    assert sorted(ended(told)) == good


def test_a_server_that_keeps_each_event_waiting_holds_no_preflight_up(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest window makes the server wait for its time limit each time; the others are told nevertheless."""
    runs = backlog(told, 6)
    slow, *rest = uuids(told, runs)
    teller, clock, asked = told.teller, 0.0, 0
    monkeypatch.setattr(lineage_runs.time, "monotonic", lambda: clock)  # type: ignore[attr-defined]

    def waits(event: Any) -> None:
        nonlocal clock, asked
        asked += 1
        if event.run.runId == slow or away:
            clock += 40.0
            raise TimeoutError
        teller.emit(event)

    away = True
    replace(teller, emit=waits).close_left_open("next", lambda _: "success")
    assert asked == 1
    away = False
    for number in range(30):
        replace(teller, emit=waits).close_left_open(f"next{number}", lambda _: "success")
    assert sorted(ended(told)) == sorted(rest)


def test_lineage_fails_no_window(told: Told) -> None:
    lost = LineageTeller(FLOW, CONNECTIONS, Settings("test", "/tmp", "sqlite:////proc/none/records.db"), "n", print)
    lost.started("r1", 0, PARENT)
    lost.ended("r1", 0, "COMPLETE")
    assert told.events == []
