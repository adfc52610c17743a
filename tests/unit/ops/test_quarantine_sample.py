"""Held rows for a page: what the flow or a sink hides now is hidden in every form, and numbers keep their digits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from databus import DropColumns, Flow, Kafka, Mask, Mock, Project, RenameColumns
from databus.ops.quarantine.exact_json import dumps
from databus.ops.quarantine.sample import HIDDEN, HiddenColumnNames, hidden_names, shown_payload, shown_row
from databus.records.quarantine.causes import SampledRow
from databus.records.quarantine.held_row import HeldState

TABLE, MAIL = "shop.people", "ann@example.org"
ROW, OLD = {"id": 1, "email": MAIL}, {"email": f"old-{MAIL}"}
BESIDE = {"database": "shop", "table": "people", "type": "update"}
FORMS: dict[str, Any] = {
    "debezium": {"op": "u", "before": {"id": 1, **OLD}, "after": ROW},
    "partial": {"op": "u", "before": OLD, "after": ROW},
    "maxwell": {**BESIDE, "data": ROW, "old": OLD},
    "canal": {**BESIDE, "data": [ROW], "old": [OLD]},
    "flat": {**ROW, "__op": "u"},
    "avro": {"format": "avro", "base64": "YW5uQGV4YW1wbGUub3Jn"},
}
FORMS["schemas"] = {"schema": {"fields": [{"field": "email"}]}, "payload": FORMS["debezium"]}


def flow_of(*transforms: Any, sinks: tuple[Kafka, ...] = ()) -> Flow:
    source, every = Mock(tables=(TABLE,), rows=1), sinks or (Kafka(conn_id="k"),)
    return Flow(name="people", source=source, transforms=transforms, sinks=every)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "hiding", [Mask("email"), DropColumns("email"), Project("id")], ids=lambda each: str(each.kind)
)
def test_what_is_hidden_now_is_hidden_in_every_form(form: str, hiding: Any) -> None:
    payload = json.dumps(FORMS[form])
    for flow in (flow_of(hiding), flow_of(sinks=(Kafka(conn_id="k", transforms=(hiding,)),))):
        for stage in ("check", "kafka"):
            shown = dumps(shown_payload(payload, hidden_names(flow, TABLE, stage)))
            assert "example.org" not in shown, shown
            assert "YW5u" not in shown, shown
            assert form == "avro" or '"id":1' in shown
    assert json.loads(dumps(shown_payload(payload, HiddenColumnNames()))) == FORMS[form]


def test_a_table_that_has_none_of_the_kept_columns_passes_whole() -> None:
    for form in ("debezium", "maxwell", "canal", "flat", "schemas"):
        shown = dumps(shown_payload(json.dumps(FORMS[form]), HiddenColumnNames(kept=frozenset({"other"}))))
        assert json.loads(shown) == FORMS[form]


def test_a_sinks_names_and_those_from_before_it_renamed_are_hidden() -> None:
    renaming = RenameColumns({"email": "mail"})
    for flow in (
        flow_of(Mask("email"), sinks=(Kafka(conn_id="k", transforms=(renaming,)),)),
        flow_of(sinks=(Kafka(conn_id="k", transforms=(renaming, Mask("mail"))),)),
    ):
        hidden = hidden_names(flow, TABLE, "kafka")
        assert hidden.names >= {"email", "mail"}
        assert shown_payload(f'{{"id":1,"mail":"{MAIL}"}}', hidden)["mail"] == HIDDEN


def test_a_checks_rows_are_hidden_by_what_every_sink_that_takes_them_hides() -> None:
    masking, keeping = (
        Kafka(conn_id="k", name="a", transforms=(Mask("email", "phone"),)),
        Kafka(conn_id="k", name="b", transforms=(Project("id"),)),
    )
    other = Kafka(conn_id="k", name="c", routes=("shop.orders",))
    hidden = hidden_names(flow_of(sinks=(masking, keeping, other)), TABLE)
    assert (hidden.names, hidden.kept) == ({"email", "phone"}, None)
    assert not hidden_names(flow_of(sinks=(masking, Kafka(conn_id="k", name="all"))), TABLE)
    assert hidden_names(flow_of(sinks=(masking, Kafka(conn_id="k", name="all"))), TABLE, "a").names == {
        "email",
        "phone",
    }
    assert not hidden_names(flow_of(sinks=(masking, Kafka(conn_id="k", name="all"))), TABLE, "all")


def test_numbers_keep_their_digits() -> None:
    payload = '{"a":12345678901234567.89,"b":9007199254740993,"c":10.50,"d":7,"e":-2.5e-7,"f":1e400,"g":"12","h":null}'
    at = datetime(2026, 11, 27, tzinfo=UTC)
    row = SampledRow(
        number=1, event_id="e1", stage="check", batch=3, table=TABLE, key=None, cause="x", position="b.1:4",
        state=HeldState.HELD, who="", why="", held_at=at, payload=payload, payload_chars=len(payload),
    )  # fmt: skip
    assert shown_row(row, HiddenColumnNames())["payload"] == {
        "a": "12345678901234567.89", "b": "9007199254740993", "c": 10.5, "d": 7, "e": -2.5e-7, "f": "1e400", "g": "12",
        "h": None,
    }  # fmt: skip
    assert dumps(shown_payload(payload, HiddenColumnNames())) == payload
    assert dumps(shown_payload(payload, HiddenColumnNames(frozenset({"g"})))) == payload.replace('"12"', '"***"')
