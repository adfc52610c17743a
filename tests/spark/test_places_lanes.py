"""Routes and keys by value in both lanes: the same records, keys, ids, causes and counts of random flows and rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from databus import AddColumn, Filter, KeyBy, Mask, Memory, NotNull, Route, Split
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.core.flow import Flow
from databus.core.flow_specs import TransformSpec
from databus.expressions.errors import SparkNeededError
from databus.rows.emit import emit_events
from databus.rows.frames.changes import FrameChanges
from databus.runtime import check, counts
from databus.runtime.copies import first_of_row, taken_by, written_rows
from databus.testing.table_batches import transactions
from tests.placed_rows import SINK, WRITTEN, direct, flow_of, plain, random_batch, random_flow
from tests.sinks_apart import Here, moved
from tests.sinks_apart import flow_of as mock_flow
from tests.spark.test_route_by_value import checked
from tests.spark.test_transforms_of_a_sink import told_alike

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]
NAMES = ["shop.t", "(statements)"]
ROUTES = [("*",), ("eu", "big"), ("all", "shop.*"), ("none",)]
EVENTS = [TableEvent("t", "shop", "t", "TRUNCATE t", 7, 0)]


def through_spark(
    flow: Flow, changes: FrameChanges
) -> tuple[list[list[dict[str, Any]]], dict[str, str], dict[str, int]]:
    """Return the records of each sink, event id → cause of the rows that are held back, and what is counted."""
    rows = written_rows(flow, checked(flow, changes)).persist()
    images = ["to_json(before) AS before", "to_json(after) AS after"]
    columns = [name for name in WRITTEN if name not in ("before", "after")]
    held = rows.where("state = 'quarantined'").selectExpr("event_id", "array_join(violations, ', ') AS cause")
    records = []
    for spec in flow.sinks:
        mine = rows.where(f"{check.STATE} = 'dispatched'").where(taken_by(SINK, spec))
        found = [
            row.asDict() for row in mine.orderBy("place", "ordinal", "part").selectExpr(*columns, *images).collect()
        ]
        records.append([plain({name: row[name] for name in WRITTEN}) for row in found])
    seen = rows.agg(*counts.aggregates(flow, NAMES, first_of_row(flow))).collect()[0].asDict()
    return records, {row["event_id"]: row["cause"] for row in held.collect()}, seen


def told_by_both(build: Build, specs: list[TransformSpec], found: TableBatch, seen: Counter[str]) -> None:
    """Compare what the lanes make of rows and of a statement."""
    flow = flow_of(specs, [NotNull("v", severity="warn"), NotNull("id")], ROUTES)
    of_spark = emit_events(EVENTS, transactions(8), "server")
    theirs, held, counted = through_spark(flow, build(found, statements=of_spark))
    for number, records in enumerate(theirs):
        given, counter = direct(flow, found, EVENTS, number)
        ours = [plain(row) for row in given]
        assert ours == records, [(a, b) for a, b in zip(ours, records, strict=False) if a != b][:1] or (
            [row["event_id"] for row in ours],
            [row["event_id"] for row in records],
        )
        assert {row.event_id: row.cause for row in counter.observed.held} == held
        assert counter.observed.mine.total() == len(ours)
        assert {name: counter.observed.read[name] for name in counted} == counted
    seen.update(row["op"] for row in theirs[0])
    seen.update(cause.partition("(")[0] for cause in held.values())
    seen["copies"] += sum("." in row["event_id"].rpartition(":")[2] for row in theirs[0])


@pytest.mark.parametrize("flows", [3, 12])
@pytest.mark.timeout(1800)
def test_both_lanes_place_rows_alike(changes_of: Build, flows: int) -> None:
    """Partial images, NULLs, flagged values, key updates, hidden values; filters and computed columns around."""
    seed = random.SystemRandom().getrandbits(32)
    seen: Counter[str] = Counter()
    for number in range(flows):
        r = random.Random(seed + number)
        specs, rows = random_flow(r), random_batch(r, 100)
        try:
            told_by_both(changes_of, specs, rows, seen)
        except SparkNeededError:
            seen["for Spark"] += 1
        except AssertionError as error:
            raise AssertionError(f"{seed + number}: {[spec.label() for spec in specs]}") from error
    assert seen["copies"], seed


PLACED: dict[str, list[TransformSpec]] = {
    "route and key": [
        Filter("amount IS NULL OR amount > 1000000000"),
        Route(by="coalesce(status, 'none')", routes=("new", "paid", "none"), tables=("shop.orders",)),
        KeyBy("customer_id", tables=("shop.people",)),
        Mask("status"),
    ],
    "split": [
        AddColumn(gross="CAST(amount * 2 AS decimal(14,2))"),
        Split({"dear": "gross > 9000000000", "all": "true"}),
    ],
}


@pytest.mark.parametrize("of", sorted(PLACED))
def test_a_flow_delivers_counts_and_holds_back_the_same(spark: Any, of: str) -> None:
    """Of two tables and sinks with routes and transforms of their own; the ledger holds in both."""
    sinks = [
        Memory(name="some", store="some", routes=("new", "dear", "none"), transforms=(Filter("amount > 5000000000"),)),
        Memory(name="every", store="every"),
    ]
    flow = mock_flow(9, 150, PLACED[of], sinks, [NotNull("region")])
    ours, theirs = moved(Here(), flow), moved(spark, flow.model_copy(update={"lane": "spark"}))

    told_alike(ours, theirs)
    assert ours.stores["some"]
    assert ours.left_out("some")
    assert {report.through_spark for report in ours.reports} == {()}
    assert {report.through_spark for report in theirs.reports} != {()}
