"""What transforms share: the tables they apply to."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from databus.core.errors.batch import TransformError
from databus.core.flow_specs import TransformSpec
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.selection import EVERY_TABLE

if TYPE_CHECKING:
    from databus.core import protocols


class TableTransform(TransformSpec):
    """Base of the transforms that see the typed view of each table.

    Attributes:
        tables: fnmatch patterns of `database.table` it applies to, e.g. ("shop.orders",); default all.
            Rows of other tables pass unchanged.
    """

    tables: tuple[str, ...] = EVERY_TABLE

    def apply(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changed rows.

        Raises:
            TransformError: the rows of this batch cannot be changed as told.
        """
        if not isinstance(changes, FrameChanges):
            raise TransformError(f"{self.kind} needs the typed view of rows, got {type(changes).__name__}")
        return self.transform(changes)

    def wants(self) -> ColumnsWanted:
        """Return the tables that are meant, and no column."""
        return ColumnsWanted((), self.tables)

    @abstractmethod
    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Return the changed rows; lazy, row by row, deterministic."""
