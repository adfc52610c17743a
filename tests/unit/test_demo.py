"""The demonstration's judgement: rows that were there before the flow, and each change since."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from databus.demo.oracle import ConsumedTopic, fold
from databus.demo.shop import ShopTotals
from databus.demo.verdict import _miscounted

BEFORE = frozenset({("orders", "1"), ("orders", "2"), ("order_items", "1|1")})


def record(order: int, op: str, place: int) -> tuple[bytes, bytes]:
    source = {
        "db": "shop",
        "table": "orders",
        "event_id": f"{op}-{order}-{place}",
        "file": "b.1",
        "pos": place,
        "row": 0,
    }
    row: dict[str, Any] = {"op": op, "source": source, "after": {"order_id": order}}
    return json.dumps({"order_id": order}, separators=(",", ":")).encode(), json.dumps(row).encode()


def topic(*records: tuple[int, str]) -> ConsumedTopic:
    return fold(record(order, op, place) for place, (order, op) in enumerate(records))


def written(**changes: int) -> ShopTotals:
    return ShopTotals(per_key=Counter({("orders", key[1:]): times for key, times in changes.items()}), before=BEFORE)


@pytest.mark.parametrize(
    "records",
    [
        ((1, "r"), (2, "r"), (2, "u"), (3, "c")),
        ((1, "r"), (2, "u"), (3, "c")),  # 2 changed while it was read
        ((1, "r"), (2, "r"), (2, "u"), (3, "c"), (3, "r")),  # 3 came before its chunk was read
    ],
)
def test_rows_from_before_and_changes_since_come(records: tuple[tuple[int, str], ...]) -> None:
    assert _miscounted("shop.orders", topic(*records), written(o2=1, o3=1)) == []


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (((2, "r"), (2, "u"), (3, "c")), "shop.orders 1: was there before, came 0 times as a row"),
        (((1, "r"), (1, "r"), (2, "u"), (3, "c")), "shop.orders 1: was there before, came 2 times as a row"),
        (((1, "r"), (2, "r"), (3, "c")), "shop.orders 2: changed 1 times, 0 records"),
        (((1, "r"), (2, "u"), (2, "u"), (3, "c")), "shop.orders 2: changed 1 times, 2 records"),
        (((1, "r"), (2, "u"), (3, "r")), "shop.orders 3: changed 1 times, 0 records"),
    ],
)
def test_a_row_that_is_missing_or_comes_too_often_is_named(records: tuple[tuple[int, str], ...], said: str) -> None:
    assert _miscounted("shop.orders", topic(*records), written(o2=1, o3=1)) == [said]


def test_rows_as_they_were_read_are_no_changes() -> None:
    seen = topic((1, "r"), (1, "u"))
    place = ("shop.orders", '{"order_id":1}')
    assert (seen.messages, seen.reads[place], seen.changes[place]) == (2, 1, 1)


def test_the_command_begins() -> None:
    done = subprocess.run([sys.executable, "-m", "databus.demo", "--help"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--keep" in done.stdout
