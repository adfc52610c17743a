"""What a flow makes of the columns of its tables, judged against what its envelope and its transforms promise."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from databus import (
    AddColumn,
    DropColumns,
    Elasticsearch,
    Filter,
    Flow,
    Hash,
    HashPartition,
    Kafka,
    Mask,
    MysqlBinlog,
    NotNull,
    Project,
    RangePartition,
    RenameColumns,
    Route,
    Truncate,
)
from databus.checks.decodable import Decodable
from databus.core.flow_specs import TransformSpec
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import SourcePlan
from databus.core.tables.column_lineage import ColumnStep, FieldLineage, TableLineage
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.runtime.tables.column_lineage import ColumnLineage

ORDERS = TableSchema(
    0,
    "shop",
    "orders",
    tuple(
        ColumnSchema(name, kind, spark)
        for name, kind, spark in (
            ("order_id", "bigint", "bigint"),
            ("amt", "decimal(12,2)", "decimal(12,2)"),
            ("email", "varchar(80)", "string"),
            ("card_number", "varchar(20)", "string"),
            ("status", "varchar(9)", "string"),
        )
    ),
    ("order_id",),
)
ITEMS = TableSchema(
    1,
    "shop",
    "items",
    (ColumnSchema("order_id", "bigint", "bigint"), ColumnSchema("line", "int", "int")),
    ("order_id", "line"),
)
KAFKA = Kafka(conn_id="east", topic="cdc.{table}", envelope="row")


class Scripted(TransformSpec):
    """Another package's: it may do anything to a row."""

    kind: ClassVar[str] = "scripted"


class Broken(Scripted):
    """It fails with an error that is none of ours."""

    kind: ClassVar[str] = "broken"

    def columns_after(self, _changes: Any) -> Any:
        raise KeyError("amt")

    def apply(self, changes: Any) -> Any:
        raise AssertionError("no rows are touched for lineage")


def lineage(*transforms: TransformSpec, tables: tuple[TableSchema, ...] = (ORDERS,), **fields: Any) -> Any:
    values: dict[str, Any] = {"source": MysqlBinlog(conn_id="shop", tables=("shop.*",)), "sinks": (KAFKA,), **fields}
    flow = Flow(name="f", transforms=transforms, **values)
    moved = OffsetRange(SequenceOffset(0), SequenceOffset(1))
    return ColumnLineage().of(flow, SourcePlan(moved, tables, 1, 1))


def fields(found: TableLineage) -> dict[str, tuple[str, tuple[ColumnStep, ...]]]:
    return {f.field: (f.column, f.steps) for f in found.fields}


def test_columns_are_followed_through_transforms_in_their_order() -> None:
    (found,) = lineage(
        RenameColumns({"amt": "amount", "email": "mail"}),
        Mask("MAIL", keep_last=4),
        Hash("mail"),
        DropColumns("card_number"),
        Filter("amount > 10 AND before.status <> 'new' AND _op <> 'd'"),
        RenameColumns({"amount": "total"}),
    )
    assert (found.table, found.sink, found.output, found.unknown) == ("shop.orders", "kafka", "cdc.orders", "")
    assert fields(found) == {
        "key.order_id": ("order_id", ()),
        "order_id": ("order_id", ()),
        "total": ("amt", ()),
        "mail": ("email", (ColumnStep("mask MAIL", masking=True), ColumnStep("hash mail", masking=True))),
        "status": ("status", ()),
    }
    label = "filter amount > 10 AND before.status <> 'new' AND _op <> 'd'"
    assert found.filters == (
        FieldLineage("", "amt", (ColumnStep(label),)),
        FieldLineage("", "status", (ColumnStep(label),)),
    )


def test_an_added_column_comes_from_the_columns_of_its_expression_with_their_steps() -> None:
    add, again = AddColumn(contact="concat(email, status)", one="1"), AddColumn(both="contact || CAST(amt AS string)")
    cut = Truncate("status", 3)
    (found,) = lineage(Mask("email"), add, cut, again, RenameColumns({"contact": "c"}), DropColumns("email", "amt"))
    told = [(f.field, f.column, [step.label for step in f.steps]) for f in found.fields]
    assert told[2:] == [
        ("card_number", "card_number", []),
        ("status", "status", [cut.label()]),
        ("c", "email", ["mask email", add.label()]),
        ("c", "status", [add.label()]),
        ("both", "email", ["mask email", add.label(), again.label()]),
        ("both", "status", [add.label(), again.label()]),
        ("both", "amt", [again.label()]),
    ]
    checks = (NotNull("contact"),)
    (found,) = lineage(AddColumn(contact="concat(email, status)"), checks=checks)
    assert [f.column for f in found.filters] == ["email", "status"]


def test_an_envelope_and_a_document_name_the_fields() -> None:
    sinks = (Kafka(conn_id="east"), Elasticsearch(conn_id="s", index="All-{table}", ids="table_key"))
    kafka, search = lineage(Project("line"), tables=(ITEMS,), sinks=sinks)
    assert kafka.output == "cdc.shop.items"
    assert fields(kafka) == {
        "key.order_id": ("order_id", ()),
        "key.line": ("line", ()),
        "before.line": ("line", ()),
        "after.line": ("line", ()),
    }
    assert search.output == "all-items"
    made = (ColumnStep("document id"),)
    assert search.fields == (
        FieldLineage("_id", "order_id", made),
        FieldLineage("_id", "line", made),
        FieldLineage("line", "line"),
    )


def test_each_sink_is_told_of_the_tables_that_it_takes() -> None:
    sinks = (
        Kafka(conn_id="east", name="a", routes=("orders",), topic="{route}"),
        Kafka(conn_id="east", name="b", routes=("rest",), topic="all"),
    )
    found = lineage(Route({"shop.orders": "orders"}, default="rest"), tables=(ORDERS, ITEMS), sinks=sinks)
    assert [(f.table, f.sink, f.output) for f in found] == [
        ("shop.orders", "a", "orders"),
        ("shop.items", "b", "all"),
    ]


def test_what_leaves_rows_out_at_the_source_and_in_quality_is_told() -> None:
    source = MysqlBinlog(
        conn_id="shop",
        tables=("shop.*",),
        row_filters=(
            RangePartition(tables="shop.orders", column="amt", lower=1),
            HashPartition(tables="shop.items", partitions=2, keep=(0,)),
        ),
    )
    checks = (NotNull("mail", tables=("shop.orders",)), NotNull("status", severity="warn"))
    orders, items = lineage(RenameColumns({"email": "mail"}), tables=(ORDERS, ITEMS), source=source, checks=checks)
    assert orders.filters == (
        FieldLineage("", "amt", (ColumnStep("RangePartition"),)),
        FieldLineage("", "email", (ColumnStep("check not_null(mail)@shop.orders"),)),
    )
    assert [f.column for f in items.filters] == ["order_id", "line"]


@pytest.mark.parametrize("spec", [RenameColumns({"email": "mail"}), DropColumns("email")])
@pytest.mark.parametrize("tables", [("*",), ("shop.orders",)])
def test_what_is_not_decodable_holds_rows_back_by_the_source_s_column(
    spec: TransformSpec, tables: tuple[str, ...]
) -> None:
    check = Decodable("email", tables=tables)
    orders, items = lineage(spec, tables=(ORDERS, ITEMS), checks=(check,))
    assert orders.filters == (FieldLineage("", "email", (ColumnStep(f"check {check.check_name}"),)),)
    assert items.filters == ()


def test_a_transform_that_does_not_tell_makes_it_unknown() -> None:
    (found,) = lineage(Mask("email"), Scripted(), Hash("email"))
    assert (found.fields, found.filters) == ((), ())
    assert found.unknown == "transform 'scripted' does not say which columns its values come from"


def test_a_sink_without_columns_has_none_and_an_error_costs_no_batch(caplog: pytest.LogCaptureFixture) -> None:
    from databus import Memory

    assert lineage(sinks=(Memory(),)) == ()
    assert lineage(Mask("order_id")) == ()  # the transform refuses a key column
    assert lineage(Broken()) == ()
    assert caplog.text.count("no column lineage") == 2


def test_what_failed_is_not_asked_again_for_each_batch(caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow(
        name="shop", source=MysqlBinlog(conn_id="shop", tables=("shop.*",)), transforms=(Broken(),), sinks=(KAFKA,)
    )
    planned, asked = SourcePlan(OffsetRange(SequenceOffset(0), SequenceOffset(1)), (ORDERS,), 1, 1), ColumnLineage()
    assert asked.of(flow, planned) == asked.of(flow, planned) == ()
    assert caplog.text.count("no column lineage") == 1


def test_it_is_kept_as_json() -> None:
    for found in (*lineage(Mask("email"), Filter("amt > 1")), *lineage(Scripted())):
        assert TableLineage.from_json(found.to_json()) == found
