"""Decodable: a value is of its column's format, and not bytes that were kept because they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from databus.checks.row_check import RowCheck
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field, fields_of, sql_string
from databus.rows.frames.selection import EVERY_TABLE

if TYPE_CHECKING:
    from databus.core import protocols
    from databus.rows.violations import ColumnValues, Mask


REASONS = ("undecodable", "unframed", "schema_unknown")


class Decodable(RowCheck):
    """Absence of values that are flagged as bytes not of their column's format: `Decodable("name")`.

    Attributes:
        column: name at the source, as in flags, e.g. "name"; a transform that renames or drops it changes nothing.
        reason: one flag alone, e.g. "unframed"; default "", for any of undecodable, unframed, schema_unknown.
    """

    kind: ClassVar[str] = "decodable"

    reason: Literal["", "undecodable", "unframed", "schema_unknown"] = ""

    def arguments(self) -> tuple[str, ...]:
        """Return the reason."""
        return (self.reason,) if self.reason else ()

    def violation(self, changes: protocols.Changes) -> Any:
        """Return a boolean Column, never NULL, true where a row is flagged so: flags stay, whatever transforms do."""
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        if not isinstance(changes, FrameChanges):
            raise ConfigError(f"{self.check_name} needs the typed view of rows, got {type(changes).__name__}")
        flagged = F.coalesce(F.expr(self._flagged()), F.lit(False))
        looked_at = F.coalesce(F.col("op").isin(*self.ops) & ~F.col("filtered"), F.lit(False))
        return looked_at & changes.per_table(lambda s: flagged if self.applies_to(s.full_name) else None, False)

    def violated_when(self, field: Field) -> str:  # noqa: ARG002 - flags name the source's columns
        """Flagged so."""
        return self._flagged()

    def _flagged(self) -> str:
        """Return SQL that is true where a row's flags name the column at the source."""
        flags = (sql_string(f"{image}.{self.column}:{reason}") for image, reason in self._flags())
        return f"arrays_overlap(flags, array({', '.join(flags)}))"

    def _flags(self) -> Iterator[tuple[str, str]]:
        """Yield image and reason of the flags that violate."""
        yield from (("after", reason) for reason in self._reasons)

    def violated_by(self, values: ColumnValues) -> Mask:
        """Flagged so."""
        import numpy as np

        mask = np.zeros(len(values.array), np.bool_)
        mask[[row for row, reason in values.reasons.items() if reason in self._reasons]] = True
        return mask & values.present

    def wants(self) -> ColumnsWanted:
        """Return the column under its name at the source."""
        return replace(super().wants(), at_source=True)

    @property
    def _reasons(self) -> tuple[str, ...]:
        return (self.reason,) if self.reason else REASONS

    def _field(self, changes: FrameChanges, schema: TableSchema) -> Field | None:  # noqa: ARG002 - flags name the source's columns
        found = next((field for field in fields_of(schema) if field.source == self.column), None)
        if found is None and self.tables != EVERY_TABLE:
            known = ", ".join(column.name for column in schema.columns)
            raise ConfigError(
                f"check {self.check_name}: {schema.full_name} has no column {self.column!r} at the source",
                hint=f"Its columns are: {known}. Correct the name or narrow `tables`.",
                code="column_unknown",
            )
        return found


def decodable_checks(flow: Flow) -> tuple[Decodable, ...]:
    """Return the checks that a flow's source asks for, without those that the flow has itself."""
    own = {check.check_name for check in flow.checks}
    asked: list[dict[str, Any]] = [
        {"column": column, "reason": reason, "severity": severity}
        for column, reason, severity in flow.source.undecodable()
    ]
    return tuple(check for check in (Decodable(**options) for options in asked) if check.check_name not in own)


class RowFilterLacks(Decodable):
    """No row filter was in want of the column; asked for by each source with row filters, not by users.

    Deletes are looked at too: where a row that is gone stood is what its delete says.
    """

    kind: ClassVar[str] = "row_filter_lacks"
    ops: ClassVar[tuple[str, ...]] = ("c", "u", "r", "d")

    def _flags(self) -> Iterator[tuple[str, str]]:
        yield from (("before", "unjudged"), ("after", "unjudged"))

    def violated_by(self, values: ColumnValues) -> Mask:
        """Flagged so."""
        import numpy as np

        mask = np.zeros(len(values.array), np.bool_)
        mask[list(values.unjudged)] = True
        return mask


def judged_checks(flow: Flow) -> tuple[RowFilterLacks, ...]:
    """Return the checks that the row filters of a flow's source ask for."""
    return tuple(RowFilterLacks(column=column) for column in flow.source.judged_columns())
