"""What a text asks a trace for, by its form."""

from __future__ import annotations

import pytest

from databus.core.trace import Change, TraceQueryError, log_number, log_place, log_prefix, of_event_id
from databus.ops.trace.query import Kind, recognise

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mysql-bin.000812:4411", Kind.POSITION),
        ("server.one-bin.1000000:4", Kind.POSITION),
        (f"{UUID}:23", Kind.GTID),
        (f"{UUID}:blue:23", Kind.GTID),
        ("0-1-55", Kind.GTID),
        (f"{UUID}:23:0:0", Kind.EVENT),
        ("0-1-55:3:1", Kind.EVENT),
        (f"{UUID}:mysql-bin.000812:4411:3:0", Kind.EVENT),
        ("1:bin.000001:150:3:0", Kind.EVENT),
        (f"log1/{UUID}:23:0:0", Kind.EVENT),
        ("log12/1:bin.000001:150:3:0", Kind.EVENT),
        ("cdc.orders:4:99812", Kind.RECORD),
        ("orders/881", Kind.DOCUMENT),
        ("shop.orders/[1,2]", Kind.DOCUMENT),
        ("orders/shop.orders:a b", Kind.DOCUMENT),
        ('{"order_id": 1, "line": 2}', Kind.KEY),
    ],
)
def test_forms(text: str, kind: Kind) -> None:
    assert recognise(text).kind is kind
    assert recognise(text, kind).kind is kind


def test_a_key_becomes_canonical() -> None:
    assert recognise(' {"order_id": 1,  "line": "ü"} ').text == '{"order_id":1,"line":"ü"}'


@pytest.mark.parametrize("text", ["", "orders", "{", "{}", "[1]", "a:b", "mysql-bin:4", "Orders/1", "bin.000001:x"])
def test_what_is_none_of_them_is_refused(text: str) -> None:
    with pytest.raises(TraceQueryError):
        recognise(text)


def test_a_form_that_was_said_is_the_only_one_tried() -> None:
    with pytest.raises(TraceQueryError, match="as a gtid"):
        recognise("cdc.orders:4:99812", Kind.GTID)
    assert recognise("0-1-55:3:1", Kind.EVENT).kind is Kind.EVENT


@pytest.mark.parametrize(
    ("event_id", "change"),
    [
        (f"{UUID}:23:4:1", Change(f"{UUID}:23:4:1", f"{UUID}:23", ordinal=4)),
        ("0-1-55:3:0", Change("0-1-55:3:0", "0-1-55", ordinal=3)),
        ("srv:bin.000001:150:3:0", Change("srv:bin.000001:150:3:0", "", "bin.000001", 150, 3)),
        ("other", Change("other")),
    ],
)
def test_what_an_event_id_tells(event_id: str, change: Change) -> None:
    assert of_event_id(event_id) == change


def test_places_as_numbers_are_ordered_and_come_back() -> None:
    places = [(1, 4), (1, 5_000_000_000), (2, 4), (8_000_000, 1 << 39)]
    numbers = [log_number(*place) for place in places]
    assert numbers == sorted(numbers)
    assert [log_place(number) for number in numbers] == places
    assert numbers[-1] < 1 << 63


@pytest.mark.parametrize("event", [f"{UUID}:23:4:1", f"{UUID}:mysql-bin.000812:4411:4:1"])
def test_an_id_of_a_log_that_replaced_another_names_the_same_place_in_it(event: str) -> None:
    plain, told = of_event_id(event), of_event_id(log_prefix(2) + event)
    assert told.event_id == f"log2/{event}"
    assert (told.gtid, told.file, told.position, told.ordinal) == (
        plain.gtid, plain.file, plain.position, plain.ordinal,
    )  # fmt: skip
    assert log_prefix(0) == ""
