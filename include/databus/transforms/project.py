"""Project: keep only the named columns in both images."""

from __future__ import annotations

from typing import ClassVar

from databus.rows.frames.changes import FrameChanges
from databus.transforms.table_transform import ColumnsTransform


class Project(ColumnsTransform):
    """Keep only the named columns: `Project("order_id", "amount", tables=("shop.orders",))`.

    The record's key is not touched: it stays the source's primary key, also where key columns are not kept in the
    images.

    Attributes:
        columns: names, e.g. "order_id"; case does not matter where that is unambiguous. A table that has none of them
            passes unchanged.
    """

    kind: ClassVar[str] = "project"
    by_table: ClassVar[bool] = True
    keeps: ClassVar[bool] = True

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Keep the columns.

        Raises:
            TransformError: a table meant by name lacks a column.
        """
        for schema, names in self._tables_with_columns(changes):
            changes = changes.with_columns_kept(schema, names)
        return changes

    def _hidden_else(self, found: list[str], missed: list[str]) -> list[str]:
        """Return the columns that are kept where a table has none of them: then it passes whole."""
        return [] if found else missed
