"""Row checks' base: the column, the tables, and which rows are looked at."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import FiniteFloat

from databus.core.errors.config import ConfigError
from databus.core.flow_specs import CheckSpec
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field, sql_string
from databus.rows.frames.selection import EVERY_TABLE, matches

if TYPE_CHECKING:
    from databus.core import protocols
    from databus.rows.violations import ColumnValues, Mask


Plain = str | int | FiniteFloat
"""Option values of a check: JSON's scalars. Decimals and temporals of full precision are given as text."""

_EXACT_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


def literal(value: Plain, spark_type: str) -> str:
    """Return SQL of `value` as the column's type; next to exact numbers it stays as written: 100.5 bounds an int."""
    if not isinstance(value, str) and spark_type.startswith(_EXACT_NUMBERS):
        return f"({value!r})"
    return f"CAST({sql_string(str(value))} AS {spark_type})"


def has_value(field: Field) -> str:
    """Return SQL that is true where the after-image holds the column and it is not NULL."""
    raw = field.raw("after")
    return f"({raw} IS NOT NULL AND NOT is_variant_null({raw}))"


def is_text(field: Field) -> str:
    """Return SQL that is false where a text column holds what is no text: bytes that its character set cannot decode.

    Spark reads such bytes as a string when it is asked for one.
    """
    if field.column.spark_type != "string" or field.rewrites:
        return "true"
    return f"schema_of_variant({field.raw('after')}) <> 'BINARY'"


class RowCheck(CheckSpec):
    """Base of the checks that look at one column of each row.

    Looked at are the after-images of creates, updates and snapshot reads that no transform has filtered; a column
    that the image does not hold (row image MINIMAL or NOBLOB) has no value to judge and does not violate.

    Attributes:
        column: name after all transforms, e.g. "customer_id"; case does not matter where that is unambiguous.
        tables: fnmatch patterns of `database.table`, e.g. ("shop.orders",); default all. A table meant by them must
            have the column; for "*" tables without it are passed over.
        ops: operations of the rows that are looked at, of a delete the before-image, e.g. ("c", "u", "d"); default
            creates, updates and snapshot reads.
    """

    ops: ClassVar[tuple[str, ...]] = ("c", "u", "r")

    column: str
    tables: tuple[str, ...] = EVERY_TABLE

    def __init__(self, column: str | None = None, /, **options: Any):
        if column is not None:
            options["column"] = column
        super().__init__(**options)

    @property
    def check_name(self) -> str:
        """Name with column and arguments, and the tables where they are given: "not_null(order_id)@shop.*"."""
        arguments = ", ".join([self.column, *self.arguments()])
        return f"{self.kind}({arguments}){table_suffix(self.tables)}"

    def arguments(self) -> tuple[str, ...]:
        """Return what stands after the column in the check's name."""
        return ()

    def applies_to(self, table: str) -> bool:
        """Return whether rows of `database.table` are looked at."""
        return matches(table, self.tables)

    def wants(self) -> ColumnsWanted:
        """Return the column: a table that is meant by name or pattern must have it."""
        return ColumnsWanted((self.column,), self.tables, in_every=self.tables != EVERY_TABLE)

    def violation(self, changes: protocols.Changes) -> Any:
        """Return a boolean Column, never NULL, true where a row violates.

        Raises:
            ConfigError: a table meant by name does not have the column.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        if not isinstance(changes, FrameChanges):
            raise ConfigError(f"{self.check_name} needs the typed view of rows, got {type(changes).__name__}")

        def violated(schema: TableSchema) -> Any | None:
            if not self.applies_to(schema.full_name):
                return None
            field = self._field(changes, schema)
            return None if field is None else F.coalesce(F.expr(self.violated_when(field)), F.lit(False))

        looked_at = F.col("op").isin(*self.ops) & ~F.col("filtered")
        return F.coalesce(looked_at, F.lit(False)) & changes.per_table(violated, otherwise=False)

    def source_column(self, changes: FrameChanges, schema: TableSchema) -> str | None:
        """Return the source's name of the column that is looked at in a table, None where none is.

        Raises:
            ConfigError: a table meant by name does not have the column.
        """
        field = self.field(changes, schema)
        return None if field is None else field.source

    def field(self, changes: FrameChanges, schema: TableSchema) -> Field | None:
        """Return the column that is looked at in a table as the transforms leave it, None where none is.

        Raises:
            ConfigError: a table meant by name does not have the column.
        """
        return self._field(changes, schema) if self.applies_to(schema.full_name) else None

    def reads(self, column: ColumnSchema) -> bool:  # noqa: ARG002 - a check without options reads all types
        """Return whether `violated_by` can judge a column of this type."""
        return True

    @abstractmethod
    def violated_by(self, values: ColumnValues) -> Mask:
        """Return bool[images], true where a value of a decoded batch violates: the same as `violated_when`."""

    @abstractmethod
    def violated_when(self, field: Field) -> str:
        """Return Spark SQL over the after-image that is true where the value violates; NULL counts as false."""

    def label(self) -> str:
        """Return the check's name."""
        return self.check_name

    def source_columns(self, changes: FrameChanges, schema: TableSchema) -> tuple[str, ...]:
        """Return the source's names of the columns from which the value that is looked at in a table comes.

        Raises:
            ConfigError: a table meant by name does not have the column.
        """
        field = self._field(changes, schema) if self.applies_to(schema.full_name) else None
        return () if field is None else field.leaves()

    def _field(self, changes: FrameChanges, schema: TableSchema) -> Field | None:
        field = changes.field(self.column, schema)
        if field is None and self.tables != EVERY_TABLE:
            known = ", ".join(column.name for column in schema.columns)
            raise ConfigError(
                f"check {self.check_name}: {schema.full_name} has no column {self.column!r} after the transforms",
                hint=f"Its columns are: {known}. Correct the name or narrow `tables`.",
                code="column_unknown",
            )
        return field


def table_suffix(tables: tuple[str, ...]) -> str:
    """Return "@pattern,…" for a check's name, "" for every table."""
    return "" if tables == EVERY_TABLE else "@" + ",".join(tables)
