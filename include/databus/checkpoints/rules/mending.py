"""Mending rules: gaps that a snapshot of the flow's tables mends, and what each of them says of it. Pure functions.

A snapshot that begins behind a gap reads every row as it stands, whatever was missed. So a gap is mended by the commit
of its last chunk, and says so from that step on. Rows that were deleted within the gap are in no table any more: no
snapshot brings that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.gaps import SKIPPED, Gap
from databus.core.positions.offset import Offset, Ordering
from databus.core.state.amendments import Amendment
from databus.core.state.snapshot import Snapshot


def decision_of(snapshot: Snapshot) -> str:
    """Return the decision of a gap that a snapshot is to mend, as the snapshot stands."""
    if snapshot.unfinished:
        return f"being mended by snapshot {snapshot.number}"
    if snapshot.cancelled:
        return SKIPPED
    gone = [table.table for table in snapshot.tables if table.state == "gone"]
    named = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
    return f"mended by snapshot {snapshot.number}" + (f", but for {named} (gone)" if gone else "")


def decided(gaps: Sequence[Gap], snapshot: Snapshot | None) -> list[Gap]:
    """Return the gaps whose decision is another as a snapshot stands now."""
    if snapshot is None:
        return []
    decision = decision_of(snapshot)
    return [
        replace(gap, decision=decision) for gap in gaps if gap.number in snapshot.mends and gap.decision != decision
    ]


def gap_of(amendment: Amendment) -> Gap | None:
    """Return the gap that an amendment names, with what mends it as its decision where a snapshot begins with it."""
    gap, repair = amendment.gap, amendment.repair
    return gap if gap is None or repair is None else replace(gap, decision=decision_of(repair))


def begun_repair(flow: str, stored: Snapshot | None, wanted: Snapshot, gap: int) -> Snapshot:
    """Return the snapshot that begins in the step which passes over a gap.

    One that is unfinished ends with it: rows that it has delivered lack what is passed over. All tables are read anew,
    so gaps that it was to mend are mended with this one.

    Args:
        flow: flow name.
        stored: as it stands.
        wanted: of all tables, with the number after the last one's.
        gap: number of the gap.

    Raises:
        CheckpointConflictError: its number is another, or it is not at its beginning.
    """
    if wanted.number != 1 + (0 if stored is None else stored.number):
        raise CheckpointConflictError(
            f"flow {flow}: snapshot {wanted.number} cannot begin, the last one is snapshot "
            f"{0 if stored is None else stored.number}",
            hint="Another was begun meanwhile: preview the change again.",
        )
    if not wanted.unfinished or any(table.chunks or table.where for table in wanted.tables):
        raise CheckpointConflictError(f"flow {flow}: snapshot {wanted.number} does not begin with all rows")
    former = stored.mends if stored is not None and stored.unfinished else ()
    return replace(wanted, mends=tuple(sorted({*former, gap})))


def check_mends(flow: str, snapshot: Snapshot, gaps: Sequence[Gap], standing: Offset) -> None:
    """Refuse a snapshot that would not mend the gaps that it names: one unknown, not passed yet, or still ahead.

    Raises:
        CheckpointConflictError: it would not; says why.
    """
    found = {gap.number: gap for gap in gaps}
    for number in snapshot.mends:
        gap = found.get(number)
        if gap is None:
            raise CheckpointConflictError(
                f"flow {flow} has no gap {number}", hint=f"`databus gaps {flow}` lists those that it has."
            )
        ahead = not gap.of_sink and standing.compare(gap.end) is Ordering.BEFORE
        if not gap.passed or ahead:
            raise CheckpointConflictError(
                f"flow {flow}: gap {number} cannot be mended: the flow stands before it, at {standing}",
                hint=f"`databus checkpoint skip {flow} --past-gap --repair` passes over it and mends it in one.",
            )
