"""Judged: what a row filter of the source goes by stands in the change, so that its partition is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from databus.checks.decodable import Decodable
from databus.core.flow import Flow
from databus.rows.frames.fields import Field

if TYPE_CHECKING:
    from databus.rows.violations import ColumnValues, Mask


class RowFilterLacks(Decodable):
    """No row filter was in want of the column; asked for by each source with row filters, not by users.

    Deletes are looked at too: where a row that is gone stood is what its delete says.
    """

    kind: ClassVar[str] = "row_filter_lacks"
    ops: ClassVar[tuple[str, ...]] = ("c", "u", "r", "d")

    def violated_when(self, field: Field) -> str:
        """Flagged so, in either image."""
        flags = (f"{image}.{field.source}:unjudged".replace("'", "\\'") for image in ("before", "after"))
        return "arrays_overlap(flags, array({}))".format(", ".join(f"'{flag}'" for flag in flags))

    def violated_by(self, values: ColumnValues) -> Mask:
        """Flagged so."""
        import numpy as np

        mask = np.zeros(len(values.array), np.bool_)
        mask[list(values.unjudged)] = True
        return mask


def judged_checks(flow: Flow) -> tuple[RowFilterLacks, ...]:
    """Return the checks that the row filters of a flow's source ask for."""
    return tuple(RowFilterLacks(column=column) for column in flow.source.judged_columns())
