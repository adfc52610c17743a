"""Cast: give columns other types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import spark_type_named
from databus.rows.frames.computing import computed, image_expression, quoted, with_computed
from databus.rows.frames.held import with_failures_held
from databus.rows.frames.selection import EVERY_TABLE, columns_of
from databus.transforms.table_transform import TableTransform, by_column, given_by_column

if TYPE_CHECKING:
    from databus.core import protocols


class Cast(TableTransform):
    """Give columns other types, in `before` and `after`: `Cast(amount="decimal(12,2)", code="string")`.

    Values are cast as Spark SQL's `try_cast` does. NULL stays NULL, absent stays absent; temporals are ISO text with
    six digits of a second. The record's key is not touched: it keeps the source's form.

    Attributes:
        columns: column → Spark type, as arguments or as one mapping, e.g. Cast(amount="double"). Types are tinyint,
            smallint, int, bigint, float, double, decimal(p,s), boolean, string, binary, date, timestamp (an instant)
            and timestamp_ntz. For all tables ("*") those without the column pass unchanged.
        on_failure: "hold" (default): a row with a value that the type cannot hold, as 'abc' for an int or a zero date,
            is held back as "cast(column)"; "null": the value becomes NULL. A row with a value that is flagged as
            undecodable, claimed or partial is held back in either case.
    """

    kind: ClassVar[str] = "cast"

    columns: dict[str, str] = Field(min_length=1)
    on_failure: Literal["hold", "null"] = "hold"

    def __init__(self, *columns: dict[str, str], **options: Any):
        options = given_by_column(type(self).__name__, columns, options, 'amount="double"')
        super().__init__(**by_column(options, type(self).option_names()))

    @field_validator("columns")
    @classmethod
    def _are_types(cls, value: dict[str, str]) -> dict[str, str]:
        return {name: spark_type_named(text) for name, text in value.items()}

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Cast the columns.

        Raises:
            TransformError: a table meant by name lacks a column.
        """
        by_case = {name.casefold(): spark_type for name, spark_type in self.columns.items()}
        failing: dict[int, list[tuple[str, str]]] = {}
        before = changes
        for schema, names in columns_of(changes, self.tables, tuple(self.columns), self.label()):
            for name in names:
                spark_type = self.columns.get(name) or by_case[name.casefold()]
                changes = self._cast(changes, changes.schema(schema.schema_id), name, spark_type)
            failing[schema.schema_id] = [(name, name) for name in names]
        return with_failures_held(before, changes, self.kind, failing) if self.on_failure == "hold" else changes

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is Cast

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: each value comes from the one it replaces."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the columns: a table meant by name or pattern must have them all."""
        return ColumnsWanted(tuple(self.columns), self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return columns and types."""
        return "cast " + ", ".join(f"{name} to {spark_type}" for name, spark_type in self.columns.items())

    def _flags_taken(self) -> tuple[str, ...]:
        """Return that of dates which no calendar has, where what fails is to be NULL."""
        from databus.rows.flags import INVALID_DATE  # loads what decodes

        return (INVALID_DATE,) if self.on_failure == "null" else ()

    def _cast(self, changes: FrameChanges, schema: TableSchema, name: str, spark_type: str) -> FrameChanges:
        cast = image_expression(f"try_cast({quoted(name)} AS {spark_type})")
        return with_computed(changes, schema, name, computed(changes, schema, cast, self.label(), spark_type))
