"""Rows split to routes by conditions, on real DataFrames: each route is a view of the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus import KeyBy, Split
from databus.binlog.decoding.table_batch import TableEvent
from databus.rows.emit import emit_events
from databus.rows.frames.changes import FrameChanges
from databus.runtime import check, counts
from databus.runtime.copies import first_of_row, taken_by, written_rows
from databus.testing.table_batches import batch, transactions
from tests.spark.test_route_by_value import EU, SINK, US, Change, Row, T, checked, flow_of, history, reader, row, went
from tests.spark.test_route_by_value import written as written_of

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

CONDITIONS = {"big": "v > 5", "all": "true", "europe": "region = 'eu'"}
SPLIT = Split(CONDITIONS)


def test_each_route_is_crossed_on_its_own(changes_of: Build) -> None:
    changes = [
        (None, row(1, US, 1)),
        (row(1, US, 1), row(1, EU, 9)),  # enters two
        (row(1, EU, 9), row(1, EU, 1)),  # leaves one
        (row(1, EU, 1), row(2, US, 9)),  # another key
        (row(2, US, 9), None),
    ]
    rows = written_of(flow_of([SPLIT]), changes_of(batch(T, changes)))

    assert [(r["op"], r["route"], r["event_id"].partition("1:")[2]) for r in rows] == [
        ("c", "all", "0:0"),
        *(("u", "all", "1:0.0"), ("c", "big", "1:0.1"), ("c", "europe", "1:0.2")),
        *(("d", "big", "2:0.0"), ("u", "all", "2:0.1"), ("u", "europe", "2:0.2")),
        *(("d", "all", "3:0.0"), ("d", "europe", "3:0.1"), ("c", "all", "3:1.0"), ("c", "big", "3:1.1")),
        *(("d", "all", "4:0.0"), ("d", "big", "4:0.1")),
    ]


def test_a_row_of_no_condition_is_filtered_and_a_statement_goes_to_all(changes_of: Build) -> None:
    flow = flow_of([Split({"big": "v > 5", "europe": "region = 'eu'"})], routes=("big", "europe"))
    rows = batch(T, [(None, row(1, US, 1)), (None, row(2, EU, 9)), (None, row(3, US, None)), (None, row(4, EU, 1))])
    statement = emit_events([TableEvent("t", "shop", "t", "TRUNCATE t", 1, 0)], transactions(2), "server")
    found = written_rows(flow, checked(flow, changes_of(rows, statements=statement)))

    names = ["shop.t", "(statements)"]
    seen = found.agg(*counts.aggregates(flow, names, first_of_row(flow))).collect()[0].asDict()
    totals = counts.table_counts(names, seen)
    assert (totals["shop.t"].read, totals["shop.t"].filtered, totals["shop.t"].dispatched) == (4, 2, 2)
    assert (totals["(statements)"].read, seen["changes"]) == (1, 4)
    given_to = [found.where(f"{check.STATE} = 'dispatched'").where(taken_by(SINK, s)).count() for s in flow.sinks]
    assert given_to == [2, 3]


def test_what_a_condition_lacks_holds_the_row_back(changes_of: Build) -> None:
    held: list[tuple[Change, str]] = [
        (({"id": 1}, None), "split_lacks(v, region)"),
        (({"id": 2}, {"v": 9}), "split_lacks(region)"),
        (({"id": 3, "v": 1, "region": EU}, {"id": 3, "v": 9}), "split_lacks(region, note)"),  # enters a route
        (({"id": 4, "v": 9, "region": EU}, {"id": 4, "v": 1}), ""),  # leaves one
    ]
    rows = checked(flow_of([SPLIT]), changes_of(batch(T, [change for change, _ in held])))

    causes = rows.orderBy("ordinal").selectExpr("array_join(violations, ', ') AS cause").collect()
    assert [r["cause"] for r in causes] == [cause for _, cause in held]


TRUE: Mapping[str, Callable[[Row], bool]] = {
    "big": lambda r: r["v"] == 9,
    "all": lambda _: True,
    "europe": lambda r: r["region"] == EU,
}


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_a_reader_of_each_route_holds_the_rows_of_its_condition(changes_of: Build, seed: int) -> None:
    changes, left = history(seed, 100)

    rows = written_of(flow_of([SPLIT, KeyBy("region")]), changes_of(batch(T, changes)))

    assert len({r["event_id"] for r in rows}) == len(rows)
    for route, true in TRUE.items():
        mine = [each for each in went(rows) if each[0] == route]
        assert _by_region(mine) == {(r["region"], k): r for k, r in left.items() if true(r)}
    plain = went(written_of(flow_of([SPLIT]), changes_of(batch(T, changes))))
    for route, true in TRUE.items():
        assert reader([each for each in plain if each[0] == route]) == {k: r for k, r in left.items() if true(r)}


def _by_region(rows: list[tuple[str, str, Any, Any]]) -> dict[tuple[str, int], Row]:
    held: dict[tuple[str, int], Row] = {}
    for _, op, before, after in rows:
        key = json.loads(json.dumps(after or before))
        place = key["region"], key["id"]
        assert (place in held) == (op != "c")
        held[place] = after
        if op == "d":
            del held[place]
    return held
