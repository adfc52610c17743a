"""AcceptedValues: a column holds one of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from databus.checks.row_check import Plain, RowCheck, has_value, literal
from databus.core.tables.schemas import ColumnSchema
from databus.rows.frames import fields

if TYPE_CHECKING:
    from databus.rows.violations import ColumnValues, Mask


class AcceptedValues(RowCheck):
    """Set of values that a column may have beside NULL: `AcceptedValues("status", ("new", "paid"))`.

    Attributes:
        values: what is accepted, e.g. ("new", "paid"); text is read as the column's type, so "1.50" accepts 1.5 in a
            decimal column.
    """

    kind: ClassVar[str] = "accepted_values"

    values: tuple[Plain, ...] = Field(min_length=1)

    def __init__(self, column: str | None = None, values: tuple[Plain, ...] | None = None, /, **options: Any):
        if values is not None:
            options["values"] = values
        super().__init__(column, **options)

    def arguments(self) -> tuple[str, ...]:
        """Return the accepted values, separated by |."""
        return ("|".join(str(value) for value in self.values),)

    def violated_when(self, field: fields.Field) -> str:
        """Not NULL and none of the values; a value without a typed form is none of them."""
        listed = ", ".join(literal(value, field.column.spark_type) for value in self.values)
        return f"{has_value(field)} AND NOT coalesce({field.typed('after')} IN ({listed}), false)"

    def reads(self, column: ColumnSchema) -> bool:
        """Return whether the values can be compared with the column without Spark."""
        from databus.checks.arrow_bounds import can_compare

        return can_compare(self.values, column)

    def violated_by(self, values: ColumnValues) -> Mask:
        """Not NULL and none of the values."""
        from databus.checks.arrow_bounds import is_one_of

        return values.given & ~is_one_of(values.array, self.values, values.column)
