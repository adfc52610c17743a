"""What transforms of named columns share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from databus.core.tables import TableSchema
from databus.core.wanted import ColumnsWanted
from databus.rows.changes import Changes
from databus.rows.selection import EVERY_TABLE, columns_of, selected
from databus.transforms.table_transform import TableTransform


class ColumnsTransform(TableTransform):
    """A transform that is written with its columns first: `Hash("email", "phone", tables=("shop.orders",))`.

    Attributes:
        columns: names; case does not matter where that is unambiguous.
        former: names that columns had, or that were dropped: taken like the others where a table has them, and not
            missed where it has not.
    """

    columns: tuple[str, ...] = Field(min_length=1)
    former: tuple[str, ...] = ()

    def __init__(self, *columns: str, **options: Any):
        if columns:
            options["columns"] = columns
        super().__init__(**options)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON; without `former` where it says nothing, so that earlier hashes stay."""
        return {name: value for name, value in super().to_json().items() if name != "former" or value}

    def wants(self) -> ColumnsWanted:
        """Return the columns: a table that is meant by name or pattern must have them all."""
        names = tuple(name for name in self.columns if name not in self.former)
        return ColumnsWanted(names, self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return kind and columns."""
        return f"{self.kind} {', '.join(self.columns)}"

    def _tables_with_columns(self, changes: Changes) -> Iterator[tuple[TableSchema, list[str]]]:
        """Yield each table that is meant with those of the columns that it has, under their present names.

        Raises:
            TransformError: a table that is meant by name or pattern lacks a column.
        """
        if changes.hidden is not None:
            for schema in selected(changes, self.tables):
                found = [n for n in (*self.columns, *self.former) if changes.field(n, schema) is not None]
                missed = [n for n in self.wants().names if n not in found]
                changes.hidden.note(schema, self.label(), found=found, missed=self._hidden_else(found, missed))
        yield from columns_of(changes, self.tables, self.columns, self.label(), self.former)

    def _hidden_else(self, found: list[str], missed: list[str]) -> list[str]:  # noqa: ARG002 - one kind hides the rest
        """Return which of the columns that a table lacks would be hidden if they were there."""
        return missed
