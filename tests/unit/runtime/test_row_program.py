"""Compiled transforms on decoded rows: fates, replaced values, and what keeps a table in Spark's lane."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from databus import (
    AcceptedValues,
    DropColumns,
    Filter,
    Flow,
    InRange,
    Kafka,
    Mask,
    Mock,
    MysqlBinlog,
    Noop,
    NotNull,
    RenameColumns,
)
from databus.binlog.decoding.table_batch import TableBatch
from databus.checks.decodable import Decodable
from databus.core.errors.source import DecodeError
from databus.core.flow_specs import CheckSpec, TransformSpec
from databus.expressions.errors import ExpressionError, SparkNeededError
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.rows.violation_bits import MARKS
from databus.runtime.direct.compiled_transforms.stored_values import decimal_text
from databus.runtime.direct.lane import image_columns, is_direct
from databus.runtime.direct.reasons import row_program, table_lanes
from databus.runtime.direct.row_checks import held_rows, image_marks
from databus.runtime.direct.row_counts import held_back
from databus.runtime.direct.spark_tables import SparkTables, spark_tables
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from databus.transforms.hash import Hash

T = table("shop.t", {"id": "int", "v": "int", "w": "varchar(5)", "note": "text"})


def flow_of(*specs: TransformSpec, checks: Sequence[CheckSpec] = ()) -> Flow:
    return Flow(name="f", source=Mock(rows=1), transforms=specs, checks=tuple(checks), sinks=(Noop(),))


def planned(*tables: Any) -> Any:
    return SimpleNamespace(tables=tables)


def rows_of(found: TableBatch, *specs: TransformSpec, checks: Sequence[CheckSpec] = ()) -> pa.Table:
    flow, plan = flow_of(*specs, checks=checks), planned(found.schema)
    assert is_direct(flow, plan)
    program = pickle.loads(pickle.dumps(row_program(flow, plan)))
    form = json_form(image_columns(flow, plan), image_marks(flow, plan), program)
    return pa.Table.from_batches(emit(found, transactions(1), "server", form))


def went_on(found: pa.Table) -> list[tuple[str, Any, Any]]:
    return [
        (r["op"], json.loads(r["before"] or b"null"), json.loads(r["after"] or b"null"))
        for r in found.to_pylist()
        if r["op"] != "f" and r["unjudged"] is None
    ]


def row(id: int, v: int | None, w: str | None = "a", **more: Any) -> dict[str, Any]:  # noqa: A002
    return {"id": id, "v": v, "w": w, "note": "n", **more}


CROSSINGS: list[tuple[Any, Any]] = [
    (row(1, 9), row(1, 1)),  # leaves
    (row(2, 1), row(2, 9)),  # enters
    (row(3, 9), row(3, 8)),  # stays in
    (row(4, 1), row(4, 2)),  # stays out
    (row(5, 9), row(5, None)),  # NULL is not true
    (row(6, None), row(6, 9)),
    (row(7, 9), row(8, 1)),  # another key: a delete and an insert
    (row(9, 1), row(10, 9)),
]


def test_tables_whose_rows_a_sink_counts_together_take_one_lane() -> None:
    other = table("shop.u", {"id": "int"}, schema_id=1)
    flow = flow_of(Filter("cos(v) > 0", tables=("shop.t",)), Filter("id > 0"))
    counting = Kafka(conn_id="k", transaction_topic="cdc.transactions")
    counted = flow.model_copy(update={"source": MysqlBinlog(conn_id="m", tables=("shop.*",)), "sinks": (counting,)})

    assert [lane.lane for lane in table_lanes(flow, (T, other))] == ["spark", "direct"]
    first, second = table_lanes(counted, (T, other))
    assert (first.lane, second.lane) == ("spark", "spark")
    assert first.reason == "filter 'cos(v) > 0': the function cos is not compiled"
    assert second.reason == (
        "sink kafka (transaction_topic) counts rows of all tables together, and shop.t goes there: "
        "filter 'cos(v) > 0': the function cos is not compiled"
    )
    assert spark_tables(counted, planned(T, other), SparkTables()) is None
    plain = counted.model_copy(update={"transforms": (Filter("id > 0"),)})
    assert [lane.lane for lane in table_lanes(plain, (T, other))] == ["direct", "direct"]


def test_an_update_that_leaves_is_a_delete_and_one_that_enters_an_insert() -> None:
    found = rows_of(batch(T, CROSSINGS), Filter("v > 5"))

    assert went_on(found) == [
        ("d", row(1, 9), None),
        ("c", None, row(2, 9)),
        ("u", row(3, 9), row(3, 8)),
        ("d", row(5, 9), None),
        ("c", None, row(6, 9)),
        ("d", row(7, 9), None),
        ("c", None, row(10, 9)),
    ]
    assert found.num_rows == len(CROSSINGS) + 2
    assert found["key"].to_pylist()[:2] == [b'{"id":1}', b'{"id":2}']
    assert found["part"].to_pylist() == [0, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    assert found["other_key"].to_pylist()[6] == b'{"id":8}'


@pytest.mark.parametrize(
    ("condition", "leaving", "ops"),
    [
        ("v > 5", "ignore", "uuu"),
        ("_op = 'd' OR v > 5", "delete", "dcudc"),
        ("_op <> 'd' AND v > 5", "delete", "cuc"),
        ("_op = 'u' AND v > 5", "delete", "uuu"),  # an insert would not be kept: it stays an update
        ("before.v <> after.v", "delete", "uuuu"),  # of the change alone: nothing leaves
        ("after.v > 5", "delete", "uuu"),
        ("v > 5 AND before.v IS NOT NULL", "delete", "duud"),  # the insert would have no before
        ("_table = 't' AND _ts_ms > 0 AND v > 5", "delete", "dcudc"),
    ],
)
def test_a_condition_on_more_than_the_row(condition: str, leaving: str, ops: str) -> None:
    found = rows_of(batch(T, CROSSINGS[:6]), Filter(condition, leaving=leaving))

    assert "".join(op for op, _, _ in went_on(found)) == ops


def test_what_cannot_be_judged_is_held_back_by_name() -> None:
    minimal: list[tuple[Any, Any]] = [
        ({"id": 1}, {"v": 9}),
        ({"id": 2}, {"v": 1}),
        ({"id": 3}, {"w": "x"}),
        ({"id": 4}, None),
        (None, {"id": 5, "w": "x"}),
        (None, {"id": 6, "v": 9}),
    ]
    found = rows_of(batch(T, minimal), Filter("v > 5"), RenameColumns({"v": "n"}), Filter("n < 100"))

    assert went_on(found) == [("u", {"id": 1}, {"n": 9}), ("c", None, {"id": 6, "n": 9})]
    assert found["unjudged"].to_pylist() == [None, *["filter_lacks(v)"] * 4, None]
    flow = flow_of(Filter("v > 5"))
    (whole,) = found.to_batches()
    assert held_back(whole, np.zeros(6, np.int64), 0).tolist() == [False, *[True] * 4, False]
    (piece,) = found.slice(1, 1).to_batches()
    (held,) = held_rows(flow, piece)
    assert (held.cause, json.loads(held.payload)["after"]) == ("filter_lacks(v)", {"n": 1})


def test_what_is_said_of_a_lost_image_is_lost_with_it() -> None:
    bad = Unrepresentable(b"\xff")
    leaves = {**row(1, 9), "note": bad}, {"v": 1, "w": bad}
    enters = {**row(2, 1), "note": bad}, {"v": 9, "w": bad}

    found = rows_of(batch(T, [leaves, enters]), Filter("v > 5"))

    assert found["flags"].to_pylist() == [["before.note:undecodable"], ["after.w:undecodable"]]
    assert found["absent"].to_pylist() == [None, ["id", "note"]]


def test_a_replaced_value_is_text_and_what_is_no_value_stays() -> None:
    typed = table("shop.t", {"id": "int", "day": "date", "money": "decimal(12,2)", "w": "text", "b": "blob"})
    day, bad = Unrepresentable("0000-00-00"), Unrepresentable(b"\xff")
    rows: list[tuple[Any, Any]] = [(None, {"id": 1, "day": day, "w": bad, "b": b"\0"}), ({"id": 1, "w": None}, None)]

    found = rows_of(batch(typed, rows), Mask("day", "w", "b", value="x"), Mask("money", value=""))

    assert went_on(found) == [
        ("c", None, {"id": 1, "day": "x", "w": "x", "b": "x"}),
        ("d", {"id": 1, "w": None}, None),
    ]
    assert found["flags"].to_pylist()[0] == ["after.day:invalid_date", "after.w:undecodable"]
    assert found["absent"].to_pylist() == [["money"], None]


def test_checks_see_what_the_transforms_leave() -> None:
    checks = (
        AcceptedValues("v", ("x",)),
        NotNull("v"),
        InRange("id", maximum=1),
        Decodable("note", severity="warn"),
        NotNull("w"),
    )
    bad = row(2, None, None, note=Unrepresentable(b"\xff"))
    rows: list[tuple[Any, Any]] = [(None, row(1, 9)), (None, bad), (None, row(3, 1)), (row(4, 9), None)]
    specs = (Filter("v <=> 9 OR id = 2"), Mask("v", "note", value="x"))

    found = rows_of(batch(T, rows), *specs, checks=checks)

    assert found[MARKS].to_pylist() == [0, 0b11110, 0, 0]
    assert found["op"].to_pylist() == ["c", "c", "f", "d"]


def test_a_condition_fails_for_the_rows_alone_that_reach_it() -> None:
    rows = batch(T, [(row(1, 0), row(1, 5)), (None, row(2, 0))])
    guarded = Filter("_op = 'c' OR 10 / after.v > 1", leaving="ignore")

    assert [op for op, _, _ in went_on(rows_of(rows, guarded))] == ["u", "c"]
    with pytest.raises(ExpressionError, match="DIVIDE_BY_ZERO"):
        rows_of(rows, Filter("10 / v > 1", leaving="ignore"))
    with pytest.raises(ExpressionError, match="DIVIDE_BY_ZERO"):
        rows_of(batch(T, [(row(1, 0), row(1, 5))]), Filter("10 / v > 1"))
    unreached = batch(T, [(row(1, 0), row(1, 5))])  # a condition on what is, asked of nothing before
    assert [op for op, _, _ in went_on(rows_of(unreached, Filter("10 / v > 1", leaving="ignore")))] == ["u"]


def test_images_that_nobody_needs_are_not_written() -> None:
    rows: list[tuple[Any, Any]] = [(None, row(n, n, note=Unrepresentable(b"\xff"))) for n in range(6)]
    found = rows_of(batch(T, rows), Filter("v > 3"), Mask("w"), DropColumns("note"))

    assert went_on(found) == [("c", None, {"id": n, "v": n, "w": "***"}) for n in (4, 5)]
    assert [flags is not None for flags in found["flags"].to_pylist()] == [False] * 4 + [True] * 2
    assert went_on(rows_of(batch(T, rows), Filter("v > 9"))) == []


def test_a_row_that_is_too_large_for_spark_is_too_large_here() -> None:
    with pytest.raises(DecodeError) as caught:
        rows_of(batch(T, [(None, row(1, 1, note="x" * (16 << 20) + "x"))]), Mask("note"))
    assert caught.value.code == "row_too_large"


def test_a_value_of_which_spark_alone_knows_the_text_is_left_to_it() -> None:
    rows = batch(T, [(None, row(1, 1, note=Unrepresentable(b"\xff")))])
    with pytest.raises(SparkNeededError) as caught:
        rows_of(rows, Filter("note = 'x'"))
    assert caught.value.message == "column note holds bytes that Spark alone reads as text"


class OwnFilter(Filter):
    """A filter of another package."""

    def transform(self, changes: Any) -> Any:
        return changes


class OwnFate(Filter):
    """A filter that overrides what no method of the base names."""

    def _fate(self, changes: Any, schema: Any) -> str:
        return "'f'"


class OwnMask(Mask):
    """A mask that does more."""


class OwnHash(Hash):
    """A hash that does more."""


@pytest.mark.parametrize(
    ("specs", "why"),
    [
        ((Filter("v > 5"), Mask("w")), "direct"),
        ((Filter("xpath_boolean(w, 'a')"),), "Spark, because filter \"xpath_boolean(w, 'a')\": "),
        ((Filter("cos(id) > 0"),), "Spark, because filter 'cos(id) > 0': the function cos is not compiled"),
        ((Hash("f"),), "Spark, because the new value of f: "),
        ((OwnFilter("v > 5"),), "Spark, because transform filter v > 5 is applied by Spark alone"),
        ((OwnFate("v > 5"),), "Spark, because transform filter v > 5 is applied by Spark alone"),
        ((OwnMask("w"),), "Spark, because transform mask w is applied by Spark alone"),
        ((OwnHash("w"),), "Spark, because transform hash w is applied by Spark alone"),
        ((Filter("w = '${v}'"),), "Spark, because filter \"w = '${v}'\": a text with ${ is not compiled"),
    ],
)
def test_the_lane_of_a_table_says_why(specs: tuple[TransformSpec, ...], why: str) -> None:
    schema = table("shop.t", {"id": "int", "v": "int", "w": "text", "f": "double"})
    (lane,) = table_lanes(flow_of(*specs), [schema])

    assert str(lane).startswith(why)
    assert (lane.lane == "direct") is is_direct(flow_of(*specs), planned(schema))


def test_the_lane_follows_from_each_table() -> None:
    tables = [table("shop.a", {"id": "int", "v": "int"}), table("shop.b", {"id": "int", "v": "blob"}, schema_id=1)]
    checked = flow_of(checks=(InRange("v", maximum="a", tables=("shop.b",)),))

    assert [lane.table for lane in table_lanes(checked, tables) if lane.lane == "spark"] == ["shop.b"]
    (failing,) = table_lanes(flow_of(checks=(NotNull("v", severity="fail"),)), tables)
    assert (failing.table, failing.reason) == ("", 'check not_null(v) sees rows in Spark: its severity is "fail"')


def test_decimals_are_written_without_exponent_and_trailing_zeros() -> None:
    texts = ["0.000000000", "0.000000001", "-1.500000000", "100.000000000", "99999999.123456789"]
    array = pa.array(texts).cast(pa.decimal128(20, 9))

    assert decimal_text(array).to_pylist() == ["0", "0.000000001", "-1.5", "100", "99999999.123456789"]
    assert decimal_text(pa.array(["100", "-20"]).cast(pa.decimal128(9, 0))).to_pylist() == ["100", "-20"]


class Unsaid(Filter):
    """A transform that says neither how it compiles nor what it makes of columns."""

    def columns_after(self, changes: Any) -> Any:
        raise NotImplementedError


def test_what_does_not_compile_takes_its_own_tables_through_spark() -> None:
    tables = [table(f"shop.{name}", {"id": "int", "v": "int"}, schema_id=n) for n, name in enumerate("abc")]
    plan, none = planned(*tables), SparkTables()
    apart = frozenset({"shop.b"})
    expected: list[tuple[tuple[TransformSpec, ...], frozenset[str] | None]] = [
        ((Filter("id > 1"),), frozenset()),
        ((Filter("cos(id) > 0", tables=("shop.b",)),), apart),
        ((OwnFilter("v > 5", tables=("shop.b",)), Filter("id > 1")), apart),
        ((OwnFilter("v > 5", tables=("shop.x",)),), frozenset()),
        ((OwnFilter("v > 5", tables=("shop.*",)),), None),
        ((OwnFilter("v > 5"),), None),
        ((Unsaid("v > 5", tables=("shop.b",)),), None),
    ]
    for specs, tables_apart in expected:
        assert spark_tables(flow_of(*specs), plan, none) == tables_apart, specs
    checked = flow_of(checks=(InRange("v", maximum="a", tables=("shop.b",)),))
    assert spark_tables(checked, plan, none) == apart
    assert spark_tables(flow_of(checks=(NotNull("v", severity="fail"),)), plan, none) is None

    flow = flow_of(Filter("cos(id) > 0", tables=("shop.b",)), Mask("v", tables=("shop.a",)))
    program = row_program(flow, plan, apart)
    assert program is not None
    assert set(program.tables) == {0}


def test_a_table_that_needs_spark_is_learned_once() -> None:
    known, error = SparkTables(), SparkNeededError("a value")
    assert not known.learn("f", error)
    error.table = "shop.b"
    error = pickle.loads(pickle.dumps(error))
    assert (known.learn("f", error), known.learn("f", error)) == (True, False)
    tables = [table(f"shop.{name}", {"id": "int"}, schema_id=n) for n, name in enumerate("ab")]
    assert spark_tables(flow_of(Filter("id > 1")), planned(*tables), known) == {"shop.b"}
    assert spark_tables(flow_of(Filter("id > 1")), planned(tables[1]), known) is None
    assert spark_tables(flow_of(Filter("id > 1")), planned(tables[0]), known) == frozenset()
