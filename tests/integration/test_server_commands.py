"""Each verb by `databus --server` and directly: the same output, the same effect, the same end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from databus.ops.services import open_services
from databus.web.app import create_app
from databus.web.installation import Access, DagFlow, Installation
from databus.web.operations import add_operations
from databus.web.trace_page import add_trace_page
from tests.integration.command_line import CliHere
from tests.integration.one_process import OneProcess, run_locally
from tests.integration.test_operator_routes import DAG, Desk, desk, world
from tests.served_app import served, token_guard

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

__all__ = ["desk", "world"]
ADA, EVE = "token-of-ada", "token-of-eve"


class Sides:
    """The command on the servers of a flow, and the same on an API server that alone can reach them."""

    def __init__(self, desk: Desk, folder: Path, address: str):
        self.desk, self.name = desk, desk.name
        self.here = desk.cli
        self.there = CliHere(desk.world, folder / "no_dags_here")
        keep = {n: v for n, v in self.there.environment.items() if not n.startswith("AIRFLOW_CONN_")}
        self.there.environment = {**keep, "DATABUS_SERVER": address, "DATABUS_SERVER_TOKEN": ADA}

    def both(self, *words: str, code: int = 0) -> tuple[Any, Any]:
        """Run a verb both ways; as JSON where the two said the same in tables."""
        here, there = (side(*words, code=code) for side in (self.here, self.there))
        assert _told(there) == _told(here), words
        return here, there

    def same(self, *words: str, code: int = 0) -> Any:
        """Return what a verb says both ways, as a table and as JSON."""
        self.both(*words, code=code)
        here, there = (side.json(*words, code=code) for side in (self.here, self.there))
        assert there == here, words
        return here


def _told(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    return done.stdout, done.stderr


@pytest.fixture
def sides(desk: Desk, tmp_path: Path) -> Iterator[Sides]:
    lets_in, changes = token_guard({ADA, EVE}), token_guard({ADA})
    file = str(desk.cli.dags / f"{desk.name}.py")

    def flow_of(dag_id: str) -> DagFlow | None:
        return DagFlow(desk.flow, "spark_connect_default", file) if dag_id == DAG else None

    def readable() -> set[str]:
        return {DAG, desk.name}

    access = Access(readable, lets_in, changes, lets_in, changes, lambda: "ada", lambda *told: desk.notes.append(told))
    installation = Installation(flow_of, desk.world.connections, lambda *_: OneProcess())
    app = create_app(lets_in, readable, tmp_path, partial(add_operations, access=access, installation=installation))
    add_trace_page(app, readable, changes, desk.world.connections)
    with served(app) as address:
        yield Sides(desk, tmp_path, address)


def test_looks_are_the_same(sides: Sides) -> None:
    name = sides.name
    for words in (
        ("flows", "list"), ("flows", "show", name), ("flows", "show", name, "--connect"), ("plan", name),
        ("checkpoint", "show", name), ("checkpoint", "history", name), ("checkpoint", "history", name, "-n", "2"),
        ("gaps", name), ("quality", name), ("ledger", name), ("alerts", "list"), ("alerts", "list", name, "--all"),
        ("quarantine", "list", name), ("quarantine", "list", name, "-n", "1", "--stage", "check"),
        ("ledger", name, "--verify"), ("ledger", name, "--verify", "--last", "1"),
        ("trace", f"{name}:0:0"), ("trace", f"{name}:0:0", "--flow", name, "--site", "kafka_east"),
    ):  # fmt: skip
        sides.same(*words)
    (row,) = sides.there.json("quarantine", "list", name)
    for words in (
        ("quarantine", "show", name, row["event_id"]), ("quarantine", "export", name), ("peek", name, "-n", "3"),
        ("peek", name, "-n", "2", "--from", "earliest"), ("flows", "graph", name), ("snapshot", "show", name),
        ("flows", "graph", name, "--format", "json"),
    ):  # fmt: skip
        sides.both(*words)
    here, there = (side.json("lag") for side in (sides.here, sides.there))
    assert [{**row, "eta_seconds": None} for row in there] == [{**row, "eta_seconds": None} for row in here]
    (code, here, _), (other, there, _) = (
        _ended(side, "doctor", name, "-o", "json") for side in (sides.here, sides.there)
    )
    assert code == other
    looked_at = [[(f["subject"], f["level"], f["code"]) for f in json.loads(said)] for said in (here, there)]
    assert looked_at[0] == looked_at[1]
    assert len(looked_at[0]) > 20


def test_moves_are_the_same_and_are_the_logins(sides: Sides) -> None:
    name, desk = sides.name, sides.desk
    for words in (
        ("checkpoint", "rewind", name, "-n", "1"), ("checkpoint", "restore", name, "2"),
        ("checkpoint", "rewind", name, "-n", "99"), ("checkpoint", "rewind", name),
        ("checkpoint", "skip", name, "latest"), ("checkpoint", "rewind", name, "nowhere"),
        ("checkpoint", "pause", name), ("checkpoint", "resume", name), ("checkpoint", "accept", name),
        ("checkpoint", "adopt", name, "--reason", "a look"), ("checkpoint", "skip", name, "--sink", "none"),
        ("checkpoint", "rewind", name, "-n", "1", "--execute"),
        ("snapshot", "begin", name), ("snapshot", "pause", name), ("snapshot", "begin", name, "--table", "no.table"),
        ("quarantine", "discard", name), ("quarantine", "replay", name), ("quarantine", "replay", name, "--stage", "x"),
    ):  # fmt: skip
        ended = [_ended(side, *words) for side in (sides.here, sides.there)]
        assert ended[0][0] == ended[1][0], (words, ended)
        if ended[0][0] == 0 or "nowhere" not in words:  # the option's name is not the member's of the route
            assert ended[0][1:] == ended[1][1:], words
    preview = sides.there.json("checkpoint", "rewind", name, "-n", "1")
    done = sides.there.json("checkpoint", "rewind", name, "-n", "1", "--reason", "a bad deploy", "--execute")
    assert done == {**preview, "done": True}
    newest, *_ = sides.same("checkpoint", "history", name)
    assert (newest["action"], newest["who"], newest["why"]) == ("rewind", "ada", "a bad deploy")
    sides.here("checkpoint", "restore", name, str(newest["number"] - 1), "--reason", "undone", "--execute")
    again = sides.here.json("checkpoint", "rewind", name, "-n", "1", "--reason", "a bad deploy", "--execute")
    assert {n: v for n, v in again.items() if n != "sinks"} == {n: v for n, v in done.items() if n != "sinks"}
    before = desk.arrived()
    run_locally(desk.world, desk.flow)
    assert desk.arrived() == [*before, before[-1]]


def test_a_pause_a_snapshot_and_a_gap(sides: Sides) -> None:
    name, desk = sides.name, sides.desk
    paused = sides.there.json("checkpoint", "pause", name, "--reason", "tonight", "--execute")["paused"]
    assert paused == sides.same("checkpoint", "show", name)["paused"]
    assert "ada" in paused
    assert sides.there.json("checkpoint", "resume", name, "--reason", "on", "--execute")["was"] == paused
    sides.there("snapshot", "begin", name, "--reason", "a new consumer", "--execute")
    sides.there("snapshot", "pause", name, "--reason", "the day", "--execute")
    here, there = (side.json("snapshot", "show", name) for side in (sides.here, sides.there))
    for shown in (here, there):
        del shown["progress"]
    assert here == there
    sides.both("snapshot", "cancel", name)
    sides.there("snapshot", "cancel", name, "--reason", "not today", "--execute")
    desk.execute("INSERT INTO orders VALUES (5, 'a@b')")
    sides.there("checkpoint", "skip", name, "latest", "--reason", "poison", "--execute")
    (gap,) = sides.same("gaps", name)
    assert (gap["who"], gap["why"]) == ("ada", "poison")


def test_decisions_about_held_rows(sides: Sides) -> None:
    name, desk = sides.name, sides.desk
    desk.batch("7, NULL", "8, NULL")
    first, second, third = sides.there.json("quarantine", "list", name)
    sides.both("quarantine", "replay", name, "--event", first["event_id"])
    chosen = ("quarantine", "discard", name, "--event", second["event_id"])
    sides.both(*chosen)
    assert sides.there.json(*chosen, "--reason", "old", "--execute") == {"flow": name, "discarded": 1}
    assert [row["event_id"] for row in sides.same("quarantine", "list", name)] == [
        first["event_id"], third["event_id"],
    ]  # fmt: skip
    (gone,) = sides.same("quarantine", "list", name, "--state", "discarded")
    assert (gone["who"], gone["why"]) == ("ada", "old")


def test_errors_end_alike(sides: Sides) -> None:
    name, desk = sides.name, sides.desk
    with open_services(desk.flow, desk.world.connections, desk.world.settings) as services:
        lease = services.store.claim(name, "a run", 0.0)
        move = ("checkpoint", "rewind", name, "-n", "1", "--reason", "x", "--execute")
        ended = [_ended(side, *move) for side in (sides.here, sides.there)]
        lease.release()
    assert ended[0] == ended[1]
    assert (ended[0][0], "checkpoint_busy" in ended[0][2]) == (3, True)
    for words, code in (
        (("trace", f"{name}:0:4711"), 1), (("trace", "what is this"), 2), (("ledger", "carts"), 2), (("run", name), 2),
    ):  # fmt: skip
        assert _ended(sides.there, *words)[0] == code, words
    sides.there.environment["DATABUS_SERVER_TOKEN"] = EVE
    sides.same("checkpoint", "show", name)
    refused = _ended(sides.there, "quarantine", "list", name)
    assert (refused[0], "Ask for the right in Airflow" in refused[2].replace("\n  ", " ")) == (1, True)
    assert _ended(sides.there, "checkpoint", "pause", name, "--reason", "x", "--execute")[0] == 1
    assert json.loads(sides.here("checkpoint", "show", name, "-o", "json").stdout)["paused"] is None
    sides.there.environment["DATABUS_SERVER_TOKEN"] = "expired"
    assert _ended(sides.there, "checkpoint", "show", name)[0] == 1


def _ended(side: CliHere, *words: str) -> tuple[int, str, str]:
    """Run a verb and return its exit code, and what it said."""
    done = side.ended(*words)
    return done.returncode, done.stdout, done.stderr
