"""Rows of one sink in Spark's lane: its own transforms applied to checked rows, and copies made of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from databus.core.batches.receipts import RejectedRow
from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.sink import Sink
from databus.rows.former_columns import former_columns_named
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.places import COPIES, copies
from databus.rows.violation_bits import FLOW_OP
from databus.runtime.check import STATE, held_rows_of
from databus.runtime.copies import any_taken_by, first_of_row, written_rows
from databus.runtime.tables.sink_views import own_transforms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SINK_STATE = "sink_state"
"""Column of a sink's rows: where each ends for this sink, of those that the flow dispatches."""

OWN_SHARE = "own_share"
"""Column beside it: FILTERED or QUARANTINED where the sink's own transforms leave a row out or hold it back, of those
that the sink takes; NULL of others."""

_FLOW_FILTERED = "flow_filtered"
_STORED = {"before": "stored_before", "after": "stored_after"}
"""Image → column with what the flow's transforms were given of it: a sink's are behind these, over the same images."""


@dataclass(frozen=True)
class CheckedRows:
    """Rows behind a flow's transforms and checks.

    Attributes:
        rows: as `check` gives them.
        changes: columns as the flow's transforms leave them.
    """

    rows: DataFrame
    changes: FrameChanges


def with_stored_images(flow: Flow, changes: FrameChanges) -> FrameChanges:
    """Return changes whose rows keep their images beside those that are rebuilt, where some sink changes them anew."""
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    if not any(spec.transforms for spec in flow.sinks):
        return changes
    return replace(changes, rows=changes.rows.withColumns({name: F.col(of) for of, name in _STORED.items()}))


def changes_of_sink(flow: Flow, spec: SinkSpec, sink: Sink, checked: CheckedRows) -> FrameChanges:
    """Return checked rows on their way through a sink's own transforms; the rows that the flow holds have no images.

    Raises:
        TransformError: a transform cannot be applied.
    """
    from pyspark.sql import functions as F  # noqa: N812

    sent = F.col(STATE) == RowState.DISPATCHED
    given = {
        FLOW_OP: F.col("op"),
        _FLOW_FILTERED: F.col("filtered"),
        OWN_SHARE: sent & any_taken_by(flow, sink, spec),
        "filtered": ~sent,
        "unjudged": F.lit(None).cast("string"),
        **{image: F.when(sent, F.col(stored)) for image, stored in _STORED.items()},
    }
    rows = checked.rows.withColumns(given).drop(*_STORED.values())
    changes = replace(checked.changes, rows=rows, hidden=deepcopy(checked.changes.hidden))
    for each in own_transforms(flow, spec):
        with former_columns_named(f"transform {each.kind} of sink {spec.sink_name}"):
            changes = each.apply(changes)  # type: ignore[assignment] # the only implementation
    return changes


def rows_of_sink(flow: Flow, spec: SinkSpec, sink: Sink, checked: CheckedRows) -> DataFrame:
    """Return the rows of a batch as a sink has them: copies made, its own transforms applied. All rows, taken or not.

    Of a sink with transforms of its own they have the columns `SINK_STATE`, `OWN_SHARE` and `FLOW_OP`.

    Raises:
        TransformError: a transform cannot be applied.
    """
    if not spec.transforms:
        return written_rows(flow, checked.rows)
    from pyspark.sql import functions as F  # noqa: N812

    changes = changes_of_sink(flow, spec, sink, checked).materialized()
    rows = changes.rows.withColumn(COPIES, F.expr(copies())) if changes.by_value else changes.rows
    state = (
        F.when(F.col(STATE) != RowState.DISPATCHED, F.col(STATE))
        .when(F.col("filtered"), RowState.FILTERED)
        .when(F.col("unjudged").isNotNull(), RowState.QUARANTINED)
        .otherwise(RowState.DISPATCHED)
    )
    rows = rows.withColumn(SINK_STATE, state).withColumn("filtered", F.col(_FLOW_FILTERED)).drop(_FLOW_FILTERED)
    taken = any_taken_by(flow, sink, spec, offered=False)
    held, goes = (taken & (F.col(SINK_STATE) == one) for one in (RowState.QUARANTINED, RowState.DISPATCHED))
    share = F.when(~F.col(OWN_SHARE) | goes, F.lit(None)).when(held, RowState.QUARANTINED).otherwise(RowState.FILTERED)
    return written_rows(flow, rows.withColumn(OWN_SHARE, share), SINK_STATE)


def own_share(flow: Flow, state: RowState) -> Column:
    """Return a Column that is true of one copy of each row that a sink's own transforms leave out, or hold back."""
    from pyspark.sql import functions as F  # noqa: N812

    found, first = F.coalesce(F.col(OWN_SHARE) == state, F.lit(False)), first_of_row(flow)
    return found if first is None else found & first


def refused_rows(flow: Flow, spec: SinkSpec, rows: DataFrame) -> tuple[RejectedRow, ...]:
    """Return the rows that a sink's own transforms hold back, as the quarantine keeps them."""
    from pyspark.sql import functions as F  # noqa: N812

    return held_rows_of(rows, own_share(flow, RowState.QUARANTINED), F.col("unjudged"), spec.sink_name)
