"""What transforms of named columns share."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from databus.core.wanted import ColumnsWanted
from databus.rows.selection import EVERY_TABLE
from databus.transforms.table_transform import TableTransform


class ColumnsTransform(TableTransform):
    """A transform that is written with its columns first: `Hash("email", "phone", tables=("shop.orders",))`.

    Attributes:
        columns: names; case does not matter where that is unambiguous.
    """

    columns: tuple[str, ...] = Field(min_length=1)

    def __init__(self, *columns: str, **options: Any):
        if columns:
            options["columns"] = columns
        super().__init__(**options)

    def wants(self) -> ColumnsWanted:
        """Return the columns: a table that is meant by name or pattern must have them all."""
        return ColumnsWanted(self.columns, self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return kind and columns."""
        return f"{self.kind} {', '.join(self.columns)}"
