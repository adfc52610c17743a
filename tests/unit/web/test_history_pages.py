"""Routes of the pages Quality, Ledger and Audit on the real application: what they say, to whom, what is unchanged."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.batches.report import CheckResult
from databus.core.errors.batch import RecordingError
from databus.core.positions.offsets import SequenceOffset
from databus.records.quality import result as evaluation
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from databus.web import history_pages
from tests.contract.record_samples import NOON, check, report
from tests.unit.web.operators_app import DAG, FLOW, Operators, operators_app

CHECKS, BAND = f"/api/v1/dags/{DAG}/quality/checks", f"/api/v1/dags/{DAG}/ledger/band"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operators]:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    with operators_app(tmp_path) as opened:
        yield opened


def judge(app: Operators, batch: int, *checks: CheckResult) -> None:
    """Record a run of one batch and store its quality, as its `audit` task does."""
    counts = {"shop.orders": TableCounts(10, 0, 0, 10)}
    with SqlRecorder.open(app.url) as recorder:
        recorder.record(report(batch, f"r{batch}", flow=FLOW.name, checks=checks, tables=counts))
    with RecordStore(app.url) as store:
        evaluation.evaluate_run(store, FLOW.name, f"r{batch}", NOON.replace(minute=batch))


def test_a_check_has_what_each_run_found_also_where_the_newest_did_not_judge_it(app: Operators) -> None:
    judge(app, 1, check(0), check(0, "unique(id)"))
    judge(app, 2, check(4), check(0, "unique(id)"))
    judge(app, 3, check(2))
    found = app.get("/quality/checks")
    assert [run["run_id"] for run in found["runs"]] == ["r3", "r2", "r1"]
    checks = {one["name"]: one for one in found["checks"] if "(" in one["name"]}
    held = checks["not_null(email)"]
    assert (held["table"], held["action"], held["met"]) == ("shop.orders", "quarantine", False)
    assert [(run["violations"], run["evaluated"], run["met"]) for run in held["runs"]] == [
        (0, 10, True), (4, 10, False), (2, 10, False),
    ]  # fmt: skip
    assert held["runs"][1]["violating_percent"] == 40.0
    assert [run and run["violations"] for run in checks["unique(id)"]["runs"]] == [0, 0, None]
    assert [run["run_id"] for run in app.get("/quality/checks", last=1)["runs"]] == ["r3"]
    assert app.get("/quality/checks", 422, last=0)["code"] == "request_refused"


def test_a_flow_without_results_has_none(app: Operators) -> None:
    assert app.get("/quality/checks") == {"flow": FLOW.name, "runs": [], "checks": []}


@pytest.mark.parametrize("path", [CHECKS, BAND])
def test_what_is_known_is_not_sent_again_until_it_changes(app: Operators, path: str) -> None:
    first = app.client.get(path)
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = app.client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    judge(app, 1, check(0))
    app.post("/checkpoint/rewind", batches=0, place="earliest", reason="again")
    changed = app.client.get(path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.headers["etag"] == tag) == (200, False)


@pytest.mark.parametrize("path", ["/quality/checks", "/ledger/band"])
def test_who_may_not_see_the_dag_sees_neither(app: Operators, path: str) -> None:
    app.role = "stranger"
    app.get(path, 403)
    app.role = "viewer"
    app.get(path)


def test_records_that_are_away_are_a_problem_with_its_code(app: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Any:
        raise RecordingError("the records store is away", retryable=True)

    monkeypatch.setattr(history_pages, "newest_runs", away)
    monkeypatch.setattr(history_pages, "read_ledger", away)
    for path in ("/quality/checks", "/ledger/band"):
        assert app.get(path, 503)["retryable"] is True


def test_the_band_shows_a_skip_as_a_gap_with_who_and_why(app: Operators) -> None:
    app.post("/checkpoint/skip", place=json.dumps(SequenceOffset(9).to_json()), reason="a poisoned row")
    found = app.get("/ledger/band")
    assert (found["flow"], found["problems"]) == (FLOW.name, [])
    (column,) = found["band"]
    assert (column["kind"], column["gaps"], column["to"]) == ("gap", [1], found["to"])
    (gap,) = found["gaps"]
    assert (gap["who"], gap["why"], gap["decided"]) == ("ada", "a poisoned row", True)
    assert app.get("/ledger/band", 422, columns=0)["code"] == "request_refused"


def test_the_audit_is_asked_by_person_and_kind_and_so_is_its_csv(app: Operators) -> None:
    app.post("/checkpoint/pause", key="1", reason="a bad deploy")
    app.post("/checkpoint/resume", key="2", reason="mended")
    everything = app.get("/audit")
    assert everything["actions"] == ["pause", "resume", "start"]
    assert {entry["who"] for entry in everything["items"]} == {"ada", "r1"}
    for asked, actions in (
        ({"who": "AD"}, ["resume", "pause"]), ({"who": "r1"}, ["start"]), ({"action": "pause"}, ["pause"]),
        ({"who": "r1", "action": "pause"}, []),
    ):  # fmt: skip
        found = app.get("/audit", **asked)
        assert [entry["action"] for entry in found["items"]] == actions
        assert found["actions"] == everything["actions"]
        text = app.client.get(f"/api/v1/dags/{DAG}/audit.csv", params=asked).text
        assert [line["action"] for line in csv.DictReader(io.StringIO(text))] == actions
    seen, cursor = [], ""
    while cursor is not None:
        found = app.get("/audit", who="ada", limit=1, cursor=cursor)
        seen += [entry["action"] for entry in found["items"]]
        cursor = found["next"]
    assert seen == ["resume", "pause"]
    for path in ("/audit", "/audit.csv"):
        assert app.get(path, 422, whom="ada")["code"] == "request_refused"
        app.role = "viewer"
        app.get(path, 403)
        app.role = "editor"
