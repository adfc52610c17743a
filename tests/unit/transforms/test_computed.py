"""Columns of computed values as they are known without rows: names, types, origin, and what is in clear in them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from databus import (
    AddColumn,
    Cast,
    DropColumns,
    Extract,
    Filter,
    Flow,
    Lookup,
    Mask,
    Mock,
    Noop,
    Project,
    RenameColumns,
    Truncate,
)
from databus.core.errors import ConfigError, TransformError
from databus.core.flow_specs import TransformSpec
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.ops.tables.wants import asked_by
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import computed_in_clear
from databus.rows.frames.expression_type import expression_type
from databus.rows.frames.fields import Field, fields_of
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_loss import in_clear
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.tables.column_lineage import written_tables
from databus.testing.table_batches import table

ORDERS = table(
    "shop.orders",
    {"id": "int", "price": "decimal(10,2)", "n": "int", "email": "varchar(40)", "doc": "json", "raw": "blob"},
)
LOG = table("shop.log", {"id": "int", "text": "text"}, schema_id=1)


def left(*specs: TransformSpec, tables: tuple[TableSchema, ...] = (ORDERS,)) -> FrameChanges:
    changes: Any = FrameChanges(None, tables, {t.schema_id: fields_of(t) for t in tables}, hidden=Hidden())
    for spec in specs:
        changes = spec.columns_after(changes)
    return changes  # type: ignore[no-any-return]


def field(changes: FrameChanges, name: str) -> Field:
    return changes.require(name, changes.tables[0], "test")


def test_names_types_and_order_are_known_before_rows_are_read() -> None:
    flow = Flow(
        name="f",
        source=Mock(rows=1),
        transforms=(
            AddColumn(total="CAST(price * n AS decimal(14,2))", many="n > 10"),
            Cast(N="string", total="double"),
            Truncate("email", 5),
            Extract("doc", path="$.at", into="at", type="timestamp"),
        ),
        sinks=(Noop(),),
    )
    (written,) = written_tables(flow, (ORDERS,))
    assert [(c.name, c.type, c.spark_type) for c in written.columns] == [
        ("id", "int", "int"),
        ("price", "decimal(10,2)", "decimal(10,2)"),
        ("n", "text", "string"),
        ("email", "varchar(40)", "string"),
        ("doc", "json", "string"),
        ("raw", "blob", "binary"),
        ("total", "double", "double"),
        ("many", "boolean", "boolean"),
        ("at", "timestamp(6)", "timestamp"),
    ]
    assert may_be_direct(flow)


def test_expressions_of_one_transform_do_not_see_each_other() -> None:
    with pytest.raises(TransformError, match=r"add b: shop\.orders has no column 'a'"):
        left(AddColumn(a="upper(email)", b="lower(a)"))
    assert field(left(AddColumn(a="upper(email)"), AddColumn(b="lower(a)")), "b").leaves() == ("email",)


@pytest.mark.parametrize("name", ["id", "ID", "price"])
@pytest.mark.parametrize("make", [lambda n: AddColumn({n: "1"}), lambda n: Extract("doc", path="$.a", into=n)])
def test_a_name_that_is_taken_is_refused(name: str, make: Any) -> None:
    with pytest.raises(TransformError, match="already") as told:
        left(make(name))
    assert told.value.code == "column_exists"
    left(RenameColumns({"price": "cost"}), AddColumn(price="upper(email)"), DropColumns("price"), AddColumn(price="1"))


def test_a_renamed_added_column_leaves_its_name_free() -> None:
    changes = left(AddColumn(a="upper(email)"), RenameColumns({"a": "b"}), AddColumn(a="n + 1"), Mask("b"))
    assert (field(changes, "a").leaves(), field(changes, "b").leaves()) == (("n",), ("email",))
    assert field(changes, "a").column.spark_type == "int"
    assert field(changes, "a").source != field(changes, "b").source


def test_a_type_that_is_not_known_is_asked_for() -> None:
    with pytest.raises(TransformError, match=r"the type of price \* n is not known") as told:
        left(AddColumn(total="price * n"))
    assert told.value.code == "column_type_unknown"
    assert "CAST(price * n AS …)" in told.value.hint


def test_each_table_that_is_meant_has_the_inputs() -> None:
    with pytest.raises(TransformError, match=r"shop\.log has no column 'email'"):
        left(AddColumn(a="upper(email)"), tables=(ORDERS, LOG))
    left(AddColumn(a="upper(email)", tables=("shop.orders",)), tables=(ORDERS, LOG))
    for spec in (Cast(email="binary"), Truncate("email", 3), Extract("doc", path="$.a", into="a")):
        assert len(left(spec, tables=(ORDERS, LOG)).edited) == 1
    with pytest.raises(TransformError, match=r"shop\.log has no column"):
        left(Truncate("email", 3, tables=("shop.*",)), tables=(ORDERS, LOG))
    asked = asked_by(AddColumn(a="upper(email) = _table", b="n + _ts_ms + n"))
    assert asked is not None
    assert asked.columns.names == ("email", "n")


@pytest.mark.parametrize(
    ("kind", "spark_type"),
    [
        ("int", "int"),
        ("decimal(65,30)", "string"),
        ("json", "string"),
        ("time(3)", "string"),
        ("enum('text','b')", "string"),
        ("set('text')", "string"),
        ("geometry", "binary"),
        ("uuid", "string"),
    ],
)
def test_what_is_no_text_is_not_cut(kind: str, spark_type: str) -> None:
    columns = (ColumnSchema("id", "int", "int"), ColumnSchema("c", kind, spark_type))
    with pytest.raises(TransformError, match="cannot be cut") as told:
        left(Truncate("c", 3), tables=(TableSchema(0, "shop", "t", columns),))
    assert told.value.code == "column_not_text"
    assert field(left(Cast(n="string"), Truncate("n", 3)), "n").column.type == "text"


def test_text_and_bytes_of_any_size_are_cut() -> None:
    kinds = ["char(3)", "varchar(9)", "tinytext", "text", "MEDIUMTEXT", "longtext", "binary(3)", "varbinary(9)", "blob"]
    columns = {f"c{number}": kind for number, kind in enumerate(kinds)}
    changes = left(Truncate(dict.fromkeys(columns, 2)), tables=(table("shop.t", {"id": "int", **columns}),))
    assert [f.column.type for f in changes.fields[0]][1:] == kinds
    left(Cast(n="string"), Truncate("n", 2), AddColumn(b="CAST(email AS binary)"), Truncate("b", 2))


@pytest.mark.parametrize(
    ("make", "said", "hint"),
    [
        (lambda: AddColumn("x", "a + 1"), "'x', 'a + 1': columns are named", 'AddColumn(total="price'),  # type: ignore[arg-type]
        (lambda: Cast("n", "double"), "'n', 'double': columns are named", 'Cast({"amount": "double"})'),  # type: ignore[arg-type]
        (lambda: Truncate("email"), "no length is given for 'email'", 'Truncate("comment", 100)'),
    ],
)
def test_arguments_in_another_form_are_refused_by_name(make: Any, said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as told:
        make()
    assert said in told.value.message
    assert "test_computed.py:" in told.value.message
    assert hint in told.value.hint


def test_a_column_that_is_kept_shows_what_a_mask_behind_hides() -> None:
    hidden = Hidden()
    changes: Any = FrameChanges(None, (ORDERS,), {0: fields_of(ORDERS)}, hidden=hidden)
    for spec in (Project("id", "email"), AddColumn(plain="upper(email)"), Mask("email")):
        changes = spec.columns_after(changes)
    assert [found[1:] for found in computed_in_clear(changes, hidden)] == [("column plain", "email")]


def test_a_key_column_is_not_cut() -> None:
    keyed = table("shop.k", {"code": "varchar(9)"}, ("code",))
    with pytest.raises(TransformError, match="primary key"):
        left(Truncate("code", 3), tables=(keyed,))


def test_a_filter_says_from_which_columns_it_judges() -> None:
    changes = left(AddColumn(a="concat(email, upper(email), CAST(n AS string))"))
    assert Filter("a = 'x' AND id > 1").judges(changes, ORDERS) == ("email", "n", "id")


@pytest.mark.parametrize(
    ("specs", "shown"),
    [
        ((Mask("email"), AddColumn(a="upper(email)")), []),
        ((AddColumn(a="upper(email)"), Mask("a"), DropColumns("email")), []),
        # The order that the flow gives them: the added column has the plain value.
        ((AddColumn(a="upper(email)"), Mask("email")), []),
        ((AddColumn(a="upper(email)"),), ["email"]),
        ((Truncate("email", 3),), ["email"]),
        ((Mask("email"), Truncate("email", 3)), []),
        ((Truncate("email", 3), Mask("email")), []),
        ((AddColumn(a="upper(email)"), AddColumn(b="lower(a)"), Mask("a")), ["email"]),
        ((Mask("email"), Cast(email="binary"), AddColumn(b="hex(email)")), []),
    ],
)
def test_what_was_hidden_once_is_not_shown_in_an_added_column(
    specs: tuple[TransformSpec, ...], shown: list[str]
) -> None:
    found = in_clear(left(*specs), RememberedHidden({"shop.orders": {"email"}}))
    assert sorted({name for _, name, _ in found}) == shown
    assert {source for _, _, source in found} <= {"email"}


def test_an_added_column_that_was_hidden_once_is_told_by_a_column_of_its_table() -> None:
    found = in_clear(left(AddColumn(a="upper(email)")), RememberedHidden({"shop.orders": {"a"}}))
    assert [(name, source) for _, name, source in found] == [("a", "email")]
    assert in_clear(left(AddColumn(a="1")), RememberedHidden({"shop.orders": {"a"}})) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(x AS INTEGER)", "int"),
        ("(x :: decimal(9, 3))", "decimal(9,3)"),
        ("small + 1", "int"),
        ("small + big", "bigint"),
        ("price + 1", ""),
        ("big / 2", "double"),
        ("some_function(x)", ""),
        ("CASE WHEN x = 'a' THEN 'b' END", "string"),
        ("CASE WHEN x = 'a' THEN 'b' ELSE 1 END", ""),
        ("coalesce(x, NULL)", "string"),
        ("x LIKE 'a%' AND NOT small IN (1, 2)", "boolean"),
        ("left(bytes, 2)", ""),
        ("3000000000", "bigint"),
        ("1.5", ""),
    ],
)
def test_the_type_of_an_expression_follows_from_its_text(text: str, expected: str) -> None:
    types = {"x": "string", "small": "smallint", "big": "bigint", "price": "decimal(10,2)", "bytes": "binary"}
    assert expression_type(text, lambda name: types[name]) == expected


@pytest.mark.parametrize(
    ("kind", "keys", "refused"),
    [
        ("tinyint(1)", [True, False], "'true', 'false'"),
        ("int", ["7", "07", "-0", "+1", "٣", " 8", "1_0", "7.0"], "'07', '-0', '+1', '٣', ' 8', …"),
        ("tinyint", [127, 128], "'128'"),
        ("date", ["2024-01-31", "2024-W01-1", "2024-02-30", 20240131], "'2024-W01-1', '2024-02-30', '20240131'"),
    ],
)
def test_keys_that_no_value_equals_are_refused(kind: str, keys: list[Any], refused: str) -> None:
    shop = (table("shop.t", {"id": "int", "c": kind}),)
    with pytest.raises(TransformError, match=re.escape(f"no value of it is {refused}")) as told:
        left(Lookup("c", dict.fromkeys(keys, "x"), into="y"), tables=shop)
    assert told.value.code == "lookup_key"
    left(Lookup("c", {keys[0] if kind != "tinyint(1)" else 1: "x"}, into="y"), tables=shop)


def test_a_csv_text_may_begin_with_a_byte_order_mark() -> None:
    found = Lookup.of_csv("n", "\ufeffk,v\n1,2\n", key="k", value="v", into="x")
    assert found == Lookup("n", {1: "2"}, into="x")
