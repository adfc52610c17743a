"""Routes by value on real DataFrames; the oracle is a reader of each route that keeps rows by key."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus import AddColumn, Filter, Flow, Mask, Mock, Noop, NotNull, Route
from databus.binlog.decoding.table_batch import TableEvent
from databus.core.flow_specs import CheckSpec, TransformSpec
from databus.rows.emit import emit_events
from databus.rows.frames.changes import FrameChanges
from databus.runtime import check, counts
from databus.runtime.copies import any_taken_by, first_of_row, taken_by, written_rows
from databus.sinks.markerless import UnmarkedSink
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from databus.transforms.cast import Cast
from databus.transforms.drop import DropColumns
from databus.transforms.rename import RenameColumns

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]
Row = dict[str, Any]
Change = tuple[Row | None, Row | None]

T = table("shop.t", {"id": "int", "region": "varchar(5)", "v": "int", "note": "text"})
EU, US = "eu", "us"
BY_REGION = Route(by="region", routes=(EU, US))
SINK = UnmarkedSink("any")


def flow_of(specs: Sequence[TransformSpec], checks: Sequence[CheckSpec] = (), routes: Sequence[str] = ("*",)) -> Flow:
    sinks = tuple(Noop(name=f"s{number}", routes=(route,)) for number, route in enumerate(routes))
    source = Mock(tables=("shop.t",), rows=1)
    return Flow(name="routed", source=source, transforms=tuple(specs), checks=tuple(checks), sinks=sinks)


def checked(flow: Flow, changes: FrameChanges) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    for spec in flow.transforms:
        changes = spec.apply(changes)  # type: ignore[assignment]  # the protocol's one implementation
    taken = F.lit(False)
    for sink in flow.sinks:
        taken = taken | any_taken_by(flow, SINK, sink)
    return check.check(flow, changes, taken)


COLUMNS = ("state", "op", "route", "event_id", "part", "flags", "absent", "array_join(violations, ', ') AS cause")
IMAGES = ("cast(key AS string) AS key", "to_json(before) AS before", "to_json(after) AS after")


def written(flow: Flow, changes: FrameChanges) -> list[Any]:
    rows = written_rows(flow, checked(flow, changes)).orderBy("ordinal", "part")
    return list(rows.selectExpr(*COLUMNS, *IMAGES).collect())


def row(id: int, region: str | None, v: int | None = 1) -> Row:  # noqa: A002
    return {"id": id, "region": region, "v": v, "note": "n"}


def went(rows: Sequence[Any]) -> list[tuple[str, str, Any, Any]]:
    return [
        (r["route"], r["op"], json.loads(r["before"] or "null"), json.loads(r["after"] or "null"))
        for r in rows
        if r["state"] == "dispatched"
    ]


MOVES: list[Change] = [
    (None, row(1, EU)),
    (row(1, EU), row(1, EU, 2)),
    (row(1, EU, 2), row(1, US, 2)),  # moves
    (row(1, US, 2), row(2, EU, 2)),  # another key: the source made a delete and an insert of it
    (row(2, EU, 2), None),
]


def test_an_update_that_moves_is_a_delete_at_the_old_route_and_an_insert_at_the_new_one(changes_of: Build) -> None:
    rows = written(flow_of([BY_REGION]), changes_of(batch(T, MOVES)))

    assert went(rows) == [
        (EU, "c", None, row(1, EU)),
        (EU, "u", row(1, EU), row(1, EU, 2)),
        (EU, "d", row(1, EU, 2), None),
        (US, "c", None, row(1, US, 2)),
        (US, "d", row(1, US, 2), None),
        (EU, "c", None, row(2, EU, 2)),
        (EU, "d", row(2, EU, 2), None),
    ]
    ids = ["0:0", "1:0", "2:0.0", "2:0.1", "3:0", "3:1", "4:0"]
    assert [r["event_id"] for r in rows] == [f"source:1:{each}" for each in ids]
    assert [r["part"] for r in rows] == [0, 0, 0, 1, 0, 2, 0]
    assert {r["key"] for r in rows[:4]} == {'{"id":1}'}


def test_moving_follow_keeps_one_row_at_the_new_route(changes_of: Build) -> None:
    follow = BY_REGION.model_copy(update={"moving": "follow"})
    rows = written(flow_of([follow]), changes_of(batch(T, MOVES[:3])))

    assert went(rows)[2] == (US, "u", row(1, EU, 2), row(1, US, 2))
    assert [r["event_id"] for r in rows] == ["source:1:0:0", "source:1:1:0", "source:1:2:0"]


def test_a_statement_goes_to_each_route(changes_of: Build) -> None:
    events = [
        TableEvent("t", "shop", "t", "TRUNCATE t", 1, 0),
        TableEvent("t", "shop", "other", "TRUNCATE other", 1, 1),
    ]
    flow = flow_of([Route(by="region", routes=(EU, US), tables=("shop.t",))])
    rows = written(flow, changes_of(batch(T, MOVES[:1]), statements=emit_events(events, transactions(2), "server")))

    found = [(r["op"], r["route"], r["event_id"]) for r in rows if r["op"] == "t"]
    assert sorted(found) == [
        ("t", EU, "source:2:0:0.0"),
        ("t", "shop.other", "source:2:1:0"),
        ("t", US, "source:2:0:0.1"),
    ]


HELD: list[tuple[Change, str]] = [
    ((None, row(1, "apac")), "route(apac)"),
    ((None, row(2, None)), "route(NULL)"),
    ((row(3, "apac"), row(3, EU)), "route(apac)"),
    ((row(4, EU), row(4, "x")), "route(x)"),
    (({"id": 5}, None), "route_lacks(region)"),
    (({"id": 6}, {"v": 2}), "route_lacks(region)"),
    (({"id": 7}, {"region": EU}), "route_lacks(region)"),
    (({"id": 8, "region": EU}, {"id": 8, "region": US, "v": 1}), "route_lacks(note)"),  # an insert without a column
    ((None, {**row(9, EU), "region": Unrepresentable(b"\xff")}), "route_flagged(region)"),
    (({"id": 10, "region": EU}, {"id": 10, "v": 1}), ""),  # what an after-image lacks did not change
]


def test_what_has_no_route_is_held_back_by_name_and_whole(changes_of: Build) -> None:
    flow = flow_of([BY_REGION], routes=(US,))  # for whatever route it would have been
    rows = checked(flow, changes_of(batch(T, [change for change, _ in HELD]))).orderBy("ordinal", "part")

    found = rows.selectExpr(*COLUMNS).collect()
    assert [r["cause"] for r in found] == [cause for _, cause in HELD]
    assert [r["state"] for r in found] == ["quarantined"] * (len(HELD) - 1) + ["filtered"]
    assert [r["op"] for r in written(flow, changes_of(batch(T, [HELD[3][0]])))] == ["u"]


def test_a_cause_does_not_show_a_value_that_a_transform_behind_hides(changes_of: Build) -> None:
    moves: list[Change] = [(None, row(1, "4711")), (row(2, "4711\n)"), row(2, EU)), (None, row(3, EU))]

    def causes(*specs: TransformSpec) -> list[str]:
        rows = checked(flow_of(specs), changes_of(batch(T, moves))).orderBy("ordinal")
        return [r["cause"] for r in rows.selectExpr(*COLUMNS).collect()]

    assert causes(BY_REGION, RenameColumns({"region": "place"}), Mask("place")) == ["route(***)", "route(***)", ""]
    computed = Route(by="part", routes=(EU, US))
    assert causes(AddColumn(part="concat(region, '')"), computed, DropColumns("region"))[0] == "route(***)"
    assert causes(Mask("region"), Route(by="concat(region, '-')", routes=(EU, US)))[0] == "route(***-)"
    assert causes(BY_REGION, Mask("note"))[0] == "route(4711)"


def test_a_moved_row_that_violates_a_check_is_held_back_whole_and_counted_once(changes_of: Build) -> None:
    moves = [(row(1, EU), row(1, US, None)), (row(2, EU), row(2, US)), (None, row(3, EU))]
    flow = flow_of([BY_REGION], [NotNull("v")], (EU, US))
    rows = written_rows(flow, checked(flow, changes_of(batch(T, moves))))

    found = rows.agg(*counts.aggregates(flow, ["shop.t", "(statements)"], first_of_row(flow))).collect()[0].asDict()
    totals = counts.table_counts(["shop.t", "(statements)"], found)["shop.t"]
    assert (totals.read, totals.quarantined, totals.dispatched, found["changes"]) == (3, 1, 2, 3)
    assert (found["0_checked"], found["0_violates_0"]) == (3, 1)
    given = [rows.where(f"{check.STATE} = 'dispatched'").where(taken_by(SINK, sink)).count() for sink in flow.sinks]
    assert given == [2, 1]


def test_transforms_around_it(changes_of: Build) -> None:
    """It sees the columns as they are before it; a filter behind it may make a delete or an insert of an update."""
    rename, by = RenameColumns({"region": "place"}), Route(by="upper(place)", routes=("EU", "US"))
    moves = [(row(1, EU, 9), row(1, US, 1)), (row(2, EU, 1), row(2, US, 9)), (row(3, EU, 9), row(3, US, 9))]
    flow = flow_of([rename, by, DropColumns("place"), Filter("v > 5")])
    rows = written(flow, changes_of(batch(T, moves)))

    assert [(route, op) for route, op, _, _ in went(rows)] == [("EU", "d"), ("US", "c"), ("EU", "d"), ("US", "c")]
    assert [r["event_id"].rpartition(":")[2] for r in rows] == ["0", "0", "0.0", "0.1"]
    assert all("place" not in (before or after) for _, _, before, after in went(rows))
    filtered = written(flow_of([Filter("v > 5"), BY_REGION]), changes_of(batch(T, moves)))
    assert went(filtered) == [
        (EU, "d", row(1, EU, 9), None),
        (US, "c", None, row(2, US, 9)),
        (EU, "d", row(3, EU, 9), None),
        (US, "c", None, row(3, US, 9)),
    ]
    computed = written(flow_of([Cast(v="string"), Route(by="v", routes=("9", "1"))]), changes_of(batch(T, moves)))
    assert [route for route, *_ in went(computed)] == ["9", "1", "1", "9", "9"]
    by_table = written(flow_of([BY_REGION, Route({"shop.t": "all"})]), changes_of(batch(T, moves)))
    assert [(route, op) for route, op, _, _ in went(by_table)] == [("all", "u")] * 3


def history(seed: int, changes: int) -> tuple[list[Change], dict[int, Row]]:
    """Return the changes of a few rows, and the rows in the end."""
    choose, rows, done = random.Random(seed), dict[int, Row](), list[Change]()
    while len(done) < changes:
        key = choose.randrange(6)
        new = row(key, choose.choice([EU, US, "apac"]), choose.choice([None, 1, 9]))
        old = rows.pop(key, None)
        if old is not None and choose.random() < 0.2:
            done.append((old, None))
            continue
        if old is not None and choose.random() < 0.2:
            new["id"] = choose.randrange(6)
            if new["id"] in rows:
                rows[key] = old
                continue
        rows[new["id"]] = new
        done.append((old, new))
    return done, rows


def reader(rows: Sequence[tuple[str, str, Any, Any]]) -> dict[int, Row]:
    """Keep rows by key as a reader does, and refuse what cannot happen to them."""
    held: dict[int, Row] = {}
    for _, op, before, after in rows:
        key = (after or before)["id"]
        assert (key in held) == (op != "c"), f"{op} of {key}"
        if op != "c":
            assert held[key] == before
        if op == "d":
            del held[key]
        else:
            held[key] = after
    return held


CHOSEN: Mapping[str, Callable[[Row], str]] = {
    "region": lambda r: r["region"],
    "CASE WHEN region = 'eu' THEN 'eu' ELSE 'us' END": lambda r: EU if r["region"] == EU else US,
    "CASE WHEN v > 5 THEN 'us' WHEN id % 2 = 0 THEN 'eu' ELSE 'apac' END": (
        lambda r: US if r["v"] == 9 else EU if r["id"] % 2 == 0 else "apac"
    ),
}


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.sampled_from(sorted(CHOSEN)), st.booleans())
def test_a_reader_of_each_route_holds_the_rows_that_are_of_it(
    changes_of: Build, seed: int, by: str, filters: bool
) -> None:
    changes, left = history(seed, 120)
    routes = (EU, US, "apac")
    specs = [Route(by=by, routes=routes), *([Filter("v IS NOT NULL")] if filters else [])]

    rows = written(flow_of(specs), changes_of(batch(T, changes)))

    assert len({r["event_id"] for r in rows}) == len(rows)
    assert {r["state"] for r in rows} <= {"dispatched", "filtered"}
    for route in routes:
        mine = [each for each in went(rows) if each[0] == route]
        expected = {k: r for k, r in left.items() if CHOSEN[by](r) == route and not (filters and r["v"] is None)}
        assert reader(mine) == expected
