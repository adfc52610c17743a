"""AddColumn, Cast, Truncate and Extract on real DataFrames."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from databus.binlog.segments.large_values import LargeValueReference
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.expression_type import expression_type
from databus.runtime.spark.errors import engine_errors
from databus.testing.table_batches import Unrepresentable, batch, table
from databus.transforms.add_column import AddColumn
from databus.transforms.cast import Cast
from databus.transforms.drop import DropColumns
from databus.transforms.extract import Extract
from databus.transforms.filter import Filter
from databus.transforms.hash import Hash
from databus.transforms.lookup import Lookup
from databus.transforms.mask import Mask
from databus.transforms.python_function import PythonFunction
from databus.transforms.rename import RenameColumns
from databus.transforms.truncate import Truncate

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

COLUMNS = {
    "id": "int",
    "price": "decimal(10,2)",
    "n": "int",
    "name": "varchar(40)",
    "doc": "json",
    "raw": "blob",
    "day": "date",
    "at": "datetime(3)",
    "moment": "timestamp(6)",
    "u": "bigint unsigned",
}
ORDERS = table("shop.orders", COLUMNS)
UTC = dt.UTC


def row(id: int, **values: Any) -> dict[str, Any]:  # noqa: A002
    return {
        "id": id,
        "price": Decimal("2.50"),
        "n": 3,
        "name": "Zoë 😀x",
        "doc": json.dumps({"a": {"b": "Ulm", "n": 7}, "odd key": [1, {"x": None}]}),
        "raw": b"\xff\x00\x01",
        "day": dt.date(2024, 2, 29),
        "at": dt.datetime(2024, 3, 10, 2, 30, 0, 123000),
        # In New York this hour comes twice, and the one of `at` not at all.
        "moment": dt.datetime(2024, 11, 3, 6, 30, 0, 1, tzinfo=UTC),
        "u": 2**64 - 1,
        **values,
    }


def apply(changes: FrameChanges, *specs: TransformSpec) -> FrameChanges:
    for spec in specs:
        changes = spec.apply(changes)  # type: ignore[assignment]  # the protocol's one implementation
    return changes


def result(changes: FrameChanges) -> list[tuple[Any, Any, Any]]:
    rows = changes.materialize().orderBy("ordinal").selectExpr("to_json(before)", "to_json(after)", "unjudged")
    return [(*(json.loads(text) if text else None for text in each[:2]), each[2]) for each in rows.collect()]


def after(changes: FrameChanges) -> list[Any]:
    return [image for _, image, _ in result(changes)]


def test_values_are_computed_in_each_image_from_that_image(changes_of: Build) -> None:
    changes = changes_of(
        batch(
            ORDERS,
            [
                (row(1, n=None), row(1, n=4)),
                (row(2), None),
                ({"id": 3}, {"n": 5}),  # images that lack columns
                (None, row(4, price=None)),
            ],
        )
    )
    made = apply(
        changes,
        AddColumn(total="CAST(price * n AS decimal(14,2))", where="concat(_database, '/', _table)", big="n > 3"),
    )
    found = [[{k: image[k] for k in ("total", "where", "big") if k in image} if image else None for image in each[:2]]
             for each in result(made)]  # fmt: skip
    assert found == [
        [{"total": None, "where": "shop/orders", "big": None}, {"total": 10, "where": "shop/orders", "big": True}],
        [{"total": 7.5, "where": "shop/orders", "big": False}, None],
        [{"where": "shop/orders"}, {"where": "shop/orders", "big": True}],
        [None, {"total": None, "where": "shop/orders", "big": False}],
    ]
    kept = apply(made, Filter("total > 7 OR big")).rows.where("NOT filtered AND unjudged IS NULL").count()
    assert kept == 2


def test_computed_temporals_and_numbers_have_the_form_of_stored_ones(changes_of: Build) -> None:
    added = {
        "d": "CAST(at AS date)",
        "a": "CAST(at AS timestamp_ntz)",
        "m": "coalesce(moment, moment)",
        "b": "CAST(concat('x', name) AS binary)",
        "u2": "coalesce(u, u)",
        "f": "CAST(price AS float)",
        "nan": "CAST('NaN' AS double)",
    }
    made = apply(changes_of(batch(ORDERS, [(None, row(1))])), AddColumn(added))
    (image,) = after(made)
    assert {name: image[name] for name in ("d", "a", "m", "u2", "f", "nan")} == {
        "d": "2024-03-10",
        "a": "2024-03-10T02:30:00.123000",
        "m": "2024-11-03T06:30:00.000001Z",
        "u2": 2**64 - 1,
        "f": 2.5,
        "nan": "NaN",
    }
    back = made.materialized()
    typed = back.rows.select(*[back.column(name, back.tables[0]).alias(name) for name in ("moment", "m", "a", "b")])
    (values,) = typed.collect()
    assert values["moment"] == values["m"]
    assert values["a"] == dt.datetime(2024, 3, 10, 2, 30, 0, 123000)
    assert bytes(values["b"]) == "xZoë 😀x".encode()


def test_the_order_of_transforms_decides_what_is_seen(changes_of: Build) -> None:
    made = apply(
        changes_of(batch(ORDERS, [(None, row(1, name="abcdef"))])),
        AddColumn(plain="upper(name)"),
        Mask("name", keep_last=2),
        AddColumn(masked="upper(name)", number="n + 1"),
        Truncate("name", 4),
        RenameColumns({"plain": "shown"}),
        Hash("number"),
        Mask("shown", keep_last=1),
        Filter("masked = '***EF' AND shown = '***F'"),
    )
    (image,) = after(made)
    assert (image["name"], image["masked"], image["shown"]) == ("***e", "***EF", "***F")
    assert image["number"] == "4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a"  # of "4"
    assert made.rows.where("NOT filtered").count() == 1
    assert result(made.materialized()) == result(made)


def test_a_cast_that_fails_holds_the_row_back(changes_of: Build) -> None:
    zero = Unrepresentable("0000-00-00")
    rows = [
        (None, row(1, name="12")),
        (row(2, name="x"), row(2, name="7")),
        (None, row(3, name=None, day=None)),
        ({"id": 4}, {"name": "8"}),
        (None, row(5, name="300", day=zero)),
    ]
    changes = changes_of(batch(ORDERS, rows))
    made = apply(changes, Cast(NAME="tinyint", day="timestamp_ntz", price="string"))
    images = after(made)
    assert [(i.get("name"), i.get("day", "absent")) for i in images] == [
        (12, "2024-02-29T00:00:00.000000"),
        (7, "2024-02-29T00:00:00.000000"),
        (None, None),
        (8, "absent"),
        (None, None),
    ]
    assert images[0]["price"] == "2.50"
    assert [cause for _, _, cause in result(made)] == [None, "cast(name)", None, None, "cast(name, day)"]
    assert made.rows.where("filtered").count() == 0
    nulled = apply(changes, Cast(name="tinyint", on_failure="null"))
    assert [(image.get("name"), cause) for _, image, cause in result(nulled)] == [
        (12, None), (7, None), (None, None), (8, None), (None, None)
    ]  # fmt: skip


def test_what_is_held_keeps_its_first_cause(changes_of: Build) -> None:
    changes = changes_of(batch(ORDERS, [(None, row(1, name="x"))]))
    made = apply(changes, Cast(name="int"), Cast(doc="int"))
    assert [cause for _, _, cause in result(made)] == ["cast(name)"]


def test_text_is_cut_to_characters_and_bytes_to_bytes(changes_of: Build) -> None:
    made = apply(changes_of(batch(ORDERS, [(row(1), row(1, name=None, raw=b""))])), Truncate({"name": 5, "raw": 2}))
    (before, image, _), *_ = result(made)
    assert (before["name"], before["raw"]) == ("Zoë 😀", "/wA=")
    assert (image["name"], image["raw"]) == (None, "")
    assert [c.type for c in made.tables[0].columns if c.name in ("name", "raw")] == ["varchar(40)", "blob"]


def test_a_value_in_another_form_is_not_computed_from(changes_of: Build) -> None:
    claim = Unrepresentable(LargeValueReference('{"a":{"b":"segment"}}'))
    rows = [
        (row(1, name=Unrepresentable(b"\xff\xfe12")), row(1)),
        (None, row(2, doc=claim)),
        (None, row(3, raw=claim)),
        (None, row(4, day=Unrepresentable("0000-00-00"))),
        (None, row(5)),
        (None, row(6, doc=claim, name=None)),
    ]
    changes = changes_of(batch(ORDERS, rows))

    def causes(*specs: TransformSpec) -> dict[int, str]:
        found = result(apply(changes, *specs))
        return {number: cause for number, (_, _, cause) in enumerate(found, 1) if cause}

    assert causes(Truncate({"name": 2, "raw": 3})) == {1: "truncate(name)", 3: "truncate(raw)"}
    assert causes(Cast(name="binary", day="string")) == {1: "cast(name)", 4: "cast(day)"}
    assert causes(Cast({"name": "string", "doc": "string", "day": "string"}, on_failure="null")) == {
        1: "cast(name)", 2: "cast(doc)", 6: "cast(doc)",
    }  # fmt: skip
    assert causes(Extract("doc", path="$.a.b", into="city")) == {2: "extract(city)", 6: "extract(city)"}
    assert causes(Lookup("name", {"x": "y"}, into="word")) == {1: "lookup(word)"}
    added = AddColumn(long="length(name)", none="day IS NULL", size="length(doc)")
    assert causes(added) == {n: f"add_column({c})" for n, c in {1: "long", 2: "size", 4: "none", 6: "size"}.items()}
    upper = PythonFunction("pyarrow.compute:utf8_upper", inputs=("name",), into="name")
    assert causes(RenameColumns({"name": "word"}), RenameColumns({"word": "name"}), upper) == {
        1: "python_function(name)"
    }
    # What a Cast has made NULL, as it was asked, is none of these any more; what is not read holds nothing.
    assert causes(Cast(day="date", on_failure="null"), AddColumn(none="day IS NULL"), DropColumns("raw")) == {}
    assert after(apply(changes, AddColumn(long="length(name)")))[4]["long"] == 6
    # A filter that goes by the value leaves no such row out.
    judged = apply(changes, AddColumn(long="length(name)"), Filter("long > 100"))
    assert [each.unjudged for each in judged.rows.where("NOT filtered").collect()] == ["add_column(long)"]
    # No error of an expression or function comes from such a value.
    assert result(apply(changes, AddColumn(n2="length(name) / (length(name) - 4)")))[0][0]["n2"] is None


def test_a_value_inside_json_becomes_a_column(changes_of: Build) -> None:
    rows = [(None, row(1)), (None, row(2, doc=None)), (None, row(3, doc='{"a":{"n":"x"}}')), (None, {"id": 4})]
    made = apply(
        changes_of(batch(ORDERS, rows)),
        Extract("doc", path="$.a.b", into="city"),
        Extract("DOC", path="$.a.n", into="number", type="smallint"),
        Extract("doc", path="$['odd key'][1]", into="rest"),
        Extract("doc", path="$['odd key'][1].x", into="nothing"),
    )
    names = ("city", "number", "rest", "nothing")
    assert [{n: image[n] for n in names if n in image} for image in after(made)] == [
        {"city": "Ulm", "number": 7, "rest": '{"x":null}', "nothing": None},
        dict.fromkeys(names),
        dict.fromkeys(names),
        {},
    ]
    assert [cause for _, _, cause in result(made)] == [None, None, "extract(number)", None]


def test_the_types_that_are_told_without_spark_are_those_of_spark(spark: Any) -> None:
    types = {
        "i": "int", "l": "bigint", "s": "smallint", "t": "tinyint", "d": "double", "x": "string", "b": "boolean",
        "y": "binary", "p": "decimal(10,2)", "at": "timestamp_ntz", "day": "date", "z": "timestamp",
    }  # fmt: skip
    texts = [
        *("i + 1", "s + t", "l * i", "-s", "abs(t)", "i / 2", "d - i", "l - 3000000000", "s * 2", "t + t", "d / s"),
        *(
            "i > 1",
            "x LIKE 'a%'",
            "x RLIKE 'a'",
            "NOT b",
            "b AND i IN (1, 2)",
            "x IS NULL",
            "i BETWEEN 1 AND 2",
            "true",
        ),
        *("x <=> 'a'", "concat(x, 'a')", "x || i", "concat(i, l)", "left(x, 2)", "right(x, 1)", "substring(x, 1, 2)"),
        *("upper(x)", "lower(i)", "trim(x)", "initcap(x)", "replace(x, 'a', 'b')", "regexp_replace(x, 'a', 'b')"),
        *("md5(x)", "sha1(x)", "sha2(x, 256)", "hex(i)", "concat_ws('-', x, i)", "get_json_object(x, '$.a')"),
        *("length(x)", "year(day)", "month(at)", "day(day)", "quarter(day)", "hour(at)", "minute(z)", "second(at)"),
        *("coalesce(x, 'a')", "coalesce(p, p)", "if(b, i, 1)", "CASE WHEN b THEN x END", "CASE b WHEN true THEN z END"),
        *("CAST(i AS decimal(5,1))", "x::date", "try_cast(x AS timestamp)", "int(x)", "'a'", "7", "3000000000", "7L"),
        *("ifnull(i, 2)", "nvl(x, 'a')", "substr(x, 2)", "upper(y)", "trim(y)", "length(y)", "(day)"),
    ]
    told = {text: expression_type(text, types.__getitem__) for text in texts}
    known = {text: found for text, found in told.items() if found}
    assert len(known) > 60
    frame = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in types.items()))
    fields = frame.selectExpr(*[f"{text} AS c{k}" for k, text in enumerate(known)]).schema.fields
    found = {text: each.dataType.simpleString() for text, each in zip(known, fields, strict=True)}
    assert known == found


def test_a_python_function_sees_the_images_that_have_its_inputs(changes_of: Build) -> None:
    other = table("shop.other", {"id": "int", "name": "int", "n": "text"}, schema_id=1)
    rows = [(row(1, name="a", n=1), row(1, name=None, n=2)), ({"id": 2}, {"name": "c"})]
    changes = changes_of(batch(ORDERS, rows), batch(other, [(None, {"id": 3, "name": 5, "n": "x"})]))
    made = apply(
        changes,
        PythonFunction("pyarrow.compute:utf8_upper", inputs=("name",), into="name", tables=("shop.orders",)),
        PythonFunction("pyarrow.compute:add", inputs=("n", "id"), into="sum", type="bigint", tables=("*.orders",)),
        Filter("sum > 1", tables=("shop.orders",)),
    )
    images = made.materialize().orderBy("table", "ordinal").selectExpr("to_json(before)", "to_json(after)")
    found = [[json.loads(text) if text else None for text in each] for each in images.collect()]
    picked = [[{k: i[k] for k in ("name", "sum") if k in i} if i else None for i in each] for each in found]
    assert picked == [
        [{"name": "A", "sum": 2}, {"name": None, "sum": 3}],
        [{}, {"name": "C"}],
        [None, {"name": 5}],
    ]


def test_an_error_of_a_python_function_is_ours(changes_of: Build) -> None:
    changes = changes_of(batch(ORDERS, [(None, row(1))]))
    made = apply(changes, PythonFunction("pyarrow.compute:utf8_upper", inputs=("n",), into="x"))
    with (
        pytest.raises(TransformError, match=r"pyarrow\.compute:utf8_upper: ArrowNotImpl") as told,
        engine_errors(),
    ):
        made.materialize().collect()
    assert told.value.code == "python_function"


def test_values_of_a_small_table_are_looked_up(changes_of: Build) -> None:
    odd = {"a'b": "x", 'q"\\': "\\n'", "é😀": "\n", "": "empty"}
    rows = [
        (row(1, name="a'b", n=7), row(1, name='q"\\', n=8)),
        (None, row(2, name="é😀", n=None)),
        (None, row(3, name="", n=9)),
        ({"id": 4}, {"n": 7}),
    ]
    made = apply(
        changes_of(batch(ORDERS, rows)),
        Lookup("name", odd, into="word"),
        Lookup("N", {7: "1.50", 9: 2}, into="rate", type="decimal(5,2)", missing="hold"),
        Lookup("day", {"2024-02-29": True}, into="leap", type="boolean"),
    )
    names = ("word", "rate", "leap")
    assert [[{k: i[k] for k in names if k in i} if i else None for i in each[:2]] for each in result(made)] == [
        [{"word": "x", "rate": 1.5, "leap": True}, {"word": "\\n'", "rate": None, "leap": True}],
        [None, {"word": "\n", "rate": None, "leap": True}],
        [None, {"word": "empty", "rate": 2, "leap": True}],
        [{}, {"rate": 1.5}],
    ]
    assert [cause for _, _, cause in result(made)] == ["lookup(n)", None, None, None]
