"""Compiled transforms against Spark: random rows of every type through Filter, Mask and Hash in both lanes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from databus import DropColumns, Filter, Flow, Hash, InRange, Mask, NotNull, RenameColumns
from databus.binlog.decoding.table_batch import TableBatch
from databus.core.flow_specs import TransformSpec
from databus.core.tables.schemas import TableSchema
from databus.expressions.errors import SparkNeededError
from databus.rows.emit import emit
from databus.rows.frames.changes import FrameChanges
from databus.rows.image_form import json_form
from databus.runtime.direct.lane import image_columns, is_direct
from databus.runtime.direct.reasons import row_program
from databus.sinks.memory import Memory
from databus.sources.mock.spec import Mock
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.spark.test_direct_lane import (
    TYPES,
    Recorder,
    by_type,
    changes,
    comparable,
    loaded,
    moved,
    quarantined,
)

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

T = table("shop.t", {"id": "int", "v": "int", "w": "varchar(5)", "note": "text"})
WIDE = table("shop.types", TYPES)
TEXT = '`te"xt é`'

CONDITIONS = [
    "v > 5",
    "v > 5 AND w = 'a'",
    "w IN ('a', 'b') OR v IS NULL",
    "NOT (v > 5)",
    "_op = 'd' OR v > 5",
    "_op <> 'd' AND v > 5",
    "_op = 'u' AND v > 5",
    "before.v <> after.v",
    "after.v > 5",
    "before.v IS NULL OR v = 4",
    "_table = 't' AND _ts_ms > 0 AND v > 5",
    "id <> 2",
    "id = 3 OR before.w = 'a'",
    "v <=> NULL",
]
"""Conditions over `T`."""

WIDE_CONDITIONS = [
    "id > 10",
    "t > 0",
    "u32 > 5",
    "u64 > 9223372036854775807",
    "money > 1.5",
    "wide <= 0 OR small > 0",
    "d > 0.5D",
    "f >= 0",
    "day >= DATE'2000-01-01'",
    "`at` IS NOT NULL",
    "took = '00:00:00.00' OR kind = 'new'",
    f"{TEXT} = 'é' OR y > 0",
    "b = X'00' OR doc IS NULL",
]
"""Conditions over `WIDE`, of every type."""

HIDDEN = ["t", "u32", "u64", "bits", "y", "money", "small", "wide", "day", "at", "zone", "took", "doc", "kind"]
"""Columns whose values have a text that both lanes know."""


@dataclass(frozen=True)
class Plan:
    """As much of a plan as the lane looks at."""

    tables: tuple[TableSchema, ...]


@pytest.fixture(autouse=True)
def utc(spark: Any) -> Iterator[None]:
    """Run the session in UTC, as the product's sessions are."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def flow_of(specs: Sequence[TransformSpec]) -> Flow:
    return Flow(name="lanes", source=Mock(rows=1), transforms=tuple(specs), sinks=(Memory(store="s"),))


COLUMNS = ("event_id", "op", "key", "flags", "absent", "other_key", "unjudged", "before", "after")


def direct(rows: TableBatch, specs: Sequence[TransformSpec]) -> list[dict[str, Any]]:
    """Return the rows of the direct lane."""
    flow, plan = flow_of(specs), Plan((rows.schema,))
    assert is_direct(flow, plan)  # type: ignore[arg-type]  # its tables are all that is looked at
    program = row_program(flow, plan)  # type: ignore[arg-type]
    form = json_form(image_columns(flow, plan), None, program)  # type: ignore[arg-type]
    found = pa.Table.from_batches(emit(rows, transactions(8), "server", form))
    return [{name: row.get(name) for name in COLUMNS} for row in found.to_pylist()]


def through_spark(build: Build, rows: TableBatch, specs: Sequence[TransformSpec]) -> list[dict[str, Any]]:
    """Return the rows of Spark's lane; those that are filtered as the source's filters leave rows out."""
    view = build(rows)
    for spec in specs:
        view = spec.apply(view)  # type: ignore[assignment]  # the protocol's one implementation
    images = ["cast(key AS binary) AS key", "to_json(before) AS before", "to_json(after) AS after"]
    plain = [name for name in COLUMNS if name not in ("key", "before", "after")]
    found = [r.asDict() for r in view.materialize().selectExpr("filtered", *plain, *images).collect()]
    for row in found:
        for name in ("key", "other_key"):
            row[name] = row[name] and bytes(row[name])
        if row.pop("filtered"):
            row.update(dict.fromkeys(("key", "flags", "absent", "unjudged", "before", "after")), op="f")
    return [{name: row[name] for name in COLUMNS} for row in found]


def differing(
    kinds: dict[str, str], ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]
) -> list[tuple[Any, Any]]:
    """Return the rows that the lanes do not say alike."""

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        images = {side: by_type(kinds, loaded(row[side])) for side in ("before", "after")}
        return {**row, **images, "unjudged": row["unjudged"] if row["op"] != "f" else None, "other_key": None}

    mine = {row["event_id"]: plain(row) for row in ours}
    other = {row["event_id"]: plain(row) for row in theirs}
    assert mine.keys() == other.keys()
    return [(mine[event], other[event]) for event in mine if mine[event] != other[event]]


def small_changes(r: random.Random, rows: int) -> list[tuple[Any, Any]]:
    """Return changes of `T`: whole images, partial ones, key updates, values without a type."""

    def image(key: int) -> dict[str, Any]:
        note = r.choice(["n", None, "", "é", Unrepresentable(b"\xff\xfe")])
        whole = {"id": key, "v": r.choice([None, 1, 4, 6, 9]), "w": r.choice([None, "a", "b"]), "note": note}
        lacking = r.choice([(), (), ("v",), ("w", "note"), ("v", "w", "note")])
        return {name: value for name, value in whole.items() if name not in lacking}

    found: list[tuple[Any, Any]] = []
    for _ in range(rows):
        key = r.randrange(6)
        before, after = image(key), image(key if r.random() < 0.8 else key + 1)
        found.append(r.choice([(None, after), (before, after), (before, after), (before, None)]))
    return found


def placed(r: random.Random, schema: TableSchema, rows: list[tuple[Any, Any]]) -> TableBatch:
    n = len(rows)
    return batch(schema, rows, transactions=sorted(r.randrange(6) for _ in range(n)), ordinals=range(n))


def random_specs(r: random.Random) -> list[TransformSpec]:
    """Return transforms over `T`: filters before and after a column gets another name or value."""
    leaving = [r.choice(["delete", "ignore"]) for _ in range(3)]
    found: list[TransformSpec] = [Filter(r.choice(CONDITIONS), leaving=leaving[0])]
    if r.random() < 0.5:
        found += [Mask("w", value="x"), Filter("w = 'x' OR w IS NULL", leaving=leaving[1])]
    if r.random() < 0.5:
        found += [RenameColumns({"v": "n"}), Filter("n <> 6 OR before.n = 9", leaving=leaving[2])]
    if r.random() < 0.5:
        found += [Mask("note")]
    if r.random() < 0.3:
        found += [DropColumns("w")]
    return found


def test_both_lanes_let_rows_meet_the_same_fate(changes_of: Build) -> None:
    """Random conditions over partial images, key updates, updates that cross, and one filter behind another."""
    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    ops: Counter[str] = Counter()
    for _ in range(8):
        specs, rows = random_specs(r), placed(r, T, small_changes(r, 150))
        ours = direct(rows, specs)
        assert not differing({}, ours, through_spark(changes_of, rows, specs)), (seed, specs)
        ops.update("held" if row["unjudged"] else row["op"] for row in ours)
    assert {"c", "u", "d", "f", "held"} <= ops.keys(), seed


def test_both_lanes_hide_the_same_values(changes_of: Build) -> None:
    """Masked, masked but for their end, and hashed columns of every type, those without a typed value among them."""
    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    rows = placed(r, WIDE, changes(r, 250))
    r.shuffle(HIDDEN)
    specs = [Mask(*HIDDEN[:4], "f"), Mask(*HIDDEN[4:8], keep_last=3), Hash(*HIDDEN[8:], 'te"xt é', "b")]
    kinds = {name: kind for name, kind in TYPES.items() if name != "f"}
    assert not differing(kinds, direct(rows, specs), through_spark(changes_of, rows, specs)), (seed, HIDDEN)


def test_both_lanes_read_the_same_values(changes_of: Build) -> None:
    """Conditions over columns of every type; what is no text of its character set is left to Spark."""
    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    texts = [c for c in changes(r, 300) if not any(isinstance((i or {}).get('te"xt é'), Unrepresentable) for i in c)]
    rows = placed(r, WIDE, texts)
    for condition in r.sample(WIDE_CONDITIONS, 6):
        specs = [Filter(condition)]
        found = differing(TYPES, direct(rows, specs), through_spark(changes_of, rows, specs))
        assert not found, (seed, condition)
    undecodable = batch(T, [(None, {"id": 1, "v": 1, "w": "a", "note": Unrepresentable(b"\xff")})])
    with pytest.raises(SparkNeededError):
        direct(undecodable, [Filter("note = 'x'")])


FLOW = Flow(
    name="lanes",
    source=Mock(
        tables=("shop.orders", "shop.people"),
        rows=300,
        columns={"customer_id": "bigint", "status": "varchar", "amount": "decimal(12,2)", "weight": "double"},
        null_ratio=0.2,
        seed=5,
    ),
    transforms=(
        Filter("amount > 300 OR status IS NULL", tables=("shop.orders",)),
        Mask("status", keep_last=1),
        RenameColumns({"customer_id": "buyer"}),
        Hash("buyer"),
    ),
    checks=(NotNull("status"), NotNull("weight", severity="warn"), InRange("amount", minimum="100"), NotNull("buyer")),
    sinks=(Memory(store="lanes"), Memory(name="people", store="people", routes=("shop.people",))),
)


@pytest.mark.timeout(900)
def test_a_flow_delivers_counts_and_holds_back_the_same(spark: Any) -> None:
    ours, our_reports = moved(spark, FLOW)
    our_held = Recorder.last.held
    theirs, their_reports = moved(spark, FLOW.model_copy(update={"lane": "spark"}))

    assert list(map(comparable, ours)) == list(map(comparable, theirs))
    assert [report.tables for report in our_reports] == [report.tables for report in their_reports]
    assert [report.checks for report in our_reports] == [report.checks for report in their_reports]
    assert [quarantined(row) for row in our_held] == [quarantined(row) for row in Recorder.last.held]
    assert any(
        counts.filtered and counts.dispatched and counts.quarantined for counts in our_reports[0].tables.values()
    )
    images = [json.loads(record["value"])["after"] for record in ours]
    assert {image["status"][:3] for image in images if image and image["status"]} == {"***"}
