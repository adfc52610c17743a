"""Each verb of the command line and its route: the same answer, and the same effect on real servers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from databus import Batching, Flow, Kafka, MysqlBinlog, NotNull
from databus.ops.services import open_services
from databus.web.app import create_app
from databus.web.installation import Access, DagFlow, Installation
from databus.web.operations import add_operations
from tests.integration.command_line import CliHere
from tests.integration.conftest import Started, World
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import OneProcess, OneProcessWorld, run_locally
from tests.integration.statements import run_sql
from tests.unit.web.described import checked

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

DAG = "orders_of_the_night"
"""The flow's DAG has another name than the flow."""


class Desk:
    """A flow over one table, whose rows a check may hold, the command and the routes on it."""

    def __init__(self, world: World, name: str, folder: Path):
        self.world, self.name = world, name
        with world.sql() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        self.execute("CREATE TABLE orders (id INT PRIMARY KEY, email VARCHAR(50))")
        with world.sql() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = cursor.fetchone()[:2]
        self.flow = Flow(
            name=name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{name}.orders",), start=f"{file}:{position}"),
            checks=(NotNull("email"),),
            sinks=(Kafka(conn_id="kafka_east", topic=name),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )
        lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({self.flow.to_json()!r})")
        (folder / f"{name}.py").write_text("\n".join(lines))
        self.cli = CliHere(world, folder)
        self.notes: list[tuple[Any, ...]] = []
        self.client = TestClient(
            create_app(_ok, _ok, folder, partial(add_operations, access=_all(self), installation=_on(self)))
        )

    def execute(self, *statements: str) -> None:
        with self.world.sql(self.name) as connection:
            run_sql(connection, *statements)

    def batch(self, *rows: str) -> None:
        """Write rows and run the flow: one batch."""
        self.execute(*(f"INSERT INTO orders VALUES ({row})" for row in rows))
        run_locally(self.world, self.flow)

    def arrived(self) -> list[str]:
        return [event_id(m) for m in consume(self.world.sandbox.address("kafka"), self.name) if m.value()]

    def get(self, path: str, status: int = 200, **parameters: Any) -> Any:
        answer = self.client.get(f"/api/v1/dags/{DAG}{path}", params=parameters)
        assert answer.status_code == status, answer.text
        return checked("get", path, answer)

    def post(self, path: str, status: int = 200, /, match: str = "*", key: str = "", **body: Any) -> Any:
        sent = {"Idempotency-Key": key or secrets.token_hex(8), "If-Match": match}
        answer = self.client.post(f"/api/v1/dags/{DAG}{path}", json=body, headers=sent)
        assert answer.status_code == status, answer.text
        return checked("post", path, answer)


def _ok() -> None:
    """Let everybody in: who may do what is looked at in tests/e2e."""


def _all(desk: Desk) -> Access:
    return Access(_ok, _ok, _ok, _ok, _ok, lambda: "ada", lambda *told: desk.notes.append(told))


def _on(desk: Desk) -> Installation:
    def flow_of(dag_id: str) -> DagFlow | None:
        return DagFlow(desk.flow, "spark_connect_default") if dag_id == DAG else None

    return Installation(flow_of, desk.world.connections, lambda *_: OneProcess())


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> World:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("operators"))


@pytest.fixture
def desk(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(world, f"operators_{secrets.token_hex(3)}", tmp_path)
    for name, value in made.cli.environment.items():
        if name.startswith("DATABUS_"):
            monkeypatch.setenv(name, value)
    made.batch("1, 'a@b'")
    made.batch("2, 'a@b'", "3, NULL")
    made.batch("4, 'a@b'")
    yield made
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {made.name}")


def test_what_is_only_looked_at_is_the_same(desk: Desk) -> None:
    name, cli = desk.name, desk.cli
    state = desk.get("/checkpoint")
    assert cli.json("checkpoint", "show", name).items() <= state.items()
    history = desk.get("/checkpoint/history", limit=500)
    told = [(e["number"], e["action"], e["who"], e["at"]) for e in cli.json("checkpoint", "history", name)]
    assert [(e["number"], e["action"], e["who"], e["at"]) for e in history["items"]] == told
    assert desk.get("/gaps")["gaps"] == cli.json("gaps", name) == []
    assert desk.get("/ledger") == cli.json("ledger", name)
    assert desk.get("/quality")["runs"] == cli.json("quality", name)["runs"]
    assert desk.get("/lag")["committed"] == state["place"]
    (held,) = cli.json("quarantine", "list", name)
    (row,) = desk.get("/quarantine/rows")["items"]
    assert row["event_id"] == held["event_id"]
    assert (row["key"], row["payload"]) == (held["key"], json.loads(held["payload"]))
    assert desk.get("/quarantine")["items"][0]["rows"] == 1


def test_moves_and_their_previews_are_the_same_and_come_back(desk: Desk) -> None:
    """The route moves, the way back of its answer leads back, the command moves: twice the same."""
    name, cli = desk.name, desk.cli
    for action, options, body in (
        ("rewind", ("-n", "1"), {"batches": 1}),
        ("rewind", ("-n", "2"), {"batches": 2}),
        ("restore", ("2",), {"entry": 2}),
    ):
        shown = desk.post("/checkpoint/preview", action=action, **body)
        preview = cli.json("checkpoint", action, name, *options)
        assert shown["preview"] == {k: v for k, v in preview.items() if k != "done"}
        before = desk.get("/checkpoint")
        done = desk.post(f"/checkpoint/{action}", match=f'"{shown["version"]}"', reason="a bad deploy", **body)
        assert (done["result"], done["who"]) == (shown["preview"], "ada")
        moved = desk.get("/checkpoint")
        assert moved["version"] == done["version"] != before["version"]
        desk.post("/checkpoint/restore", reason="undone", entry=done["way_back"]["entry"])
        assert desk.get("/checkpoint")["place"] == before["place"]
        again = cli.json("checkpoint", action, name, *options, "--reason", "a bad deploy", "--execute")
        told = ("done", "sinks")  # what is restored counts as passed over: then a rewind's effect says more
        assert {k: v for k, v in again.items() if k not in told} == {
            k: v for k, v in done["result"].items() if k != "sinks"
        }
        assert desk.get("/checkpoint")["offset"] == moved["offset"]
        newest = desk.get("/audit")["items"]
        assert [(e["action"], e["why"]) for e in newest[:3]] == [
            (action, "a bad deploy"), ("restore", "undone"), (action, "a bad deploy"),
        ]  # fmt: skip
        assert newest[0]["who"] != newest[2]["who"] == "ada"
        entry = next(e["number"] for e in desk.get("/checkpoint/history")["items"] if e["to"] == before["place"])
        desk.post("/checkpoint/restore", reason="undone", entry=entry)


def test_a_rewind_of_a_page_repeats_rows_and_a_skip_names_a_gap(desk: Desk) -> None:
    before = desk.arrived()
    desk.post("/checkpoint/rewind", reason="a bad deploy", batches=1)
    run_locally(desk.world, desk.flow)
    assert desk.arrived() == [*before, before[-1]]
    desk.execute("INSERT INTO orders VALUES (5, 'a@b')")
    shown = desk.post("/checkpoint/preview", action="skip", place="latest")
    assert shown["preview"] == {
        k: v for k, v in desk.cli.json("checkpoint", "skip", desk.name, "latest").items() if k != "done"
    }
    desk.post("/checkpoint/skip", match=f'"{shown["version"]}"', reason="poison", place="latest")
    assert desk.get("/gaps")["gaps"] == desk.cli.json("gaps", desk.name)
    (gap,) = desk.get("/gaps")["gaps"]
    assert (gap["who"], gap["why"]) == ("ada", "poison")
    run_locally(desk.world, desk.flow)
    assert len(desk.arrived()) == len(before) + 1


def test_a_pause_of_either_is_seen_by_the_other(desk: Desk) -> None:
    desk.post("/checkpoint/pause", reason="tonight")
    assert "ada" in desk.cli.json("checkpoint", "show", desk.name)["paused"]
    desk.cli("checkpoint", "resume", desk.name, "--reason", "on", "--execute")
    assert desk.get("/checkpoint")["paused"] is None
    desk.cli("checkpoint", "pause", desk.name, "--reason", "again", "--execute")
    assert "again" in desk.get("/checkpoint")["paused"]
    assert "again" in desk.post("/checkpoint/resume", reason="on")["result"]["was"]
    assert [e["action"] for e in desk.get("/audit")["items"][:4]] == ["resume", "pause", "resume", "pause"]


def test_a_stale_tab_and_a_flow_that_runs_are_refused(desk: Desk) -> None:
    seen = desk.get("/checkpoint")
    desk.batch("6, 'a@b'")
    told = desk.post("/checkpoint/rewind", 412, match=f'"{seen["version"]}"', reason="x", batches=1)
    assert (told["code"], [c["action"] for c in told["changes"]]) == ("checkpoint_moved", ["commit"])
    stands = desk.get("/checkpoint")
    assert told["version"] == stands["version"]
    with open_services(desk.flow, desk.world.connections, desk.world.settings) as services:
        lease = services.store.claim(desk.name, "a run", 0.0)
        busy = desk.post("/checkpoint/rewind", 409, reason="x", batches=1)
        lease.release()
    assert (busy["code"], busy["retryable"]) == ("checkpoint_busy", True)
    assert desk.get("/checkpoint")["place"] == stands["place"]
    assert desk.post("/checkpoint/rewind", 422, reason="x", batches=99)["code"] == "config_invalid"
    assert desk.post("/checkpoint/rewind", 409, reason="x", place="latest")["code"] == "checkpoint_conflict"
    assert desk.post("/checkpoint/adopt", match="*", reason="x")["result"]["needed"] is False


def test_a_discard_of_either_is_seen_by_the_other(desk: Desk) -> None:
    desk.batch("7, NULL", "8, NULL")
    first, *_ = desk.cli.json("quarantine", "list", desk.name)
    desk.cli("quarantine", "discard", desk.name, "--event", first["event_id"], "--reason", "old", "--execute")
    assert desk.get("/quarantine")["tally"] == {"held": {"check": 2}, "discarded": {"check": 1}}
    assert desk.post("/quarantine/discard", reason="old too", rows=2)["result"] == {"discarded": 2}
    assert desk.cli.json("quarantine", "list", desk.name) == []
    audited = [(e["action"], e["why"], e["facts"]) for e in desk.get("/audit")["items"] if e["subject"] == "quarantine"]
    assert audited == [("discarded", "old too", "2 rows"), ("discarded", "old", "1 rows")]


def test_a_snapshot_of_a_page_brings_the_rows(desk: Desk) -> None:
    name = desk.name
    proposed = desk.post("/snapshot/preview", action="begin")["preview"]
    mine = desk.cli.json("snapshot", "begin", name)
    assert [t["table"] for t in proposed["tables"]] == [t["table"] for t in mine["tables"]] == [f"{name}.orders"]
    desk.post("/snapshot/begin", reason="a new consumer")
    desk.post("/snapshot/pause", reason="the day")
    assert desk.cli.json("snapshot", "show", name)["progress"]["state"] == "paused"
    desk.cli("snapshot", "resume", name, "--reason", "the night", "--execute")
    desk.post("/snapshot/cancel", reason="not today")
    assert desk.get("/snapshot")["snapshot"]["progress"]["state"] == "cancelled"
    assert desk.post("/snapshot/begin", reason="tonight")["result"]["number"] == 2
    run_locally(desk.world, desk.flow)
    progress = desk.get("/snapshot")["snapshot"]["progress"]
    assert progress["state"] == "finished"
    assert desk.cli.json("snapshot", "show", name)["progress"]["delivered"] == progress["delivered"]
