"""A flow that stands before a gap says so where its successors and people look."""

from __future__ import annotations

import logging
from datetime import datetime

from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetPurgedError
from databus.core.positions.gaps import OPEN, PURGED, SKIPPED, Gap
from databus.core.positions.offsets import Ordering
from databus.core.state.checkpoint_store import Amendments, Lease
from databus.core.state.plan import LostRange

log = logging.getLogger(__name__)


def note_purged(
    store: Amendments, flow: str, lease: Lease, error: OffsetPurgedError, said: tuple[str, str, datetime]
) -> Gap | None:
    """Name the missing range as an open gap; a store that fails is logged, the purge is what matters.

    Args:
        store: checkpoint store.
        flow: flow name.
        lease: our claim.
        error: what the source said.
        said: run id, address of the run's page, and time.

    Returns:
        The gap; None when the range cannot be determined or the store failed.
    """
    if error.missing is None:
        return None
    who, address, at = said
    found = Gap(0, error.missing.start, error.missing.end, PURGED, OPEN, who, error.message, at, address)
    try:
        gap = store.note_gap(flow, lease, found)
    except DatabusError as trouble:
        log.warning("flow %s: the gap %s could not be noted: %s", flow, found, trouble)
        return None
    log.error("flow %s stops before gap %d: %s", flow, gap.number, gap)
    return gap


def note_passed(store: Amendments, flow: str, lease: Lease, lost: LostRange, said: tuple[str, datetime]) -> None:
    """Name a range that the source's policy passes over, before it is passed; the same one is named once.

    Args:
        store: checkpoint store.
        flow: flow name.
        lease: our claim.
        lost: the range, and why.
        said: run id and time.
    """
    who, at = said
    found = Gap(0, lost.range.start, lost.range.end, PURGED, SKIPPED, who, lost.why, at)
    for known in store.gaps(flow):
        same = known.start.compare(found.start), known.end.compare(found.end)
        if known.passed and same == (Ordering.EQUAL, Ordering.EQUAL):
            return
    log.warning("flow %s passes over gap: %s", flow, lost.why)
    store.note_gap(flow, lease, found)
