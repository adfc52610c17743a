"""Rows of a replay that cannot be finished: the markers show which sinks have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from databus.core.batches.receipts import CHECK, RejectedRow
from databus.records.quarantine.held_row import HeldRow, HeldState, Identity
from databus.runtime.takeover.closing import ClosedForGood

_CLOSED = ", replay "
"""Begins what is added to a cause; what an earlier closing had added is taken off."""


def settled(
    taken: Sequence[HeldRow], number: int, sinks: Mapping[str, Sequence[str]], closed: ClosedForGood
) -> tuple[dict[Identity, HeldState], list[RejectedRow]]:
    """Return what became of each row, and the entries of those that sinks lack still, or may.

    A row is replayed where every sink that it was for holds all of the replay. What a check had held and some sinks
    hold is held for the others alone from now on, by an entry of each. What no sink takes is discarded.

    Args:
        taken: the rows.
        number: number of the replay.
        sinks: table → sinks that take its rows, of those that it was for.
        closed: what they hold of it.
    """
    states: dict[Identity, HeldState] = {}
    held: list[RejectedRow] = []
    for row in taken:
        meant = sinks[row.table] if row.stage == CHECK else [row.stage]
        lacking = [name for name in meant if name not in closed.whole]
        apart = row.stage == CHECK and len(lacking) < len(meant)
        states[row.identity] = HeldState.REPLAYED if apart or not lacking else HeldState.HELD
        if not meant:
            states[row.identity] = HeldState.DISCARDED
        unsure = [name for name in lacking if name in closed.partly]
        if apart:
            held += [_entry(row, name, _cause(row, number, closed, [name])) for name in lacking]
        elif unsure:
            held.append(_entry(row, row.stage, _cause(row, number, closed, unsure)))
    return states, held


def told(closed: ClosedForGood) -> str:
    """Say where rows of a closed plan are."""
    parts = [f"{name} holds all of it" for name in sorted(closed.whole)]
    parts += [_may_hold(name, part) for name, part in sorted(closed.partly.items())]
    return "; ".join(parts) or "no sink holds any of it"


def _cause(row: HeldRow, number: int, closed: ClosedForGood, sinks: Sequence[str]) -> str:
    before = row.cause.partition(_CLOSED)[0]
    may = "; ".join(_may_hold(name, closed.partly[name]) for name in sinks if name in closed.partly)
    return f"{before}{_CLOSED}{number} could not be finished{f': {may}' if may else ''}"


def _may_hold(name: str, part: str) -> str:
    return f"{name} holds it in part ({part})" if part else f"{name} may hold it: it keeps no markers"


def _entry(row: HeldRow, stage: str, cause: str) -> RejectedRow:
    return RejectedRow(row.event_id, row.table, row.key, cause, stage, row.position, row.payload)
