"""DropColumns: leave columns out of both images."""

from __future__ import annotations

from typing import ClassVar

from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.selection import refuse_key_columns
from databus.transforms.table_transform import ColumnsTransform


class DropColumns(ColumnsTransform):
    """Leave columns out of `before` and `after`: `DropColumns("card_number", "cvc")`.

    Columns of the primary key are refused: their values stand in every record's key.

    Attributes:
        columns: names, e.g. "card_number"; case does not matter where that is unambiguous.
        former: names that columns had earlier, as `database.table.column`: hidden as well where that table has them,
            and not missed where it has not. E.g. ("shop.orders.card",); default none.
    """

    kind: ClassVar[str] = "drop"
    by_table: ClassVar[bool] = True

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Drop the columns.

        Raises:
            TransformError: a table meant by name lacks a column, a column is part of the key, or none would be left.
        """
        for schema, names in self._tables_with_columns(changes):
            refuse_key_columns(schema, names, self.label())
            changes = changes.with_columns_dropped(schema, names)
        return changes
