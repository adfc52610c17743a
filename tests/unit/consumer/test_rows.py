"""Rows as classes, filters, and event ids that were seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Optional

import pytest
from pydantic import BaseModel, Field

from databus.consumer import Change, Seen
from databus.consumer.filters import Filters
from databus.consumer.messages import read
from databus.core.errors import ConsumerError, RowTypeError
from tests.unit.consumer.records import record


def change(op: str = "c", before: Any = None, after: Any = None, table: str = "shop.a", offset: int = 0) -> Change:
    database, name = table.split(".")
    source = {"db": database, "table": name, "event_id": f"e{offset}"}
    found = read(record({"before": before, "after": after, "op": op, "source": source}, offset=offset))
    assert isinstance(found, Change)
    return found


VALUES = {
    "id": 7, "price": "1234567890123456789012345678901234567890.05", "born": "2026-05-03",
    "at": "2026-05-03T10:20:30.5",
    "utc": "2026-05-03T10:20:30Z", "span": "-838:59:58.000120", "clock": "10:20:30", "raw": "AP+A", "flag": 1,
    "doc": '{"a":1.10}', "note": None, "more": "left out",
}  # fmt: skip


@dataclass
class Typed:
    id: int
    price: Decimal
    born: date
    at: datetime
    utc: datetime
    span: timedelta
    clock: time
    raw: bytes
    flag: bool
    doc: dict[str, Any]
    note: str | None
    absent: int = 5
    made: list[int] = field(default_factory=list)


class Model(BaseModel):
    number: int = Field(alias="id")
    price: Decimal
    raw: bytes
    note: Optional[str] = "x"  # noqa: UP045 - as users write it too
    doc: dict[str, Any]


def test_a_dataclass_and_a_model() -> None:
    found = change(after=VALUES).as_row(Typed)
    assert found == Typed(
        7, Decimal(VALUES["price"]), date(2026, 5, 3), datetime.fromisoformat("2026-05-03T10:20:30.5"),
        datetime.fromisoformat("2026-05-03T10:20:30+00:00"),
        -timedelta(hours=838, minutes=59, seconds=58, microseconds=120), time(10, 20, 30), b"\x00\xff\x80", True,
        {"a": Decimal("1.10")}, None,
    )  # fmt: skip
    model = change(after=VALUES).as_row(Model)
    assert model is not None
    assert (model.number, model.price, model.raw, model.note) == (7, Decimal(VALUES["price"]), b"\x00\xff\x80", None)
    assert change("d", before=VALUES).as_row(Typed) == found
    assert change("d", before=VALUES).as_row(Typed, "after") is None


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("id", None, "it is NULL"),
        ("id", "7", "no whole number"),
        ("price", "much", "does not fit"),
        ("price", True, "no number"),
        ("born", "0000-00-00", "does not fit"),
        ("clock", "25:00:00", "no time of a day"),
        ("span", "x", "no TIME"),
        ("raw", "no base64!", "does not fit"),
        ("flag", 2, "neither 0 nor 1"),
        ("note", 5, "no text"),
    ],
)
def test_a_value_that_does_not_fit_is_named_without_it(column: str, value: Any, why: str) -> None:
    with pytest.raises(RowTypeError, match=why) as told:
        change(after={**VALUES, column: value}).as_row(Typed)
    assert f"shop.a.{column} of e0" in str(told.value)
    assert "much" not in str(told.value)


def test_a_column_that_is_absent_is_named() -> None:
    with pytest.raises(RowTypeError, match=r"shop\.a of e0 has no column price, born"):
        change(after={n: v for n, v in VALUES.items() if n not in ("price", "born")}).as_row(Typed)
    with pytest.raises(RowTypeError, match=r"is no Model: doc: Field required"):
        change(after={n: v for n, v in VALUES.items() if n != "doc"}).as_row(Model)
    with pytest.raises(RowTypeError, match="neither a dataclass nor a pydantic model"):
        change(after=VALUES).as_row(int)


def test_tables_and_columns() -> None:
    filters = Filters(("shop.a", "crm.*"), None, ("id",))
    wanted = [
        filters.wanted(change(table=t, after={"id": 1, "v": 2})) for t in ("shop.a", "shop.ab", "crm.x", "shop.a")
    ]
    assert wanted == [True, False, True, True]
    cut = change("u", before={"id": 1, "v": 1}, after={"id": 1, "v": 2})
    assert filters.wanted(cut)
    assert (cut.before, cut.after) == ({"id": 1}, {"id": 1})
    unknown = read(record({"id": 1, "__op": "c", "__deleted": False}))
    assert isinstance(unknown, Change)
    with pytest.raises(ConsumerError, match="do not say their table"):
        filters.wanted(unknown)


def test_a_row_that_leaves_the_condition_is_not_missed() -> None:
    filters = Filters((), {"status": ("new", "paid"), "id": 1}, ())
    new, sent = {"id": 1, "status": "new"}, {"id": 1, "status": "sent"}
    assert filters.wanted(change("u", before=new, after=sent))
    assert filters.wanted(change("d", before=new))
    assert not filters.wanted(change("u", before=sent, after=sent))
    assert not filters.wanted(change(after={"id": 2, "status": "new"}))
    assert filters.wanted(change("t"))
    assert not Filters((), lambda c: c.after["id"] > 1, ()).wanted(change(after={"id": 1}))


def test_seen_is_bounded() -> None:
    seen = Seen(most=2)
    for offset in range(3):
        assert change(offset=offset) not in seen
        seen.add(change(offset=offset))
    assert [change(offset=offset) in seen for offset in range(3)] == [False, True, True]
    assert len(seen) == 2
    seen.clear()
    assert change(offset=2) not in seen
    with pytest.raises(ValueError, match="1 or more"):
        Seen(most=0)
