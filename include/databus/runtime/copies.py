"""Copies of rows whose routes are chosen by value: which sinks take them, and the rows that become of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.sink import Sink
from databus.core.trace import row_of_copy
from databus.rows.frames.places import COPIES, COPY, copied
from databus.rows.frames.selection import java_regex
from databus.runtime.check import STATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def most_copies(flow: Flow) -> int:
    """Return the most copies that a row of a flow has; 1 of a flow that chooses no route by value."""
    return max((spec.most_copies for spec in flow.transforms), default=1)


def taken_by(sink: Sink, spec: SinkSpec, row: Column | None = None) -> Column:
    """Return a Column that is true where a sink takes the row, by route and operation.

    Args:
        sink: the sink, open.
        spec: its spec.
        row: struct that has `route` and `op`; None for the row itself, as it is written.
    """
    from pyspark.sql import functions as F  # noqa: N812

    route, op = (F.col(name) if row is None else row[name] for name in ("route", "op"))
    routed = F.lit(False)
    for pattern in spec.routes:
        routed = routed | (F.lit(True) if pattern == "*" else route.rlike(java_regex(pattern)))
    return routed & op.isin(*sorted(sink.accepts()))


def any_taken_by(flow: Flow, sink: Sink, spec: SinkSpec) -> Column:
    """Return a Column that is true where a sink takes a copy of a row that was checked."""
    from pyspark.sql import functions as F  # noqa: N812

    if most_copies(flow) == 1:
        return taken_by(sink, spec)
    return F.exists(F.col(COPIES), lambda copy: taken_by(sink, spec, copy))


def written_rows(flow: Flow, checked: DataFrame) -> DataFrame:
    """Return checked rows with each copy of those that are dispatched as a row of its own.

    The row itself is the copy of number 0 in `COPY`; a flow that chooses no route by value gets its rows as they are.
    """
    most = most_copies(flow)
    return checked if most == 1 else copied(checked, f"`{STATE}` = '{RowState.DISPATCHED}'", most)


def first_of_row(flow: Flow) -> Column | None:
    """Return a Column that is true of one copy of each row of `written_rows`; None where there is but one."""
    from pyspark.sql import functions as F  # noqa: N812

    return None if most_copies(flow) == 1 else F.col(COPY) == 0


def row_id(flow: Flow, event_id: str) -> str:
    """Return the event id of the row that a written one is a copy of."""
    return event_id if most_copies(flow) == 1 else row_of_copy(event_id)
