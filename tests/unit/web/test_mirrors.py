"""Routes of mirrors: which there are and to whom, and the offset map page by page, also by the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from databus import Mirror
from databus.cli.main import app as command
from databus.cli.server import choice
from databus.core.errors import ConfigError, DatabusError
from databus.ops.mirror.overview import mirror_listed
from databus.web import mirrors
from databus.web.installation import Access, DagFlow, Installation
from databus.web.problems import install
from tests.served_app import served
from tests.unit.ops.test_mirror_map import History, history
from tests.unit.web.described import checked
from tests.unit.web.operators_app import DAG, FLOW, Operators, operators_app

MIRROR = Mirror(name="east_to_west", source_conn_id="kafka_east", target_conn_id="kafka_west", topics=("t",))
ASKED = {"topic": "t", "partition": 0}
STEPS = [("m", 2), ("l", 3), ("m", 4), ("r", 1), ("m", 5), ("h", 2), ("m", 1)]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operators]:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    with operators_app(tmp_path) as opened:
        yield opened


@pytest.fixture
def mirroring(app: Operators, monkeypatch: pytest.MonkeyPatch) -> Operators:
    """The application, whose DAG mirrors a topic with a history of its own."""
    app.flow, told = MIRROR, History(history(STEPS))
    monkeypatch.setattr(app.store, "history", told.history)
    monkeypatch.setattr(app.store, "load", told.load)
    return app


def listed(app: Operators, status: int = 200, **asked: Any) -> Any:
    answer = app.client.get("/api/v1/mirrors", params=asked)
    assert answer.status_code == status, answer.text
    return checked("get", "/api/v1/mirrors", answer)


def test_mirrors_are_listed_and_other_flows_are_not(app: Operators) -> None:
    assert listed(app) == {"items": [], "next": None}
    app.flow = MIRROR
    for role in ("viewer", "editor"):
        app.role = role
        assert listed(app)["items"] == [{"dag_id": DAG, "mirror": mirror_listed(MIRROR), "error": None}]
    app.role = "stranger"
    listed(app, 403)


def test_a_dag_that_cannot_be_read_says_so_and_hides_no_mirror(tmp_path: Path) -> None:
    flows: dict[str, DagFlow | DatabusError] = {
        "a": DagFlow(replace_name("a"), "spark"), "b": DagFlow(FLOW, "spark"), "c": ConfigError("no such kind"),
        "d": DagFlow(replace_name("d"), "spark"), "hidden": DagFlow(replace_name("hidden"), "spark"),
    }  # fmt: skip

    def everybody() -> set[str]:
        return set(flows) - {"hidden"}

    def stored(names: Any) -> dict[str, DagFlow | DatabusError]:
        return {name: flows[name] for name in names}

    allows: Any = lambda: None  # noqa: E731
    access = Access(everybody, allows, allows, allows, allows, lambda: "ada", lambda *_: None)
    installation = Installation(lambda _: None, None, lambda *_: None, stored)  # type: ignore[arg-type]
    made = FastAPI()
    install(made)
    made.include_router(mirrors.router(access, installation), prefix="/api/v1")
    client, seen, cursor = TestClient(made), [], ""
    while cursor is not None:
        page = checked("get", "/api/v1/mirrors", client.get("/api/v1/mirrors", params={"limit": 1, "cursor": cursor}))
        seen += page["items"]
        cursor = page["next"]
    assert [(one["dag_id"], one["mirror"] and one["mirror"]["flow"]) for one in seen] == [
        ("a", "a"), ("c", None), ("d", "d"),
    ]  # fmt: skip
    assert seen[1]["error"]["message"] == "no such kind"


def replace_name(name: str) -> Any:
    return MIRROR.model_copy(update={"name": name})


@pytest.mark.parametrize("path", ["/mirror", "/mirror/offsets", "/mirror/group"])
def test_a_flow_that_is_no_mirror_is_refused_by_name(app: Operators, path: str) -> None:
    told = app.get(path, 422, **ASKED, name="billing")
    assert told["code"] == "config_invalid"
    assert "no mirror" in told["detail"]
    app.role = "stranger"
    app.get(path, 403)


@pytest.mark.parametrize("back", [False, True])
def test_the_map_comes_page_by_page_as_a_whole(mirroring: Operators, back: bool) -> None:
    asked = {"topic": "w" if back else "t", "partition": 0, "back": back}
    whole = mirroring.get("/mirror/offsets", **asked)
    assert whole["next"] is None
    assert len(whole["items"]) > 4
    for limit in (1, 2, len(whole["items"])):
        seen, cursor = [], ""
        while cursor is not None:
            page = mirroring.get("/mirror/offsets", **asked, limit=limit, cursor=cursor)
            assert len(page["items"]) <= limit
            seen += page["items"]
            cursor = page["next"]
        assert seen == whole["items"]


def test_the_map_is_asked_for_a_range_and_refused_where_nothing_was_mirrored(mirroring: Operators) -> None:
    some = mirroring.get("/mirror/offsets", **ASKED, **{"from": 0, "to": 3})["items"]
    assert some[0] == {
        "topic": "w", "partition": 0, "from": 0, "to": 1, "other_from": 0, "other_to": 1, "exact": True,
    }  # fmt: skip
    assert max(one["to"] for one in some if one["exact"]) <= 2
    assert mirroring.get("/mirror/offsets", 409, topic="t", partition=7)["code"] == "source_offset_invalid"
    for wrong in ({"from": -1}, {"to": 0}, {"limit": 0}, {"limit": 5_001}):
        assert mirroring.get("/mirror/offsets", 422, **ASKED, **wrong)["code"] == "request_refused"
    for path in ("/mirror/offsets", "/mirror/translate"):
        refused = mirroring.get(path, 422, topic="t", partition=2**31, offset=0)
        assert refused["code"] == "request_refused"
        assert mirroring.get(path, 409, topic="t", partition=2**31 - 1, offset=0)["code"] == "source_offset_invalid"
    assert mirroring.get("/mirror/offsets", 400, **ASKED, cursor="x")["code"] == "request_refused"


@pytest.mark.parametrize("asked", [(), ("--from", "3", "--to", "9"), ("--back",)], ids=str)
def test_the_command_gets_the_whole_map_of_a_server(
    mirroring: Operators, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    monkeypatch.setenv(choice.TOKEN, "a-token")
    monkeypatch.setattr("databus.cli.mirror._SPANS", 2)
    side = "w" if "--back" in asked else "t"
    words = ("mirror", "offsets", MIRROR.name, side, "0", *asked, "-o", "json")
    bounds = {"from": 3, "to": 9} if "--from" in asked else {}
    whole = mirroring.get("/mirror/offsets", topic=side, partition=0, back="--back" in asked, **bounds)["items"]
    with served(mirroring.client.app) as address:  # type: ignore[arg-type]
        done = CliRunner().invoke(command, ["--server", address, *words])
    choice.choose("", None)
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout) == whole
