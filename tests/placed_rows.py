"""Rows whose routes and keys values choose, as each lane makes them of decoded batches, and random ones of both."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from databus import AddColumn, Cast, DropColumns, Filter, Flatten, Flow, KeyBy, Mask, Mock, Noop, Route, Split
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.core.flow_specs import CheckSpec, TransformSpec
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import json_form
from databus.runtime.direct.lane import image_columns, is_direct
from databus.runtime.direct.reasons import row_program
from databus.runtime.direct.row_checks import image_marks
from databus.runtime.direct.row_counts import RowCounter, Taker
from databus.sinks.markerless import UnmarkedSink
from databus.testing.table_batches import Unrepresentable, batch, table, transactions

TABLE = table(
    "shop.t",
    {"id": "int", "region": "varchar(5)", "v": "int", "w": "decimal(6,2)", "note": "text", "doc": "json"},
)
SINK = UnmarkedSink("any")
WRITTEN = ("event_id", "op", "route", "part", "key", "key_hash", "flags", "absent", "before", "after")
"""What is compared of a row that is written."""


def flow_of(
    specs: Sequence[TransformSpec], checks: Sequence[CheckSpec] = (), routes: Sequence[tuple[str, ...]] = (("*",),)
) -> Flow:
    """Return a flow with a sink for each of some patterns of routes."""
    sinks = tuple(Noop(name=f"s{number}", routes=each) for number, each in enumerate(routes))
    source = Mock(tables=("shop.t",), rows=1)
    return Flow(name="placed", source=source, transforms=tuple(specs), checks=tuple(checks), sinks=sinks)


def planned(*found: TableBatch) -> SourcePlan:
    tables = tuple(each.schema for each in found)
    return SourcePlan(OffsetRange(SequenceOffset(0), SequenceOffset(1)), tables, 0, 1)


def direct(
    flow: Flow, found: TableBatch, events: Sequence[TableEvent] = (), sink: int = 0
) -> tuple[list[dict[str, Any]], RowCounter]:
    """Return the records that a sink of a flow is given by the direct lane, and what was counted."""
    plan = planned(found)
    assert is_direct(flow, plan)
    form = json_form(image_columns(flow, plan), image_marks(flow, plan), row_program(flow, plan))
    takers = tuple(Taker(spec.routes, SINK.accepts()) for spec in flow.sinks)
    counter = RowCounter(flow, plan, takers, sink, keeps="held")
    given: list[dict[str, Any]] = []
    statements = emit_events(events, transactions(8), "server", form)
    for rows in (*emit(found, transactions(8), "server", form), *statements):
        given += [row for taken in counter.take(rows) for row in taken.to_pylist()]
    counter.observed.given = len(given)
    return [{name: row[name] for name in WRITTEN} for row in given], counter


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its images as values and its key as text."""
    images = {name: loaded(row[name]) for name in ("before", "after")}
    return {**row, **images, "key": None if row["key"] is None else bytes(row["key"]).decode()}


def loaded(image: bytes | str | None) -> Any:
    if image is None:
        return None
    found = json.loads(image)
    for name, kind in (("w", float), ("doc", json.loads)):
        if isinstance(found.get(name), str):
            found[name] = kind(found[name])
    return found


def random_changes(r: random.Random, rows: int) -> list[tuple[Any, Any]]:
    """Return changes of `TABLE`: whole images, partial ones, key updates, NULLs, values without a type."""

    def image(key: int) -> dict[str, Any]:
        whole = {
            "id": key,
            "region": r.choice(["eu", "us", "eu", "us", "apac", None]),
            "v": r.choice([None, 1, 9, 9]),
            "w": r.choice([None, Decimal("1.50"), Decimal("20.00")]),
            "note": r.choice(["n"] * 8 + ['say "hi"', "имя\x1f", Unrepresentable(b"\xff")]),
            "doc": r.choice([None, '{"a":{"b":"x"},"n":3}', '{"n":"no number"}']),
        }
        lacking = r.choice([()] * 6 + [("region",), ("v", "note"), ("w",), ("doc", "region", "v")])
        return {name: value for name, value in whole.items() if name not in lacking}

    found: list[tuple[Any, Any]] = []
    for _ in range(rows):
        key = r.randrange(6)
        before, after = image(key), image(key if r.random() < 0.85 else key + 1)
        found.append(r.choice([(None, after), (before, after), (before, after), (before, after), (before, None)]))
    return found


def random_batch(r: random.Random, rows: int) -> TableBatch:
    found = random_changes(r, rows)
    return batch(TABLE, found, transactions=sorted(r.randrange(6) for _ in range(rows)), ordinals=range(rows))


def random_placing(r: random.Random) -> TransformSpec:
    """Return a choice of routes or of a key by the values of `TABLE`."""
    moving = r.choice(["delete", "follow"])
    return r.choice(
        [
            Route(by="region", routes=("eu", "us"), moving=moving),
            Route(by="CASE WHEN v > 5 THEN 'big' WHEN v IS NULL THEN NULL ELSE concat(region, _table) END",
                  routes=("big", "eut", "ust", "apact"), moving=moving),
            Route({"shop.*": "all"}),
            Split({"big": "v > 5", "all": "true", "europe": "region = 'eu'"}),
            Split({"dear": "w > 5", "europe": "region = 'eu' OR v IS NULL"}),
            KeyBy("region"),
            KeyBy("V", "w"),
            KeyBy("note"),
        ]
    )  # fmt: skip


def random_flow(r: random.Random) -> list[TransformSpec]:
    """Return transforms with one choice by value at least, and others before, between and behind."""
    others: list[TransformSpec] = [
        Filter("v > 5 OR w IS NULL", leaving=r.choice(["delete", "ignore"])),
        Filter("region <> 'us'"),
        Mask("note"),
        Cast({"w": "int"}, on_failure="hold"),
        AddColumn(twice="v * 2"),
        Flatten("doc", {"a.b": "string", "n": "int"}, on_failure=r.choice(["hold", "null"])),
    ]
    between = r.sample(others, r.randint(0, 3))
    found: list[TransformSpec] = [*between, random_placing(r), *([random_placing(r)] if r.random() < 0.5 else [])]
    r.shuffle(found)
    if not any(spec.most_copies > 1 for spec in found):
        found.append(KeyBy("id", "region"))
    if any(isinstance(spec, AddColumn) for spec in found) and r.random() < 0.3:
        found.append(KeyBy("twice"))
    if r.random() < 0.4:
        found.append(r.choice([DropColumns("region"), Mask("region"), Filter("id % 3 <> 1")]))
    return found
