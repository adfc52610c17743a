"""NotNull: a column has a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from databus.checks.row_check import RowCheck
from databus.rows.frames.fields import Field

if TYPE_CHECKING:
    from databus.rows.violations import ColumnValues, Mask


class NotNull(RowCheck):
    """Absence of NULL in a column: `NotNull("order_id")`.

    Zero dates and other values without a typed form are values.
    """

    kind: ClassVar[str] = "not_null"

    def violated_when(self, field: Field) -> str:
        """Present and NULL."""
        return f"is_variant_null({field.raw('after')})"

    def violated_by(self, values: ColumnValues) -> Mask:
        """Present and NULL."""
        return values.present & ~values.given
