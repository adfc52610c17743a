"""Computed columns on decoded rows: values in each image, what is held back, and what keeps a table in Spark's lane."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from databus import (
    AcceptedValues,
    AddColumn,
    Cast,
    DropColumns,
    Extract,
    Filter,
    Flatten,
    Hash,
    InRange,
    Lookup,
    Mask,
    NotNull,
    PythonFunction,
    RenameColumns,
    Truncate,
)
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.expressions.errors import ExpressionError, SparkNeededError
from databus.rows.violation_bits import MARKS
from databus.runtime.direct.reasons import row_program, table_lanes
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.unit.runtime.test_row_program import flow_of, planned, rows_of, went_on

COLUMNS = {
    "id": "int",
    "price": "decimal(10,2)",
    "n": "int",
    "name": "varchar(40)",
    "doc": "json",
    "day": "date",
    "at": "datetime(3)",
}
T = table("shop.t", COLUMNS)


def row(id: int, **values: Any) -> dict[str, Any]:  # noqa: A002
    whole = {
        "id": id,
        "price": Decimal("2.50"),
        "n": 3,
        "name": "abcdef",
        "doc": '{"city": "Ulm", "n": 7, "list": [1, {"x": null}]}',
        "day": dt.date(2024, 2, 29),
        "at": dt.datetime(2024, 3, 10, 2, 30, 0, 123000),
    }
    return {**whole, **values}


def images(rows: list[tuple[Any, Any]], *specs: TransformSpec, names: tuple[str, ...]) -> list[Any]:
    """Return these columns of both images of each row."""
    found = [
        [json.loads(image, parse_float=Decimal) if image else None for image in (each["before"], each["after"])]
        for each in rows_of(batch(T, rows), *specs).to_pylist()
    ]
    return [[None if image is None else {n: image[n] for n in names if n in image} for image in each] for each in found]


def causes(rows: list[tuple[Any, Any]], *specs: TransformSpec) -> list[str | None]:
    return rows_of(batch(T, rows), *specs)["unjudged"].to_pylist()  # type: ignore[no-any-return]


def test_values_are_computed_in_each_image_from_that_image() -> None:
    rows: list[tuple[Any, Any]] = [
        (row(1, n=None), row(1, n=4)),
        (row(2), None),
        ({"id": 3}, {"n": 5}),
        (None, row(4, price=None)),
    ]
    added = AddColumn(total="CAST(price * n AS decimal(14,2))", where="concat(_database, '/', _table)", ms="_ts_ms")
    assert images(rows, added, names=("total", "where", "ms")) == [
        [
            {"total": None, "where": "shop/t", "ms": 1_700_000_000_000},
            {"total": Decimal(10), "where": "shop/t", "ms": 1_700_000_000_000},
        ],
        [{"total": Decimal("7.5"), "where": "shop/t", "ms": 1_700_000_000_000}, None],
        [{"where": "shop/t", "ms": 1_700_000_000_000}, {"where": "shop/t", "ms": 1_700_000_000_000}],
        [None, {"total": None, "where": "shop/t", "ms": 1_700_000_000_000}],
    ]


def test_values_have_the_form_of_stored_ones() -> None:
    added = {
        "d": "CAST(`at` AS date)",
        "a": "CAST(`at` AS timestamp_ntz)",
        "m": "CAST(`at` AS timestamp)",
        "b": "CAST(name AS binary)",
        "big": "n > 2",
        "f": "CAST(price AS float)",
        "nan": "CAST('NaN' AS double)",
        "low": "CAST('-Infinity' AS double)",
    }
    ((_, image),) = images([(None, row(1))], AddColumn(added), names=tuple(added))
    assert image == {
        "d": "2024-03-10",
        "a": "2024-03-10T02:30:00.123000",
        "m": "2024-03-10T02:30:00.123000Z",
        "b": "YWJjZGVm",
        "big": True,
        "f": Decimal("2.5"),
        "nan": "NaN",
        "low": "-Infinity",
    }


def test_the_order_of_transforms_decides_what_is_seen() -> None:
    specs = (
        AddColumn(plain="upper(name)", day2="CAST(day AS timestamp_ntz)"),
        Mask("name", keep_last=2),
        AddColumn(masked="upper(name)", number="n + 1"),
        Truncate("name", 4),
        RenameColumns({"plain": "shown"}),
        Hash("number"),
        Mask("shown", keep_last=1),
        Mask("day2", keep_last=9),
        Filter("masked = '***EF' AND shown = '***F'"),
        DropColumns("doc"),
    )
    ((_, image),) = images([(None, row(1))], *specs, names=("name", "masked", "shown", "number", "day2", "doc"))
    assert image == {
        "name": "***e",
        "masked": "***EF",
        "shown": "***F",
        "number": "4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a",  # of "4"
        "day2": "***00.000000",
    }


def test_a_value_that_does_not_fit_holds_its_row_back() -> None:
    zero = Unrepresentable("0000-00-00")
    rows: list[tuple[Any, Any]] = [
        (None, row(1, name="12")),
        (row(2, name="x"), row(2, name="7")),
        (None, row(3, name=None, day=None)),
        ({"id": 4}, {"name": "8"}),
        (None, row(5, name="300", day=zero)),
    ]
    cast = {"NAME": "tinyint", "day": "timestamp_ntz", "price": "string"}
    assert causes(rows, Cast(cast)) == [None, "cast(name)", None, None, "cast(name, day)"]
    assert images(rows, Cast(cast), names=("name", "price"))[0][1] == {"name": 12, "price": "2.50"}
    assert causes(rows, Cast(cast, on_failure="null")) == [None] * 5
    first = causes(rows, Cast(name="tinyint"), Cast(doc="int"))
    assert first == ["cast(doc)", "cast(name)", "cast(doc)", None, "cast(name)"]
    assert causes(rows, Lookup("name", {"12": "x"}, into="y", missing="hold"))[:3] == [None, "lookup(name)", None]
    assert causes(rows, Extract("doc", path="$.city", into="c", type="int"))[:1] == ["extract(c)"]


def test_nothing_is_computed_from_a_flagged_value() -> None:
    rows: list[tuple[Any, Any]] = [
        (row(1, name=Unrepresentable(b"\xff\xfe12")), row(1)),
        (None, row(2, day=Unrepresentable("0000-00-00"))),
        (None, row(3)),
    ]
    assert causes(rows, Truncate("name", 2)) == ["truncate(name)", None, None]
    assert causes(rows, Cast(name="binary", day="string")) == ["cast(name)", "cast(day)", None]
    assert causes(rows, Lookup("name", {"x": "y"}, into="word")) == ["lookup(word)", None, None]
    added = AddColumn(long="length(name)", none="day IS NULL")
    assert causes(rows, added) == ["add_column(long)", "add_column(none)", None]
    assert causes(rows, Cast(day="date", on_failure="null"), AddColumn(none="day IS NULL")) == [None] * 3
    upper = PythonFunction("pyarrow.compute:utf8_upper", inputs=("name",), into="name")
    assert causes(rows, Mask("name"), upper) == ["python_function(name)", None, None]
    # No error of an expression comes from such a value, and a filter that goes by it leaves no such row out.
    shown = images(rows, AddColumn(n2="length(name) / (length(name) - 4)"), names=("n2",))
    assert shown[0] == [{"n2": None}, {"n2": 3}]
    found = rows_of(batch(T, rows), AddColumn(long="length(name)"), Filter("long > 100"))
    assert list(zip(found["op"].to_pylist(), found["unjudged"].to_pylist(), strict=True)) == [
        ("u", "add_column(long)"), ("f", None), ("f", None)
    ]  # fmt: skip


def test_a_lost_image_holds_nothing_back() -> None:
    rows: list[tuple[Any, Any]] = [(row(1, n=9), row(1, n=1, name="x")), (row(2, n=1, name="x"), row(2, n=9))]
    assert causes(rows, Filter("n > 5"), Cast(name="int")) == ["cast(name)"] * 2
    rows = [(row(1, n=9, name="1"), row(1, n=1, name="x")), (row(2, n=1, name="x"), row(2, n=9, name="1"))]
    assert causes(rows, Filter("n > 5"), Cast(name="int")) == [None, None]
    assert causes(rows, Cast(name="int"), Filter("n > 5")) == ["cast(name)"] * 2


def test_a_row_that_a_filter_leaves_out_is_not_computed() -> None:
    rows: list[tuple[Any, Any]] = [(None, row(1, n=0)), (None, row(2, n=2))]
    rate = AddColumn(rate="10 / n")
    assert [op for op, _, _ in went_on(rows_of(batch(T, rows), Filter("n <> 0"), rate))] == ["c"]
    judged = rows_of(batch(T, rows), Filter("n <> 0"), rate, Cast(rate="int"))
    assert judged["op"].to_pylist() == ["f", "c"]
    with pytest.raises(ExpressionError, match="DIVIDE_BY_ZERO"):
        rows_of(batch(T, rows), rate)


def test_values_inside_json_and_of_a_table() -> None:
    rows: list[tuple[Any, Any]] = [(None, row(1)), (None, row(2, doc=None, n=None)), (None, {"id": 3})]
    specs = (
        Extract("doc", path="$.city", into="city"),
        Extract("DOC", path="$.n", into="number", type="smallint"),
        Extract("doc", path="$.list[1]", into="rest"),
        Extract("doc", path="$.list[1].x", into="nothing"),
        Lookup("n", {3: "1.5"}, into="rate", type="double"),
        Lookup("day", {dt.date(2024, 2, 29): True}, into="leap", type="boolean"),
    )
    names = ("city", "number", "rest", "nothing", "rate", "leap")
    assert [image for _, image in images(rows, *specs, names=names)] == [
        {"city": "Ulm", "number": 7, "rest": '{"x":null}', "nothing": None, "rate": Decimal("1.5"), "leap": True},
        {"city": None, "number": None, "rest": None, "nothing": None, "rate": None, "leap": True},
        {},
    ]
    with pytest.raises(SparkNeededError):
        rows_of(batch(T, [(None, row(1, doc='{"n": 1.5}'))]), Extract("doc", path="$.n", into="x"))
    as_double = Extract("doc", path="$.n", into="x", type="double")
    assert images([(None, row(1, doc='{"n": 1.50}'))], as_double, names=("x",)) == [[None, {"x": Decimal("1.5")}]]


def only_three(values: pa.Array) -> pa.Array:
    assert values.null_count == 0
    return pc.add(values, 1)


def broken(values: pa.Array) -> pa.Array:
    raise ValueError(values[0].as_py())


def short(values: pa.Array) -> pa.Array:
    return values[:-1]


def test_a_python_function_sees_the_images_that_have_its_inputs() -> None:
    rows: list[tuple[Any, Any]] = [(row(1, n=1), row(1, n=2)), ({"id": 2}, {"id": 2, "n": 5}), (row(3, n=9), None)]
    specs = (PythonFunction(f"{__name__}:only_three", inputs=("n",), into="m", type="bigint"), Filter("m <> 10"))
    assert images(rows, *specs, names=("m",)) == [[{"m": 2}, {"m": 3}], [{}, {"m": 6}], [None, None]]
    replaced = PythonFunction("pyarrow.compute:utf8_upper", inputs=("name",), into="name")
    assert images(rows[:1], replaced, names=("name",)) == [[{"name": "ABCDEF"}] * 2]
    for function, said in (("broken", "ValueError at test_computed_rows.py"), ("short", "1 values for 2 rows")):
        with pytest.raises(TransformError, match=said) as told:
            images(rows[:1], PythonFunction(f"{__name__}:{function}", inputs=("n",), into="m"), names=("m",))
        assert told.value.code == "python_function"


def test_checks_see_what_is_computed() -> None:
    rows: list[tuple[Any, Any]] = [(None, row(1, n=1)), (None, row(2, n=None)), (None, row(3, n=8, name="x"))]
    specs = (
        AddColumn(twice="n * 2"),
        Cast(price="int"),
        Extract("doc", path="$.city", into="city"),
        Truncate("name", 1),
    )
    checks = (
        NotNull("twice"),
        InRange("twice", maximum=10),
        AcceptedValues("name", ("a",)),
        InRange("price", minimum=3),
        NotNull("day"),
    )
    found = rows_of(batch(T, rows), *specs, checks=checks)
    assert found[MARKS].to_pylist() == [0b1000, 0b1001, 0b1110]


def test_a_time_of_another_year_is_left_to_spark() -> None:
    far = AddColumn(far="CAST(date_add(day, 4000000) AS date)")
    with pytest.raises(SparkNeededError, match="beyond the years"):
        rows_of(batch(T, [(None, row(1))]), far)


def test_the_batch_that_is_shown_has_the_columns_as_they_are_written() -> None:
    flow = flow_of(AddColumn(total="n + 1"), Cast(price="string"), RenameColumns({"total": "sum", "name": "word"}))
    program = row_program(flow, planned(T))
    assert program is not None
    shown = program.shown(batch(T, [(None, row(1)), (None, {"id": 2})]), transactions(1))
    assert [(c.name, c.type, c.spark_type) for c in shown.schema.columns if c.spark_type != "string"] == [
        ("id", "int", "int"), ("n", "int", "int"), ("day", "date", "date"), ("at", "datetime(3)", "timestamp_ntz"),
        ("\1total", "int", "int"),
    ]  # fmt: skip
    assert shown.images.schema.names == [c.name for c in shown.schema.columns]
    assert [bool(carried[-1]) for carried in shown.presence_sets] in ([True, False], [False, True])


def test_flattened_members_are_columns_where_rows_are_decoded() -> None:
    """The first cause in the order of the names is kept, as in Spark's lane."""
    spec = Flatten("doc", {"city": "string", "n": "int", "a.b": "bigint"}, prefix="m_")
    (lane,) = table_lanes(flow_of(spec), [T])
    assert lane.lane == "direct"
    rows: list[tuple[Any, Any]] = [
        (row(1), row(1, doc='{"a": {"b": 5}}')),
        (None, row(2, doc='{"n": "old", "a": {"b": "x"}}')),
        ({"id": 3}, {"id": 3, "doc": None}),
    ]
    nothing = {"m_city": None, "m_n": None, "m_a_b": None}
    found = images(rows, spec, names=tuple(nothing))
    assert found[0] == [{"m_city": "Ulm", "m_n": 7, "m_a_b": None}, {**nothing, "m_a_b": 5}]
    assert found[2] == [{}, nothing]
    assert causes(rows, spec) == [None, "flatten(m_a_b)", None]


class OwnCast(Cast):
    """A cast that does more."""


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (AddColumn(x="upper(name)"), "direct"),
        (Lookup("n", {1: "x"}, into="x"), "direct"),
        (PythonFunction("pyarrow.compute:utf8_upper", inputs=("name",), into="x"), "direct"),
        (Extract("doc", path="$.a['b']", into="x"), "direct"),
        (Cast(name="timestamp"), "Spark, because the value of name: cast of string to timestamp is not compiled"),
        (AddColumn(x="CAST(xpath_boolean(name, 'a') AS boolean)"), "Spark, because the value of x: the function xpath"),
        (Extract("doc", path="$. a", into="x"), "Spark, because the value of x: get_json_object(string, string): "),
        (OwnCast(n="string"), "Spark, because transform cast n to string is applied by Spark alone"),
    ],
)
def test_the_lane_of_a_table_says_why(spec: TransformSpec, why: str) -> None:
    (lane,) = table_lanes(flow_of(spec), [T])
    assert str(lane).startswith(why)
