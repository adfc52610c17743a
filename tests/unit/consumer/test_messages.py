"""Reader of records: each form that the sink writes, as its own encoder makes it, says the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from databus.consumer.messages import TransactionMark, read
from databus.core.errors import MessageFormatError, RowTypeError
from tests.reference.made_messages import boundaries
from tests.unit.consumer.records import FORMS, changes, record, records


@dataclass
class Order:
    id: int
    status: str
    amount: Decimal
    at: datetime


WITHOUT_STATEMENTS = [form for form in FORMS if form != "iso"]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_says_the_same_of_the_changes(form: str) -> None:
    wanted = [change for change in changes("orders", "iso") if change.op not in "tm"]
    found = [change for change in changes("orders", form) if change.op not in "tm"]
    assert [(c.op, c.table, c.event_id, c.key) for c in found] == [(c.op, c.table, c.event_id, c.key) for c in wanted]
    assert [c.ts_ms for c in found] == [
        c.ts_ms // 1000 * 1000 if form == "maxwell" and c.ts_ms else c.ts_ms for c in wanted
    ]
    if form not in ("canal", "cloudevents"):
        assert [c.gtid for c in found] == [c.gtid for c in wanted]
        assert [c.position for c in found] == [c.position for c in wanted]
    assert [c.deleted for c in found] == [c.op == "d" for c in found]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "debezium"])
def test_rows_become_a_class(form: str) -> None:
    found = [change.as_row(Order) for change in changes("orders", form) if change.op == "c"]
    assert found[0] == Order(1, "new", Decimal("10.50"), datetime.fromisoformat("2026-05-03T10:20:30.120"))
    assert isinstance(found[0].amount, Decimal)


def test_what_debezium_does_not_say_without_a_schema_is_refused() -> None:
    change = next(c for c in changes("orders", "debezium") if c.op == "c")
    with pytest.raises(
        RowTypeError, match=r"shop\.orders\.amount of .* is no Decimal: its type cannot be told"
    ) as told:
        change.as_row(Order)
    assert told.value.code == "consumer_row"
    assert "BBo=" not in str(told.value)


def test_images_of_an_update() -> None:
    for form in ("iso", "debezium", "schema"):
        (update,) = [c for c in changes("orders", form) if c.op == "u"]
        assert (update.before["status"], update.after["status"], update.before["id"]) == ("new", "paid", 1)
    for form in ("maxwell", "canal"):
        (update,) = [c for c in changes("orders", form) if c.op == "u"]
        assert update.before == {"id": 1, "status": "new"}
        assert update.after["status"] == "paid"


def test_statements_and_transactions() -> None:
    found = changes("orders", "iso")
    assert [(c.op, c.query.split()[0]) for c in found if c.query] == [
        ("m", "CREATE"),
        ("t", "TRUNCATE"),
        ("m", "ALTER"),
    ]
    assert all(c.row is None for c in found if c.query)
    assert {c.transaction for c in found} == {c.gtid for c in found}
    assert [c.order for c in found if c.gtid.endswith(":4")] == [1, 1]  # without transaction_topic: of the log
    read_row = changes("orders", "iso", snapshot=True)[0]
    assert (read_row.op, read_row.transaction, read_row.order) == ("r", "", 0)


def test_tombstones_are_no_changes() -> None:
    assert sum(read(each) is None for each in records("orders", "iso")) == 2


def test_flags_and_values_of_all_types() -> None:
    (odd,) = changes("odd", "iso")
    assert (odd.flags, odd.after["born"]) == (["after.born:invalid_date"], "0000-00-00")
    images = {form: changes("every_type", form)[0].after for form in ("iso", "schema", "canal")}
    assert all(isinstance(image, dict) for image in images.values())
    floats = [value for image in images.values() for value in image.values() if isinstance(value, float)]
    assert floats == []
    by_type = list(images["schema"].values())
    assert Decimal("10.50") in by_type
    assert Decimal("12345678901234567890123456789012345.000000000000000000000000000001") in by_type
    assert datetime.fromisoformat("2026-05-03T10:20:30.000123") in by_type
    assert date(2026, 5, 3) in by_type
    assert -timedelta(hours=838, minutes=59, seconds=58, microseconds=120) in by_type
    assert b"\x00\xff\x80" in by_type
    decimals = [value for value in by_type if isinstance(value, Decimal)]
    assert [d for d in images["canal"].values() if isinstance(d, Decimal)][: len(decimals)] != []


def test_boundaries() -> None:
    begin, end = (read(record(m.value.encode(), topic=m.topic)) for m in boundaries("orders"))
    assert isinstance(begin, TransactionMark)
    assert (begin.ends, begin.event_count) == (False, -1)
    assert (end.ends, end.event_count, end.quarantined, end.id) == (True, 2, 0, begin.id)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b'{"a":NaN}', "no JSON"),
        (b"[1]", "no object"),
        (b"\0\0\0\0\1x", "schema registry"),
        ({"id": 1}, "no known form: id"),
        ({"op": "c", "source": None}, "a member is not as its form has it"),
        ({"op": "c", "source": {}}, "a member is not as its form has it"),
        ({"database": "d", "table": "t", "type": "bootstrap-start", "data": {}}, "a member is not"),
        ({"schema": {}, "payload": None}, "a member is not"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_in_no_form_is_named(value: object, why: str) -> None:
    with pytest.raises(MessageFormatError, match=why) as told:
        read(record(value, topic="cdc.x", partition=3, offset=7))
    assert told.value.message.startswith("cdc.x:3:7 ")


def test_without_an_event_id_the_place_stands_for_it() -> None:
    other = {
        "before": None,
        "after": {"id": 1},
        "op": "c",
        "source": {"db": "d", "table": "t", "ts_us": 1, "thread": 1},
    }
    found = read(record(other, topic="x", partition=2, offset=9, key={"id": 1}))
    assert (found.event_id, found.form, found.key) == ("x:2:9", "debezium", {"id": 1})
