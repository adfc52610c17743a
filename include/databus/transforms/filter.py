"""Filter: keep the rows for which a SQL condition is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import field_validator

from databus.core.tables import TableSchema
from databus.rows.changes import Changes
from databus.rows.expression import parse_expression
from databus.rows.selection import matches
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols


class Filter(TableTransform):
    """Keep the rows for which `condition` is true; false or NULL filters a row, which is still counted.

    The condition sees one row: its columns by name with their types (the after-image's value, else the
    before-image's, so deletes too), `before.x` and `after.x` for one image, and `_op`, `_database`, `_table`,
    `_ts_ms`. An update that leaves the condition is filtered as any other row: no delete is made of it. TRUNCATE and
    DDL rows pass.

    Attributes:
        condition: boolean expression in Spark SQL, deterministic, e.g. "amount > 100 AND status <> 'new'".
    """

    kind: ClassVar[str] = "filter"

    condition: str

    def __init__(self, condition: str | None = None, /, **options: Any):
        if condition is not None:
            options["condition"] = condition
        super().__init__(**options)

    @field_validator("condition")
    @classmethod
    def _is_one_deterministic_expression(cls, value: str) -> str:
        parse_expression(value)
        return value

    def transform(self, changes: Changes) -> Changes:
        """Mark the other rows as filtered.

        Raises:
            TransformError: the condition names a column that a matching table does not have.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

        parsed = parse_expression(self.condition)

        def keep(schema: TableSchema) -> Any | None:
            if not matches(schema.full_name, self.tables):
                return None
            return F.expr(changes.bind(parsed, schema, f"filter {self.condition!r}"))

        return changes.with_filter(changes.per_table(keep, otherwise=True))

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: a filter changes no column."""
        return changes

    def judges(self, changes: protocols.Changes, table: TableSchema) -> tuple[str, ...]:
        """Return the columns in the condition."""
        if not isinstance(changes, Changes) or not matches(table.full_name, self.tables):
            return ()
        names = (found.name for found in parse_expression(self.condition).identifiers)
        fields = (changes.field(name, table) for name in names)
        return tuple(dict.fromkeys(field.source for field in fields if field is not None))

    def label(self) -> str:
        """Return the condition."""
        return f"filter {self.condition}"
