"""What a replay made of each row that it took up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from databus.core.errors import CheckpointConflictError
from databus.core.events import RowState
from databus.core.receipts import CHECK, RejectedRow
from databus.records.held_rows import HeldRow, HeldState, Identity
from databus.runtime.replay import Replayed


def origin_of(taken: Sequence[HeldRow]) -> int:
    """Return the number of the batch that held the rows of a replay.

    Raises:
        CheckpointConflictError: no replay took them up.
    """
    origin = taken[0].origin
    if origin is None:
        raise CheckpointConflictError(f"row {taken[0].event_id} was taken up by no replay")
    return origin


def outcome(taken: Sequence[HeldRow], done: Replayed) -> tuple[dict[Identity, HeldState], list[RejectedRow]]:
    """Return what became of each row, and the rows that are held back again, as entries of the quarantine."""
    refused = {(row.event_id, row.stage): row for row in done.rejected}
    states: dict[Identity, HeldState] = {}
    again: dict[Identity, RejectedRow] = {}
    for row in taken:
        ended = done.state[row.event_id]
        checked = refused.get((row.event_id, CHECK))
        sent_to = [name for name, ids in done.taken.items() if row.event_id in ids]
        if ended == RowState.QUARANTINED and checked is not None:
            states[row.identity] = HeldState.HELD
            again[row.identity] = replace(checked, stage=row.stage)
        elif ended == RowState.FILTERED or not (sent_to if row.stage == CHECK else row.stage in sent_to):
            states[row.identity] = HeldState.DISCARDED
        elif row.stage != CHECK and row.identity in refused:
            states[row.identity] = HeldState.HELD
        else:
            states[row.identity] = HeldState.REPLAYED
    # Of a row that a check had held, a sink's refusal is a new entry: that sink alone lacks it now.
    again.update({identity: rejected for identity, rejected in refused.items() if rejected.stage != CHECK})
    return states, list(again.values())


def tally(states: Mapping[Identity, HeldState], again: Sequence[RejectedRow]) -> Counter[HeldState]:
    """Count rows by what became of them; one that a check had held and a sink refuses now is held, by a new entry."""
    new = {row.event_id for row in again if states.get((row.event_id, row.stage)) != HeldState.HELD}
    return Counter(HeldState.HELD if event_id in new else state for (event_id, _), state in states.items())
