"""Mask: replace values by a constant, or all but their last characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from databus.core.errors.batch import TransformError
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import sql_string
from databus.rows.frames.selection import refuse_key_columns
from databus.transforms.table_transform import ColumnsTransform

if TYPE_CHECKING:
    from databus.core import protocols


class Mask(ColumnsTransform):
    """Replace values by text in `before` and `after`: `Mask("card_number", keep_last=4)`.

    NULL stays NULL. Values no longer than `keep_last` are masked whole. Columns of the primary key are refused:
    their values stand in every record's key.

    Attributes:
        columns: names, e.g. "card_number"; case does not matter where that is unambiguous.
        former: names that columns had earlier, as `database.table.column`: hidden as well where that table has them,
            and not missed where it has not. E.g. ("shop.orders.card",); default none.
        value: text in place of the hidden part, e.g. "xxx"; default "***".
        keep_last: number of characters at the end that stay readable, e.g. 4; default 0. Numbers and temporals count as
            their text.
    """

    kind: ClassVar[str] = "mask"
    masking: ClassVar[bool] = True

    value: str = "***"
    keep_last: int = Field(0, ge=0)

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Mask the columns.

        Raises:
            TransformError: a table meant by name lacks a column, a column is part of the key, or the end of a binary
            column is to stay.
        """
        for schema, names in self._tables_with_columns(changes):
            refuse_key_columns(schema, names, self.label())
            binary = [
                name for name in names if changes.require(name, schema, self.label()).column.spark_type == "binary"
            ]
            if binary and self.keep_last:
                raise TransformError(
                    f"{self.label()}: {', '.join(binary)} of {schema.full_name} is binary and has no last characters",
                    hint="Mask it whole (keep_last=0) or use Hash.",
                )
            changes = changes.with_columns_replaced(schema, names, self._masked)
        return changes

    def compilable(self) -> bool:
        """Return true, since it replaces values by SQL of their text; but of a subclass, which may do more."""
        return type(self) is Mask

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: each value comes from the one it replaces."""
        return self.apply(changes)

    def _masked(self, text: str) -> str:
        shown = sql_string(self.value)
        if not self.keep_last:
            return shown
        end = f"CASE WHEN length({text}) > {self.keep_last} THEN right({text}, {self.keep_last}) ELSE '' END"
        return f"concat({shown}, {end})"
