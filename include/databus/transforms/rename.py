"""RenameColumns: give columns other names in both images."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.selection import EVERY_TABLE, columns_of
from databus.transforms.table_transform import TableTransform


class RenameColumns(TableTransform):
    """Rename columns in `before` and `after`: `RenameColumns({"amt": "amount"})`.

    The record's key is not touched: it keeps the source's names and values.

    Attributes:
        mapping: present name → new name, e.g. {"amt": "amount"}.
    """

    kind: ClassVar[str] = "rename"
    by_table: ClassVar[bool] = True

    mapping: dict[str, str] = Field(min_length=1)

    def __init__(self, mapping: dict[str, str] | None = None, /, **options: Any):
        if mapping is not None:
            options["mapping"] = mapping
        super().__init__(**options)

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Rename the columns.

        Raises:
            TransformError: a table meant by name lacks a column, or two columns would have one name.
        """
        if changes.hidden is not None:
            changes.hidden.renames(self.tables, self.mapping)
        by_case = {name.casefold(): new for name, new in self.mapping.items()}
        for schema, names in columns_of(changes, self.tables, tuple(self.mapping), self.label()):
            new = {name: self.mapping.get(name) or by_case[name.casefold()] for name in names}
            changes = changes.with_columns_renamed(schema, new)
        return changes

    def wants(self) -> ColumnsWanted:
        """Return the columns under their present names: a table meant by name or pattern must have them all."""
        return ColumnsWanted(tuple(self.mapping), self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return the renamings."""
        return "rename " + ", ".join(f"{old} to {new}" for old, new in self.mapping.items())
