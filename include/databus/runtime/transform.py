"""Transform: DataFrame in, DataFrame out, in the flow's order; filtered rows are marked, never dropped uncounted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from databus.core.flow import Flow
from databus.core.state.plan import SourcePlan
from databus.core.tables.hidden_columns import RememberedHidden
from databus.rows.former_columns import former_columns_named
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.hidden_loss import HiddenLoss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def transform(flow: Flow, rows: DataFrame, planned: SourcePlan) -> FrameChanges:
    """Return the rows after all transforms; lazy.

    Raises:
        TransformError: a transform cannot be applied, or a table lost a column within the range that one of them hides.
    """
    changes = FrameChanges.of(rows, planned.tables)
    for spec in flow.transforms:
        with former_columns_named(f"transform {spec.kind}"):
            changes = spec.apply(changes)  # type: ignore[assignment] # the only implementation
    if changes.hidden is not None:
        HiddenLoss(changes.hidden, RememberedHidden(), planned.renamed).require(planned.tables)
    return changes
