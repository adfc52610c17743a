"""Rows of a range that a flow has delivered: what readers of its live topics get again by a replay into them."""

from __future__ import annotations

from databus.core.errors.source import SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import overlap
from databus.core.positions.offsets import OffsetRange
from databus.ops.ledger.range import spans_over
from databus.runtime.context import Services


def delivered_in(flow: Flow, services: Services, wanted: OffsetRange) -> int:
    """Return how many rows went on in the batches that meet a range; those at its ends count as a whole."""
    met = (span for span in spans_over(flow, services, wanted) if _meet(OffsetRange(span.start, span.end), wanted))
    return sum(counts.dispatched for span in met for counts in span.tables.values())


def _meet(one: OffsetRange, other: OffsetRange) -> bool:
    try:
        return overlap(one, other)
    except SourceDivergedError:
        return False  # of a log that was replaced, or of a former server
