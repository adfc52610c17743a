"""The columns that sinks get, as the transforms leave them."""

from __future__ import annotations

from typing import Any

from databus import DropColumns, Filter, Flow, Mask, Memory, Mock, RenameColumns, Route
from databus.core.flow_specs import TransformSpec
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.runtime.tables.column_lineage import written_tables

KINDS = {"id": "int", "card": "bigint", "note": "text", "gone": "date"}
TABLE = TableSchema(0, "shop", "t", tuple(ColumnSchema(name, kind, "string") for name, kind in KINDS.items()), ("id",))


class Opaque(TransformSpec):
    """A user's transform that does not tell."""

    kind = "opaque"

    def apply(self, changes: Any) -> Any:
        return changes


def columns(*transforms: TransformSpec) -> dict[str, str]:
    flow = Flow(name="f", source=Mock(rows=1), transforms=transforms, sinks=(Memory(),))
    (table,) = written_tables(flow, (TABLE,))
    assert (table.full_name, table.primary_key) == ("shop.t", ("id",))
    return {column.name: column.type for column in table.columns}


def test_columns_as_transforms_leave_them() -> None:
    assert columns() == KINDS
    changed = (Filter("id > 0"), Mask("card"), RenameColumns({"id": "number"}), DropColumns("gone"), Route({"*": "x"}))
    assert columns(*changed) == {"number": "int", "card": "text", "note": "text"}


def test_a_transform_that_does_not_tell_leaves_no_columns() -> None:
    assert columns(Opaque()) == {}
