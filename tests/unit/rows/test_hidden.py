"""A column that transforms hide and that a table has no longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from databus import DropColumns, Flow, Hash, Mask, MysqlBinlog, Noop, Project, RenameColumns
from databus.core.errors import TransformError
from databus.core.flow_specs import TransformSpec
from databus.core.hidden_columns import hidden_from_json, hidden_to_json
from databus.core.tables import TableSchema
from databus.ops.flow_wants import asked_by, wants_of
from databus.rows.changes import Changes
from databus.rows.fields import fields_of
from databus.rows.hidden import Hidden
from databus.testing.table_batches import table

OLD = table("shop.orders", {"id": "int", "card_number": "varchar(20)"})
NEW = table("shop.orders", {"id": "int", "card_no": "varchar(20)"}, schema_id=1)
OTHER = table("shop.log", {"id": "int", "text": "text"}, schema_id=2)


def hidden(tables: tuple[TableSchema, ...], *specs: TransformSpec) -> Hidden:
    changes: Any = Changes(None, tables, {t.schema_id: fields_of(t) for t in tables}, hidden=Hidden())
    for spec in specs:
        changes = spec.columns_after(changes)
    return changes.hidden


def require(tables: tuple[TableSchema, ...], *specs: TransformSpec, before: Mapping[str, Any] | None = None) -> None:
    hidden(tables, *specs).require(tables, before or {})


SPECS = [DropColumns("card_number"), Mask("Card_Number"), Hash("card_number"), Project("card_number")]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_a_column_that_was_renamed_within_a_batch_is_named(spec: TransformSpec) -> None:
    with pytest.raises(TransformError, match=r"shop\.orders has no column \w+ any more") as told:
        require((OLD, NEW, OTHER), spec)
    assert told.value.code == "hidden_column_gone"
    assert "Columns of shop.orders now: id, card_no." in told.value.hint


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_a_column_that_an_earlier_batch_had_is_named(spec: TransformSpec) -> None:
    before = hidden((OLD, OTHER), spec).by_table((OLD, OTHER))
    assert before == {"shop.orders": {"card_number"}}
    with pytest.raises(TransformError, match="any more"):
        require((NEW,), spec, before=before)
    require((OLD, OTHER), spec, before=before)


def test_a_column_that_some_tables_never_had_or_that_comes_is_none(caplog: pytest.LogCaptureFixture) -> None:
    comes = table("shop.orders", {"id": "int"}, schema_id=0)
    grown = table("shop.orders", {"id": "int", "card_number": "text"}, schema_id=1)
    require((comes, grown, OTHER), DropColumns("card_number"))
    require((OTHER,), DropColumns("card_number"), before={"shop.orders": {"card_number"}})


def test_former_names_are_hidden_where_they_are_and_not_missed() -> None:
    renamed = DropColumns("card_no", former=("card_number",))
    require((OLD, NEW, OTHER), renamed, before={"shop.orders": {"card_number"}})
    assert hidden((OLD, NEW), renamed).by_table((OLD, NEW)) == {"shop.orders": {"card_number", "card_no"}}
    meant = DropColumns("id_", "card_number", former=("card_number", "id_"), tables=("shop.orders",))
    require((OLD, NEW), meant, before={"shop.orders": {"card_number"}})
    left: Any = renamed.columns_after(Changes(None, (OLD, NEW), {0: fields_of(OLD), 1: fields_of(NEW)}))
    assert [[c.name for c in t.columns] for t in left.tables] == [["id"], ["id"]]


def test_names_are_those_that_the_transforms_before_leave_and_one_that_hides_is_enough() -> None:
    renamed = RenameColumns({"card_number": "card"}), Mask("card")
    with pytest.raises(TransformError, match="mask card"):
        require((OLD, NEW), *renamed)
    require((OLD,), DropColumns("card_number"), Mask("card_number"), before={"shop.orders": {"card_number"}})
    kept = table("shop.orders", {"id": "int", "v": "int"}, schema_id=1)
    require((OLD, kept), Project("id", "card_number"))  # what it does not keep is not delivered


def test_former_is_no_part_of_an_earlier_definition() -> None:
    plain, renamed = DropColumns("card_number"), DropColumns("card_no", former=("card_number",))
    assert "former" not in plain.to_json()
    assert renamed.to_json()["former"] == ["card_number"]
    asked = asked_by(renamed)
    assert asked is not None
    assert asked.columns.names == ("card_no",)
    flows = [
        Flow(name="f", source=MysqlBinlog(conn_id="c", tables=("shop.*",)), transforms=(spec,), sinks=(Noop(),))
        for spec in (DropColumns("card_no"), renamed)
    ]
    assert wants_of(flows[0]) == wants_of(flows[1])


def test_what_is_remembered_comes_back() -> None:
    stored = hidden_to_json({"shop.b": {"y", "x"}, "shop.a": {"z"}})
    assert stored == {"v": 1, "tables": {"shop.a": ["z"], "shop.b": ["x", "y"]}}
    assert hidden_from_json(stored) == {"shop.a": {"z"}, "shop.b": {"x", "y"}}
