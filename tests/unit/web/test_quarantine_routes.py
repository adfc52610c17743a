"""Routes of the quarantine: kinds of causes, rows as the flow shows them, decisions about the rows that were seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databus import DropColumns, Project, RenameColumns
from databus.core.batches.receipts import RejectedRow
from databus.ops.quarantine import show
from databus.ops.quarantine.sample import HIDDEN, MOST_CHARS
from databus.records.provenance import Provenance
from databus.records.quarantine import rows as of_records
from databus.records.quarantine.causes import READ_BYTES
from databus.records.quarantine.held_row import HeldRow
from databus.records.quick_reader import RecordReader
from tests.unit.web.operators_app import DAG, FLOW, Operators, held, hold, operators_app

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operators]:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    with operators_app(tmp_path) as opened:
        yield opened


def test_rows_by_cause_and_by_page(app: Operators) -> None:
    hold(app, *(held(n) for n in range(5)), *(held(n, "in_range(total)") for n in range(5, 8)))
    found = app.get("/quarantine")
    assert [(c["cause"], c["rows"], c["stage"]) for c in found["items"]] == [
        ("not_null(total)", 5, "check"), ("in_range(total)", 3, "check"),
    ]  # fmt: skip
    assert (found["tally"], found["next"]) == ({"held": {"check": 8}}, None)
    first = app.get("/quarantine", limit=1)
    assert app.get("/quarantine", cursor=first["next"])["items"] == found["items"][1:]
    page = app.get("/quarantine/rows", cause="not_null(total)", limit=3)
    rest = app.get("/quarantine/rows", cause="not_null(total)", limit=3, cursor=page["next"])
    assert [r["event_id"] for r in (*page["items"], *rest["items"])] == [f"e{n}" for n in range(5)]
    assert rest["next"] is None
    assert app.get("/quarantine/rows", cause="not_null")["items"] == []
    assert app.get("/quarantine/rows", 422, state="odd")["code"] == "request_refused"


def refused(number: int, cause: str) -> RejectedRow:
    return RejectedRow(f"r{number}", "shop.orders", f'{{"id":{number}}}', cause, "memory", f"b.1:{number}", "{}")


def test_causes_are_told_by_kind_and_their_words_only_with_the_right_to_values(app: Operators) -> None:
    parsing = "mapper_parsing_exception: failed to parse field [note] of type [long] in document with id 'ada{}@x.org'."
    hold(app, *(refused(n, f"{parsing.format(n)} Preview of field's value: 'secret'") for n in range(3)))
    hold(app, *(refused(n, f"record_too_large: {n}48999 bytes, topic orders takes 1000") for n in (3, 4)))
    app.role = "viewer"
    found = app.get("/quarantine")
    assert [(c["cause"], c["rows"]) for c in found["items"]] == [
        ("mapper_parsing_exception: field [note] of type [long]", 3), ("record_too_large: topic orders takes 1000", 2),
    ]  # fmt: skip
    with RecordReader(app.url) as records:
        (row,) = Provenance(records).held(FLOW.name, ["r0"])
    assert row["cause"] == found["items"][0]["cause"]
    app.role = "editor"
    kind = found["items"][0]["cause"]
    rows = app.get("/quarantine/rows", cause=kind)["items"]
    assert [row["cause"] for row in rows] == [kind] * 3  # the flow masks a column of the table
    app.flow = FLOW.model_copy(update={"transforms": ()})
    whole = app.get("/quarantine/rows", cause=kind)["items"][0]["cause"]
    assert "secret" in whole
    assert len(app.get("/quarantine/rows", cause=whole)["items"]) == 1
    chosen = {"cause": kind, "whole_cause": True}
    assert app.post("/quarantine/preview", action="discard", **chosen)["rows"] == 3
    assert app.post("/quarantine/discard", reason="x", rows=3, **chosen)["result"] == {"discarded": 3}


def test_values_are_for_those_who_may_see_them(app: Operators) -> None:
    hold(app, held(1, email="ann@example.org"))
    app.role = "viewer"
    assert "ann" not in json.dumps(app.get("/quarantine"))
    for path in ("/quarantine/rows", "/quarantine/export", "/audit"):
        app.get(path, 403)


def test_what_the_flow_hides_now_is_hidden_in_what_was_held_before(app: Operators) -> None:
    hold(app, held(1, email="ann@example.org", note={"email": "bea@example.org", "text": SCRIPT}))
    (row,) = app.get("/quarantine/rows")["items"]
    after = row["payload"]["after"]
    assert (after["email"], after["note"]) == (HIDDEN, {"email": HIDDEN, "text": SCRIPT})
    text = app.client.get(f"/api/v1/dags/{DAG}/quarantine/export")
    assert (text.headers["content-type"], text.headers["x-content-type-options"]) == ("application/x-ndjson", "nosniff")
    assert "example.org" not in text.text
    assert json.loads(text.text)["payload"]["after"]["id"] == 1
    app.flow = FLOW.model_copy(
        update={"transforms": (DropColumns("email"), RenameColumns({"email": "mail"}), Project("id", "total"))}
    )
    hold(app, held(2, total=7, mail="x", other="y"))
    shown = app.get("/quarantine/rows", event_id="e2")["items"][0]["payload"]["after"]
    assert shown == {"id": 2, "total": 7, "mail": HIDDEN, "other": HIDDEN}


def test_a_value_of_16_mib_is_neither_read_for_a_page_nor_lost_for_an_export(app: Operators) -> None:
    large, long = "x" * (16 << 20), "y" * (MOST_CHARS + 1)
    hold(app, held(1, body=large), held(2, body=long))
    answer = app.client.get(f"/api/v1/dags/{DAG}/quarantine/rows")
    assert len(answer.content) < READ_BYTES
    first, second = answer.json()["items"]
    assert (first["payload"], first["payload_chars"] > 16 << 20) == (None, True)
    assert second["payload"]["after"]["body"] == f"{'y' * MOST_CHARS}… ({len(long)} characters)"
    whole = app.client.get(f"/api/v1/dags/{DAG}/quarantine/export").text.splitlines()
    assert json.loads(whole[0])["payload"]["after"]["body"] == large
    assert json.loads(whole[1])["payload"]["after"]["body"] == long


def test_a_decision_about_other_rows_than_were_seen_is_refused(app: Operators) -> None:
    hold(app, held(1), held(2), held(3, "not_null(total), in_range(total)"))
    chosen = {"cause": "not_null(total)", "whole_cause": True}
    assert app.post("/quarantine/preview", action="discard", **chosen)["rows"] == 2
    hold(app, held(4))
    told = app.post("/quarantine/discard", 409, reason="x", rows=2, **chosen)
    assert told["code"] == "quarantine_changed"
    assert app.get("/quarantine")["tally"] == {"held": {"check": 4}}
    done = app.post("/quarantine/discard", reason="not needed", rows=3, **chosen)
    assert done["result"] == {"discarded": 3}
    assert app.get("/quarantine")["tally"] == {"held": {"check": 1}, "discarded": {"check": 3}}
    (row, *_) = app.get("/quarantine/rows", state="discarded")["items"]
    assert (row["who"], row["why"]) == ("ada", "not needed")
    newest = app.get("/audit")["items"][0]
    assert (newest["action"], newest["subject"], newest["facts"]) == ("discarded", "quarantine", "3 rows")


def test_a_preview_and_a_discard_read_no_payload(app: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(app, held(1, body="x" * 100), held(2))
    read, made = list[str](), of_records._held

    def noted(row: Any) -> HeldRow:
        found = made(row)
        read.append(found.payload)
        return found

    monkeypatch.setattr(of_records, "_held", noted)
    monkeypatch.setattr("databus.web.quarantine.refusals", lambda *_: [])  # the batch of these rows was never moved
    assert app.post("/quarantine/preview", action="replay")["rows"] == 2
    assert app.post("/quarantine/discard", reason="x", rows=2)["result"] == {"discarded": 2}
    assert read == [""] * 4


def test_an_empty_choice_discards_nothing(app: Operators) -> None:
    hold(app, held(1), held(2))
    for empty in ({"events": []}, {"cause": "", "whole_cause": True}, {"cause": ""}, {"stage": ""}, {"table": ""}):
        told = app.post("/quarantine/discard", 422, reason="x", rows=2, **empty)
        assert (told["code"], next(iter(empty)) in told["detail"]) == ("request_refused", True), empty
        assert app.post("/quarantine/preview", 422, action="discard", **empty)["code"] == "request_refused"
    assert "rows" in app.post("/quarantine/discard", 422, reason="an unset variable")["detail"]
    assert app.get("/quarantine")["tally"] == {"held": {"check": 2}}


def test_other_rows_of_the_same_number_are_not_those_that_were_seen(app: Operators) -> None:
    hold(app, held(1), held(2))
    seen = app.post("/quarantine/preview", action="discard")
    app.post("/quarantine/discard", key="1", reason="x", rows=1, events=["e1"])
    hold(app, held(3))
    told = app.post("/quarantine/discard", 409, key="2", reason="x", rows=seen["rows"], upto=seen["upto"])
    assert told["code"] == "quarantine_changed"
    assert app.get("/quarantine")["tally"] == {"held": {"check": 2}, "discarded": {"check": 1}}
    assert app.post("/quarantine/discard", key="3", reason="x", rows=1, upto=seen["upto"])["result"] == {"discarded": 1}


def test_what_is_held_after_the_look_is_not_decided_about(app: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(app, held(1))
    discard = show.discard

    def late(*asked: Any) -> int:
        hold(app, held(2))
        return discard(*asked)

    monkeypatch.setattr(show, "discard", late)
    assert app.post("/quarantine/discard", reason="x", rows=1)["result"] == {"discarded": 1}
    assert app.get("/quarantine")["tally"] == {"held": {"check": 1}, "discarded": {"check": 1}}
