"""InRange: a column lies between two bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from databus.checks.row_check import Plain, RowCheck, has_value, is_text, literal
from databus.core.tables.schemas import ColumnSchema
from databus.rows.frames import fields

if TYPE_CHECKING:
    from databus.rows.violations import ColumnValues, Mask

Bound = Plain | None


class InRange(RowCheck):
    """Bounds of a column's values, NULL beside them: `InRange("amount", minimum=0)`.

    Attributes:
        minimum: smallest accepted value, e.g. 0; dates, times and long decimals as text: "2024-01-01". Default None, no
            lower bound.
        maximum: largest accepted value, e.g. 1000; default None, no upper bound.
    """

    kind: ClassVar[str] = "in_range"

    minimum: Bound = None
    maximum: Bound = None

    def __init__(
        self, column: str | None = None, minimum: Plain | None = None, maximum: Plain | None = None, /, **options: Any
    ):
        given = {"minimum": minimum, "maximum": maximum}
        super().__init__(column, **options, **{name: bound for name, bound in given.items() if bound is not None})

    @model_validator(mode="after")
    def _has_a_bound(self) -> InRange:
        if self.minimum is None and self.maximum is None:
            raise ValueError("give minimum, maximum or both")
        return self

    def arguments(self) -> tuple[str, ...]:
        """Return the bounds, "" for an open one."""
        return (f"{'' if self.minimum is None else self.minimum}..{'' if self.maximum is None else self.maximum}",)

    def violated_when(self, field: fields.Field) -> str:
        """Not NULL and outside; a value without a typed form (a zero date) is outside."""
        value, kind = field.typed("after"), field.column.spark_type
        inside = [is_text(field)]
        if self.minimum is not None:
            inside.append(f"{value} >= {literal(self.minimum, kind)}")
        if self.maximum is not None:
            inside.append(f"{value} <= {literal(self.maximum, kind)}")
        return f"{has_value(field)} AND NOT coalesce({' AND '.join(inside)}, false)"

    def reads(self, column: ColumnSchema) -> bool:
        """Return whether the bounds can be compared with the column without Spark."""
        from databus.checks.arrow_bounds import can_compare

        return can_compare([bound for bound in (self.minimum, self.maximum) if bound is not None], column)

    def violated_by(self, values: ColumnValues) -> Mask:
        """Not NULL and outside."""
        from databus.checks.arrow_bounds import at_least, at_most

        inside = ~values.untyped
        if self.minimum is not None:
            inside &= at_least(values.array, self.minimum, values.column)
        if self.maximum is not None:
            inside &= at_most(values.array, self.maximum, values.column)
        return values.given & ~inside
