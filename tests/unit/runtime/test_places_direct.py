"""Routes and keys by value in the direct lane: records, ids and keys of copies, causes, counts, what stays apart."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from databus import (
    AddColumn,
    Cast,
    DropColumns,
    Filter,
    Kafka,
    KeyBy,
    Mask,
    Memory,
    NotNull,
    Project,
    RenameColumns,
    Route,
    Split,
)
from databus.binlog.decoding.table_batch import TableEvent
from databus.core.flow_specs import TransformSpec
from databus.rows.emit import emit
from databus.rows.murmur2 import murmur2
from databus.runtime.direct import row_copies
from databus.runtime.direct.reasons import refusal, row_program, table_lanes
from databus.runtime.direct.spark_tables import SparkTables, spark_tables
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.placed_rows import direct, flow_of, plain, planned, random_batch, random_flow
from tests.sinks_apart import Here, moved
from tests.sinks_apart import flow_of as mock_flow

Row = dict[str, Any]
Change = tuple[Row | None, Row | None]

T = table("shop.t", {"id": "int", "region": "varchar(5)", "v": "int", "note": "text"})
EU, US = "eu", "us"
BY_REGION = Route(by="region", routes=(EU, US))
SPLIT = Split({"big": "v > 5", "all": "true", "europe": "region = 'eu'"})


def row(id: int, region: str | None, v: int | None = 1) -> Row:  # noqa: A002
    return {"id": id, "region": region, "v": v, "note": "n"}


def written(specs: Sequence[TransformSpec], changes: Sequence[Change], **options: Any) -> list[Row]:
    found, _ = direct(flow_of(specs), batch(T, changes), **options)
    return [plain(each) for each in found]


def went(rows: Sequence[Row]) -> list[tuple[str, str, Any, Any]]:
    return [(r["route"], r["op"], r["before"], r["after"]) for r in rows]


def causes(specs: Sequence[TransformSpec], changes: Sequence[Change]) -> list[str]:
    """Return why each change is held back, "" where it is not."""
    _, counter = direct(flow_of(specs), batch(T, changes))
    held = {each.event_id: each.cause for each in counter.observed.held}
    return [held.get(f"server:mysql-bin.000001:1:{n}:0", "") or _cause(held, n) for n in range(len(changes))]


def _cause(held: dict[str, str], number: int) -> str:
    return next((cause for event, cause in held.items() if event.split(":")[-2] == str(number)), "")


MOVES: list[Change] = [
    (None, row(1, EU)),
    (row(1, EU), row(1, EU, 2)),
    (row(1, EU, 2), row(1, US, 2)),  # moves
    (row(1, US, 2), row(2, EU, 2)),  # another key: the source made a delete and an insert of it
    (row(2, EU, 2), None),
]


def test_an_update_that_moves_is_a_delete_at_the_old_route_and_an_insert_at_the_new_one() -> None:
    rows = written([BY_REGION], MOVES)

    assert went(rows) == [
        (EU, "c", None, row(1, EU)),
        (EU, "u", row(1, EU), row(1, EU, 2)),
        (EU, "d", row(1, EU, 2), None),
        (US, "c", None, row(1, US, 2)),
        (US, "d", row(1, US, 2), None),
        (EU, "c", None, row(2, EU, 2)),
        (EU, "d", row(2, EU, 2), None),
    ]
    assert [r["event_id"].partition(":1:")[2] for r in rows] == ["0:0", "1:0", "2:0.0", "2:0.1", "3:0", "3:1", "4:0"]
    assert [r["part"] for r in rows] == [0, 0, 0, 1, 0, 2, 0]
    assert {r["key"] for r in rows[:4]} == {'{"id":1}'}


def test_moving_follow_keeps_one_row_at_the_new_route() -> None:
    rows = written([Route(by="region", routes=(EU, US), moving="follow")], MOVES[:3])

    assert went(rows)[2] == (US, "u", row(1, EU, 2), row(1, US, 2))
    assert [r["event_id"].partition(":1:")[2] for r in rows] == ["0:0", "1:0", "2:0"]


def test_a_statement_goes_to_each_route() -> None:
    events = [TableEvent("t", "shop", name, "TRUNCATE", 1, n) for n, name in enumerate(("t", "other"))]
    route = Route(by="region", routes=(US, EU), tables=("shop.t",))

    rows, counter = direct(flow_of([route]), batch(T, MOVES[:1]), events)

    found = [(r["op"], r["route"], r["event_id"].partition(":2:")[2]) for r in rows if r["op"] == "t"]
    assert found == [("t", US, "0:0.0"), ("t", EU, "0:0.1"), ("t", "shop.other", "1:0")]
    assert (counter.observed.mine["(statements)"], counter.observed.read["1_dispatched"]) == (3, 2)


def test_each_condition_of_a_split_is_crossed_on_its_own() -> None:
    changes: list[Change] = [
        (None, row(1, US, 1)),
        (row(1, US, 1), row(1, EU, 9)),  # enters two
        (row(1, EU, 9), row(1, EU, 1)),  # leaves one
        (row(1, EU, 1), row(2, US, 9)),  # another key
        (row(2, US, 9), None),
    ]
    assert [(r["op"], r["route"], r["event_id"].partition(":1:")[2]) for r in written([SPLIT], changes)] == [
        ("c", "all", "0:0"),
        *(("u", "all", "1:0.0"), ("c", "big", "1:0.1"), ("c", "europe", "1:0.2")),
        *(("d", "big", "2:0.0"), ("u", "all", "2:0.1"), ("u", "europe", "2:0.2")),
        *(("d", "all", "3:0.0"), ("d", "europe", "3:0.1"), ("c", "all", "3:1.0"), ("c", "big", "3:1.1")),
        *(("d", "all", "4:0.0"), ("d", "big", "4:0.1")),
    ]


def test_a_row_that_gets_another_key_is_a_delete_under_the_old_one_and_an_insert_under_the_new() -> None:
    rows = written([KeyBy("v"), BY_REGION], [(None, row(1, EU, 7)), (row(1, EU, 7), row(1, US, 8))])

    seven, eight = '{"v":7}', '{"v":8}'
    assert [(r["op"], r["route"], r["key"]) for r in rows] == [("c", EU, seven), ("d", EU, seven), ("c", US, eight)]
    assert [r["key_hash"] for r in rows] == [murmur2(r["key"].encode()) & 0x7FFFFFFF for r in rows]
    renamed = [RenameColumns({"v": "who"}), KeyBy("WHO"), DropColumns("who", "region")]
    assert [r["key"] for r in written(renamed, MOVES[:1])] == ['{"who":1}']
    hidden = [Mask("note"), KeyBy("note"), AddColumn(twice="v * 2"), KeyBy("twice", "note")]
    assert [r["key"] for r in written(hidden, MOVES[:1])] == ['{"twice":2,"note":"***"}']


TEXTS = ["", "a b", 'say "hi"', "back\\slash", "имя", "".join(map(chr, range(1, 33))), "\x7f\x80\x9f\u2028\u2029/<>&'"]


def test_keys_are_those_that_the_source_would_make() -> None:
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
    ours, _ = direct(flow_of([KeyBy(*chosen)]), batch(table("shop.t", columns), [(None, r) for r in rows]))
    theirs = emit(batch(table("shop.t", columns, chosen), [(None, r) for r in rows]), transactions(8), "server")

    made = pa.Table.from_batches(theirs).select(["key", "key_hash"]).to_pylist()
    assert [{"key": r["key"], "key_hash": r["key_hash"]} for r in ours] == made


HELD: list[tuple[TransformSpec, Change, str]] = [
    (BY_REGION, (None, row(1, "apac")), "route(apac)"),
    (BY_REGION, (None, row(2, None)), "route(NULL)"),
    (BY_REGION, (row(3, "apac"), row(3, EU)), "route(apac)"),
    (BY_REGION, (row(4, EU), row(4, "x")), "route(x)"),
    (BY_REGION, ({"id": 5}, None), "route_lacks(region)"),
    (BY_REGION, ({"id": 6}, {"id": 6, "v": 2}), "route_lacks(region)"),
    (BY_REGION, ({"id": 7}, {"id": 7, "region": EU}), "route_lacks(region)"),
    (BY_REGION, ({"id": 8, "region": EU}, {"id": 8, "region": US, "v": 1}), "route_lacks(note)"),
    (BY_REGION, (None, {**row(9, EU), "region": Unrepresentable(b"\xff")}), "route_flagged(region)"),
    (BY_REGION, ({"id": 10, "region": EU}, {"id": 10, "v": 1}), ""),  # what an after-image lacks did not change
    (KeyBy("v"), (None, row(1, EU, None)), "key_by_null(v)"),
    (KeyBy("v"), (row(2, EU, 7), row(2, EU, None)), "key_by_null(v)"),
    (KeyBy("v"), (row(3, EU, None), row(3, EU, 7)), "key_by_null(v)"),
    (KeyBy("v"), ({"id": 4}, None), "key_by_lacks(v)"),
    (KeyBy("v"), ({"id": 6, "v": 7}, {"id": 6, "v": 8}), "key_by_lacks(region, note)"),
    (KeyBy("v"), ({"id": 7, "v": 7}, {"id": 7, "note": "x"}), ""),
    (KeyBy("note"), (None, {**row(1, EU), "note": Unrepresentable(b"\xff")}), "key_by_flagged(note)"),
    (SPLIT, ({"id": 1}, None), "split_lacks(v, region)"),
    (SPLIT, ({"id": 2}, {"id": 2, "v": 9}), "split_lacks(region)"),
    (SPLIT, ({"id": 3, "v": 1, "region": EU}, {"id": 3, "v": 9}), "split_lacks(region, note)"),  # enters a route
    (SPLIT, ({"id": 4, "v": 9, "region": EU}, {"id": 4, "v": 1}), ""),  # leaves one
]


@pytest.mark.parametrize("spec", [BY_REGION, KeyBy("v"), KeyBy("note"), SPLIT], ids=lambda spec: str(spec.label()))
def test_what_has_no_place_is_held_back_by_name(spec: TransformSpec) -> None:
    mine = [(change, cause) for of, change, cause in HELD if of == spec]
    assert causes([spec], [change for change, _ in mine]) == [cause for _, cause in mine]


@pytest.mark.parametrize(
    ("specs", "told"),
    [
        ([BY_REGION, DropColumns("region")], "route(***)"),
        ([BY_REGION, RenameColumns({"region": "area"}), Mask("area")], "route(***)"),
        ([Mask("region"), BY_REGION, DropColumns("note")], "route(***)"),  # the mask's own text
        ([BY_REGION, Mask("region"), Cast(v="string")], "route(***)"),
        ([BY_REGION, DropColumns("note")], "route(apac)"),
    ],
)
def test_a_value_that_is_hidden_behind_is_not_told(specs: list[TransformSpec], told: str) -> None:
    assert causes(specs, [(None, row(1, "apac"))]) == [told]


def test_a_moved_row_that_violates_a_check_is_held_back_whole_and_counted_once() -> None:
    moves = [(row(1, EU), row(1, US, None)), (row(2, EU), row(2, US)), (None, row(3, EU))]
    flow = flow_of([BY_REGION], [NotNull("v")], [(EU,), (US,), ("*",), ("other",)])
    given, read = [], []
    for number in range(4):
        found, counter = direct(flow, batch(T, moves), sink=number)
        assert counter.observed.mine.total() == counter.observed.given == len(found)
        given.append(len(found))
        read.append({name: count for name, count in counter.observed.read.items() if count})

    assert given == [2, 1, 3, 0]
    assert read[0] == read[1] == read[2] == {
        "changes": 3, "0_quarantined": 1, "0_dispatched": 2, "0_checked": 3, "0_violates_0": 1,
    }  # fmt: skip


def test_a_row_of_no_route_that_a_sink_takes_is_filtered() -> None:
    flow = flow_of([Split({"big": "v > 5", "europe": "region = 'eu'"})], routes=[("big",), ("europe",)])
    rows = batch(T, [(None, row(1, US, 1)), (None, row(2, EU, 9)), (None, row(3, US, None)), (None, row(4, EU, 1))])

    (big, counter), (europe, _) = (direct(flow, rows, sink=number) for number in (0, 1))

    assert (len(big), len(europe)) == (1, 2)
    assert (counter.observed.read["0_filtered"], counter.observed.read["0_dispatched"]) == (2, 2)
    held = flow_of([BY_REGION], routes=[(US,)])  # for whatever route it would have been
    _, counter = direct(held, batch(T, [(row(4, EU), row(4, "x"))]))
    assert (counter.observed.read["0_quarantined"], counter.observed.mine.total()) == (1, 0)


def test_filters_before_and_behind_see_one_row() -> None:
    moves: list[Change] = [
        (row(1, EU, 9), row(1, US, 1)),
        (row(2, EU, 1), row(2, US, 9)),
        (row(3, EU, 9), row(3, US, 9)),
    ]
    expected = [(EU, "d"), (US, "c"), (EU, "d"), (US, "c")]
    for specs in ([BY_REGION, Filter("v > 5")], [Filter("v > 5"), BY_REGION]):
        rows = written(specs, moves)
        assert [(r["route"], r["op"]) for r in rows] == expected
        assert [r["event_id"].rpartition(":")[2] for r in rows] == ["0", "0", "0.0", "0.1"]
    by_table = written([BY_REGION, Route({"shop.t": "all"})], moves)
    assert [(r["route"], r["op"]) for r in by_table] == [("all", "u")] * 3
    last = written([SPLIT, BY_REGION], moves[2:])
    assert [(r["route"], r["op"]) for r in last] == [(EU, "d"), (US, "c")]


def history(seed: int, changes: int) -> tuple[list[Change], dict[int, Row]]:
    """Return the changes of a few rows, and the rows in the end."""
    choose, rows, done = random.Random(seed), dict[int, Row](), list[Change]()
    while len(done) < changes:
        new = row(choose.randrange(6), choose.choice([EU, US]), choose.choice([None, 1, 9]))
        old = rows.pop(new["id"], None)
        gone = old is not None and choose.random() < 0.2
        done.append((old, None) if gone else (old, new))
        if not gone:
            rows[new["id"]] = new
    return done, rows


@pytest.mark.parametrize("specs", [[BY_REGION], [SPLIT], [BY_REGION, KeyBy("region", "id")], [KeyBy("region"), SPLIT]])
def test_a_reader_of_each_route_holds_the_rows_that_are_of_it(specs: list[TransformSpec]) -> None:
    seed = random.SystemRandom().getrandbits(32)
    changes, left = history(seed, 400)
    held: dict[tuple[str, str, int], Row] = {}
    for r in written(specs, changes):
        place = r["route"], r["key"], (r["after"] or r["before"])["id"]
        assert (place in held) == (r["op"] != "c"), seed
        if r["op"] != "c":
            assert held.pop(place) == r["before"], seed
        if r["op"] != "d":
            held[place] = r["after"]
    true = {"big": lambda r: r["v"] == 9, "all": lambda _: True, "europe": lambda r: r["region"] == EU}
    for route in {route for route, _, _ in held}:
        expected = {k for k, r in left.items() if (true[route](r) if route in true else r["region"] == route)}
        assert {k for of, _, k in held if of == route} == expected, seed


def test_copies_of_large_rows_are_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written does not depend on where copies are cut, nor on how rows stood in record batches."""
    r = random.Random(7)
    found = [(random_flow(r), random_batch(r, 60)) for _ in range(4)]
    whole = [direct(flow_of(specs), rows)[0] for specs, rows in found]
    monkeypatch.setattr(row_copies, "MOST_BYTES", 300)
    assert [direct(flow_of(specs), rows)[0] for specs, rows in found] == whole
    for rows in whole:
        assert len({each["event_id"] for each in rows}) == len(rows)


def test_a_program_goes_to_tasks() -> None:
    flow = flow_of([BY_REGION, KeyBy("v"), SPLIT])
    program = pickle.loads(pickle.dumps(row_program(flow, planned(batch(T, MOVES)))))
    assert program.places


class OwnRoute(Route):
    """A subclass as of another package."""


def test_what_stays_in_sparks_lane_says_why() -> None:
    other = table("shop.u", {"id": "int", "region": "varchar(5)", "d": "double"}, schema_id=1)
    assert refusal(flow_of([OwnRoute(by="region", routes=(EU,))])).endswith("is applied by Spark alone")
    by_double = flow_of([Route(by="d", routes=("1.5",), tables=("shop.u",))])
    first, second = table_lanes(by_double, (T, other))
    assert (first.lane, second.lane) == ("spark", "spark")
    assert second.reason.startswith("route by d to 1.5: ")
    assert first.reason.startswith("transform route by d to 1.5 makes several records of a row, and shop.u goes there")
    learnt = flow_of([BY_REGION, Filter("note = 'x'", tables=("shop.t",))])
    assert spark_tables(learnt, planned(batch(T, MOVES), batch(other, [])), SparkTables({"shop.t": "why"})) is None
    plain_form, form = (Kafka(conn_id="k", topic="t.{route}", **more) for more in ({}, {"types": "debezium"}))
    assert refusal(by_double.model_copy(update={"sinks": (plain_form,)})) == ""
    assert refusal(by_double.model_copy(update={"sinks": (form,)})) == (
        'transform route by d to 1.5 makes several records of a row, and types="debezium" has no form for them'
    )


@pytest.mark.parametrize("before", [(), (Filter("amount > 100"),)], ids=["plain", "filtered"])
def test_copies_are_made_behind_a_sinks_own_transforms(before: tuple[TransformSpec, ...]) -> None:
    """An update that moves has a copy at each route, of the images that the sink's filter leaves."""
    route = Route(by="CASE WHEN customer_id % 2 = 0 THEN 'even' ELSE 'odd' END", routes=("even", "odd"))
    own: dict[str, tuple[TransformSpec, ...]] = {
        "even": (Filter("amount > 5000000000"), AddColumn(gross="CAST(amount * 2 AS decimal(14,2))")),
        "all": (Mask("region"), Filter("_op <> 'c' OR amount IS NOT NULL"), Project("id", "amount", "region")),
    }
    routes = {"even": ("even",), "all": ("*",)}
    sinks = [Memory(name=n, store=n, routes=routes[n], transforms=own[n]) for n in own]
    together = moved(Here(), mock_flow(11, 200, [*before, route], sinks))
    for name, specs in own.items():
        sink = Memory(name=name, store=name, routes=routes[name])
        alone = moved(Here(), mock_flow(11, 200, [*before, route, *specs], [sink]))
        assert together.stores[name] == alone.stores[name], name
    assert together.left_out("even")


def test_a_flow_of_sinks_by_route_counts_what_each_confirms() -> None:
    """Over two tables, with transforms of one sink behind; `moved` holds the ledger to it."""
    route = Route(by="coalesce(status, 'none')", routes=("new", "paid", "none"), tables=("shop.orders",))
    sinks = [
        Memory(name="new", store="new", routes=("new",)),
        Memory(name="all", store="all"),
        Memory(
            name="cut",
            store="cut",
            routes=("new", "shop.*"),
            transforms=(Filter("amount > 5000000000"), Mask("region")),
        ),
    ]
    told = moved(Here(), mock_flow(5, 400, [route, KeyBy("customer_id", tables=("shop.people",))], sinks))

    held = {each.cause for each in told.held}
    assert {"key_by_null(customer_id)"} <= held
    assert all(cause.startswith(("route(", "key_by_null(")) for cause in held)
    for name in ("new", "all", "cut"):
        assert told.confirmed(name) == len(told.stores[name]) > 0
    assert told.left_out("cut")
    ids = {name: {r["event_id"] for r in told.stores[name]} for name in told.stores}
    assert ids["new"] < ids["all"]
