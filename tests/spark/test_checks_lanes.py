"""Row checks in both lanes: random rows and random options of every type, judged by Spark and on decoded columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from databus import DropColumns, Flow, HashPartition, Mock, MysqlBinlog, Noop, RenameColumns
from databus.binlog.decoding.table_batch import TableBatch
from databus.checks.accepted_values import AcceptedValues
from databus.checks.decodable import Decodable
from databus.checks.expected_rules import Between, IsNull, Matches, RefusedValues, TextLength, is_shared
from databus.checks.in_range import InRange
from databus.checks.not_null import NotNull
from databus.checks.row_check import RowCheck
from databus.core.flow_specs import TransformSpec
from databus.rows.emit import emit
from databus.rows.frames.changes import FrameChanges
from databus.rows.image_form import json_form
from databus.rows.murmur2 import murmur2
from databus.rows.violation_bits import MARKS
from databus.rows.violations import ImageMarks
from databus.runtime.check import check, row_checks
from databus.runtime.direct.row_checks import image_marks
from databus.sources.mysql.row_filters import RowFilters
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.spark.test_direct_lane import TYPES, changes, value

pytestmark = pytest.mark.spark

SCHEMA = table("shop.types", TYPES)
JUDGED_HERE = {
    "id", "t", "u32", "u64", "bits", "y", "money", "small", "wide", "f", "d", "day", "at", "zone", 'te"xt é', "kind",
}  # fmt: skip
"""Columns whose options are compared with Arrow values; of the others only NotNull is."""


PATTERNS = ["^a", "é", "[a-zЖ]+$", ".", "^$", "^.{3}$", r"\d|ß", "(n|g)[^/]*", r"\.", "a.Ж", "^[^a]{0,2}$", r"\w{2,}"]


@pytest.fixture
def utc(spark: Any) -> Iterator[None]:
    """Run the session in UTC, as the product's sessions are: bounds of moments have no zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def option(kind: str, r: random.Random) -> Any:
    """Return a random option for a column of a type: a value of the type, as JSON's scalars say it."""
    found = value(kind, r)
    while isinstance(found, (Unrepresentable, bytes)):
        found = value(kind, r)
    if kind in ("float", "double"):
        return r.choice([found, repr(found), round(found)])
    if isinstance(found, int):
        return r.choice([found, str(found), found + 0.5 if abs(found) < 2**50 else found])
    return str(found).removesuffix("+00:00")


def random_checks(r: random.Random) -> list[RowCheck]:
    found: list[RowCheck] = []
    for name, kind in TYPES.items():
        found.append(NotNull(name))
        if kind in ("blob", "json", "time(2)"):
            continue
        low, high = option(kind, r), option(kind, r)
        found += [
            InRange(name, low),
            InRange(name, maximum=high),
            AcceptedValues(name, tuple({str(o): o for o in (option(kind, r) for _ in range(4))}.values())),
            RefusedValues(name, (option(kind, r), option(kind, r))),
            Between(name, low, high, strict_min=r.random() < 0.5, strict_max=True),
            IsNull(name),
        ]
    text = r.choice(['te"xt é', "kind"])
    patterns = r.sample(PATTERNS, 2)
    return [
        *found,
        TextLength(text, least=r.choice([0, 1, 3]), most=r.choice([None, 3, 299]), strict_min=r.random() < 0.5),
        Matches(text, patterns=tuple(patterns), match_on="any", negated=r.random() < 0.5),
        Matches(text, patterns=tuple(patterns), match_on="all"),
    ]


def marked(check: RowCheck, rows: TableBatch) -> set[str]:
    """Return the event ids of the rows that violate, judged on decoded columns."""
    marks = ImageMarks({SCHEMA.schema_id: ((0, check.column, check),)})
    pieces = emit(rows, transactions(8), "server", json_form({}, marks))
    return {
        event_id
        for piece in pieces
        for event_id, mark in zip(piece["event_id"].to_pylist(), piece[MARKS].to_pylist(), strict=True)
        if mark
    }


def test_the_patterns_mean_the_same_to_both() -> None:
    assert all(map(is_shared, PATTERNS))
    assert not any(
        map(
            is_shared, [r"\s", r"\bx", "(?i)x", "a|b$", "[[:alpha:]]", "a++", "[a&&b]", "$a", r"\pL", "a$b", "(", "x*{"]
        )
    )


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("every", [2, 1])
def test_both_lanes_judge_alike(spark: Any, changes_of: Callable[..., FrameChanges], every: int) -> None:
    from pyspark.sql import functions as f

    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    rows = batch(SCHEMA, changes(r, 400), transactions=sorted(r.randrange(6) for _ in range(400)), ordinals=range(400))
    by_name = {column.name: column for column in SCHEMA.columns}
    for _ in range(20):  # now and then none of a column's options is one that Arrow reads
        checks = [check for check in random_checks(r) if check.reads(by_name[check.column])]
        if {c.column for c in checks if not isinstance(c, (NotNull, IsNull))} == JUDGED_HERE:
            break
    else:
        pytest.fail(f"seed {seed}: some column is never judged here")

    checks = checks[r.randrange(every) :: every]
    view = changes_of(rows)
    violated = [f.collect_set(f.when(check.violation(view), f.col("event_id"))) for check in checks]
    found = view.rows.agg(*(column.alias(str(n)) for n, column in enumerate(violated))).collect()[0]

    differing = [check.model_dump() for n, check in enumerate(checks) if marked(check, rows) != set(found[n])]
    assert not differing, seed


def test_both_lanes_hold_back_what_a_row_filter_could_not_judge(
    spark: Any, changes_of: Callable[..., FrameChanges]
) -> None:
    from pyspark.sql import functions as f

    by_hash = HashPartition(tables="shop.orders", columns=("v",), partitions=3, keep=(1,))
    source = MysqlBinlog(conn_id="m", tables=("shop.*",), row_filters=(by_hash,))
    flow = Flow(name="orders", source=source, sinks=(Noop(),))
    schema = table("shop.orders", {"id": "int", "v": "text", "n": "int"})
    rows: list[tuple[Any, Any]] = [(None, {"id": 0, "n": 1}), ({"id": 1}, None), ({"id": 2}, {"n": 2})]
    rows += [({"id": n}, {"v": f"v{n}"}) for n in range(3, 30)]  # MINIMAL
    rows += [({"id": n, "v": f"v{n}", "n": 1}, {"id": n, "n": 2}) for n in range(30, 60)]  # NOBLOB
    rows += [({"id": n, "v": f"v{n}"}, {"id": n, "v": f"w{n}"}) for n in range(60, 90)]  # FULL
    narrowed = RowFilters((by_hash,)).narrow(batch(schema, rows))
    (judged,) = row_checks(flow)
    marks = ImageMarks({schema.schema_id: ((0, "v", cast("RowCheck", judged)),)})
    direct = pa.Table.from_batches(emit(narrowed, transactions(1), "srv", json_form({}, marks)))
    held = {o for o, mark in zip(direct["ordinal"].to_pylist(), direct[MARKS].to_pylist(), strict=True) if mark}

    checked = check(flow, changes_of(narrowed), f.col("op") != "f")
    states = {row.ordinal: row.state for row in checked.select("ordinal", "state", "violations").collect()}
    causes = {tuple(row.violations) for row in checked.collect() if row.state == "quarantined"}
    assert causes == {("row_filter_lacks(v)",)}
    assert {number for number, state in states.items() if state == "quarantined"} == held
    there = {n for n in range(3, 30) if murmur2(f'{{"v":"v{n}"}}'.encode()) % 2**31 % 3 == 1}
    assert held == {0, 1, 2, *range(3, 30)} - there
    assert {states[n] for n in there} == {"dispatched"}


@pytest.mark.parametrize(
    "specs", [(), (RenameColumns({"w": "n"}),), (DropColumns("w"),)], ids=["as_is", "renamed", "dropped"]
)
@pytest.mark.parametrize("tables", [("*",), ("shop.t",)], ids=["every", "named"])
def test_both_lanes_hold_back_what_is_not_decodable(
    changes_of: Callable[..., FrameChanges], specs: tuple[TransformSpec, ...], tables: tuple[str, ...]
) -> None:
    from pyspark.sql import functions as f

    bad = Unrepresentable(b"\xff")
    rows: list[tuple[Any, Any]] = [
        (None, {"id": 1, "w": bad}),
        (None, {"id": 2, "w": "a"}),
        ({"id": 3, "w": bad}, None),
    ]
    rows += [({"id": 4, "w": bad}, {"id": 4, "w": "a"}), ({"id": 5, "w": "a"}, {"id": 5, "w": bad})]
    found = batch(table("shop.t", {"id": "int", "w": "text"}), rows)
    flow = Flow(
        name="f", source=Mock(rows=1), transforms=specs, checks=(Decodable("w", tables=tables),), sinks=(Noop(),)
    )

    view = changes_of(found)
    for spec in specs:
        view = spec.apply(view)  # type: ignore[assignment] # the only implementation
    checked = check(flow, view, f.lit(True)).where("state = 'quarantined'").select("key", "violations").collect()
    form = json_form({}, image_marks(flow, SimpleNamespace(tables=(found.schema,))))  # type: ignore[arg-type] # as much as it reads
    direct = pa.Table.from_batches(emit(found, transactions(1), "srv", form)).to_pylist()

    assert (
        {bytes(row.key) for row in checked}
        == {row["key"] for row in direct if row[MARKS]}
        == {b'{"id":1}', b'{"id":5}'}
    )
    assert {name for row in checked for name in row.violations} == {flow.checks[0].check_name}
