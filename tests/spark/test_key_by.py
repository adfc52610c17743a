"""Keys chosen by columns on real DataFrames: the source's form of a key, order and state per chosen key."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus import KeyBy, Route
from databus.rows.frames.changes import FrameChanges
from databus.rows.murmur2 import murmur2
from databus.runtime.copies import written_rows
from databus.testing.table_batches import Unrepresentable, batch, table
from databus.transforms.drop import DropColumns
from databus.transforms.rename import RenameColumns
from tests.spark.test_route_by_value import COLUMNS, EU, IMAGES, US, Change, Row, checked, flow_of

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

T = table("shop.t", {"id": "int", "region": "varchar(5)", "customer": "int", "note": "text"})
BY_CUSTOMER = KeyBy("customer", tables=("shop.t",))


def row(id: int, customer: int | None, region: str = EU, note: str = "n") -> Row:  # noqa: A002
    return {"id": id, "region": region, "customer": customer, "note": note}


def written(flow: Any, changes: FrameChanges) -> list[Any]:
    rows = written_rows(flow, checked(flow, changes)).orderBy("ordinal", "part")
    return list(rows.selectExpr("key_hash", *COLUMNS, *IMAGES).collect())


def test_a_row_that_gets_another_key_is_a_delete_under_the_old_one_and_an_insert_under_the_new(
    changes_of: Build,
) -> None:
    changes = [
        (None, row(1, 7)),
        (row(1, 7), row(1, 7, note="x")),
        (row(1, 7, note="x"), row(1, 8)),
        (row(1, 8), row(2, 8)),  # another primary key
        (row(2, 8), None),
    ]
    rows = written(flow_of([BY_CUSTOMER]), changes_of(batch(T, changes)))

    seven, eight = '{"customer":7}', '{"customer":8}'
    assert [(r["op"], r["key"]) for r in rows] == [
        *(("c", seven), ("u", seven), ("d", seven), ("c", eight)),
        *(("d", eight), ("c", eight), ("d", eight)),
    ]
    assert [r["key_hash"] for r in rows] == [murmur2(r["key"].encode()) & 0x7FFFFFFF for r in rows]
    assert [r["event_id"].rpartition(":")[2] for r in rows] == ["0", "0", "0.0", "0.1", "0", "1", "0"]
    assert [json.loads(r["before"] or "null") for r in rows][2] == row(1, 7, note="x")


TEXTS = ["", "a b", 'say "hi"', "back\\slash", "имя", "".join(map(chr, range(1, 33))), "\x7f\x80\x9f\u2028\u2029/<>&'"]


def test_keys_are_those_that_the_source_would_make(changes_of: Build) -> None:
    """Of a table whose primary key these columns are."""
    columns = {
        "id": "int", "t": "varchar(50)", "u": "bigint unsigned", "d": "decimal(8,3)", "day": "date",
        "at": "datetime(3)", "b": "varbinary(9)", "the \"name\"": "bigint",
    }  # fmt: skip
    chosen = tuple(name for name in columns if name != "id")
    rows = [
        {"id": n, "t": text, "u": 2**64 - 1 - n, "d": Decimal("1.500") + n, "day": date(2024, 1, 1 + n),
         "at": datetime.fromisoformat(f"2024-01-01T02:03:0{n}.120"), "b": bytes([n, 255]), "the \"name\"": -n}
        for n, text in enumerate(TEXTS)
    ]  # fmt: skip
    ours = written(flow_of([KeyBy(*chosen)]), changes_of(batch(table("shop.t", columns), [(None, r) for r in rows])))
    theirs = changes_of(batch(table("shop.t", columns, chosen), [(None, r) for r in rows])).rows

    made = theirs.orderBy("ordinal").selectExpr("cast(key AS string) AS key", "key_hash").collect()
    assert [(r["key"], r["key_hash"]) for r in ours] == [(r["key"], r["key_hash"]) for r in made]


HELD: list[tuple[Change, str]] = [
    ((None, row(1, None)), "key_by_null(customer)"),
    ((row(2, 7), row(2, None)), "key_by_null(customer)"),
    ((row(3, None), row(3, 7)), "key_by_null(customer)"),
    (({"id": 4}, None), "key_by_lacks(customer)"),
    (({"id": 5}, {"customer": 7}), "key_by_lacks(customer)"),
    (({"id": 6, "customer": 7}, {"id": 6, "customer": 8}), "key_by_lacks(region, note)"),
    (({"id": 7, "customer": 7}, {"id": 7, "note": "x"}), ""),
]


def test_a_row_without_the_key_is_held_back_by_name(changes_of: Build) -> None:
    rows = checked(flow_of([BY_CUSTOMER]), changes_of(batch(T, [change for change, _ in HELD])))

    assert [r["cause"] for r in rows.orderBy("ordinal").selectExpr(*COLUMNS).collect()] == [c for _, c in HELD]
    by_note = flow_of([KeyBy("note")])
    bad = checked(by_note, changes_of(batch(T, [(None, {**row(1, 1), "note": Unrepresentable(b"\xff")})])))
    assert [r["cause"] for r in bad.selectExpr(*COLUMNS).collect()] == ["key_by_flagged(note)"]


def test_beside_routes_and_under_the_names_of_its_place(changes_of: Build) -> None:
    moves = [(row(1, 7), row(1, 8, US)), (row(2, 7), row(2, 7, US)), (row(3, 7), row(3, 8))]
    by_region = Route(by="region", routes=(EU, US))
    rename = RenameColumns({"customer": "who"})
    found = [
        [(r["route"], r["op"], r["key"]) for r in written(flow_of(specs), changes_of(batch(T, moves)))]
        for specs in (
            [rename, KeyBy("who"), by_region, DropColumns("who", "region")],
            [by_region, rename, KeyBy("WHO")],
        )
    ]

    seven, eight = '{"who":7}', '{"who":8}'
    assert found[0] == found[1] == [
        (EU, "d", seven), (US, "c", eight), (EU, "d", seven), (US, "c", seven), (EU, "d", seven), (EU, "c", eight),
    ]  # fmt: skip


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_a_reader_of_each_key_holds_the_rows_that_have_it(changes_of: Build, seed: int) -> None:
    choose, rows, done = random.Random(seed), dict[int, Row](), list[Change]()
    while len(done) < 100:
        new = row(choose.randrange(6), choose.randrange(3), choose.choice([EU, US]), str(len(done)))
        old = rows.pop(new["id"], None)
        gone = old is not None and choose.random() < 0.3
        done.append((old, None) if gone else (old, new))
        if not gone:
            rows[new["id"]] = new

    held: dict[tuple[str, int], Row] = {}
    flow = flow_of([BY_CUSTOMER, Route(by="region", routes=(EU, US))])
    for r in written(flow, changes_of(batch(T, done))):
        before, after = json.loads(r["before"] or "null"), json.loads(r["after"] or "null")
        place = f"{r['route']} {r['key']}", (after or before)["id"]
        assert (place in held) == (r["op"] != "c")
        if r["op"] != "c":
            assert held[place] == before
        held[place] = after
        if r["op"] == "d":
            del held[place]
    assert held == {(f'{r["region"]} {{"customer":{r["customer"]}}}', key): r for key, r in rows.items()}
