"""Replay outcome of each row that it took up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from databus.core.batches.counts import SinkCounts, by_sink
from databus.core.batches.receipts import CHECK, RejectedRow, WriteReceipt
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.events import RowState
from databus.core.trace import row_of_copy
from databus.records.quarantine.held_row import HeldRow, HeldState, Identity
from databus.runtime.beside.replay import ReplayOutcome


@dataclass(frozen=True)
class ReplayResult:
    """Result of one replay of held rows.

    Attributes:
        number: its number.
        batch: batch that had held the rows back.
        replayed: rows that every sink that lacked them now has.
        held: rows that were held back again, with the new cause, also by a sink that had not seen them before.
        discarded: rows that the flow as it is now sends nowhere.
        written: sink → records written, now or by an earlier try of the same replay.
        sinks: sink → rows that it took and refused; one that was given none is not named.
    """

    number: int
    batch: int
    replayed: int
    held: int
    discarded: int
    written: dict[str, int]
    sinks: dict[str, SinkCounts]

    def line(self) -> str:
        """Say in a line what became of the rows."""
        return (
            f"replay {self.number} of rows of batch {self.batch}: {self.replayed} replayed, {self.held} held again, "
            f"{self.discarded} discarded; {by_sink(self.sinks) or 'no sink took any'}"
        )


def origin_of(taken: Sequence[HeldRow]) -> int:
    """Return the number of the batch that held the rows of a replay.

    Raises:
        CheckpointConflictError: no replay took them up.
    """
    origin = taken[0].origin
    if origin is None:
        raise CheckpointConflictError(f"row {taken[0].event_id} was taken up by no replay")
    return origin


def outcome(taken: Sequence[HeldRow], done: ReplayOutcome) -> tuple[dict[Identity, HeldState], list[RejectedRow]]:
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


def beside(found: Sequence[HeldRow], states: Mapping[Identity, HeldState], done: ReplayOutcome) -> list[HeldRow]:
    """Return the entries of sinks which a replay of the check's entry has answered: these sinks have the row now.

    A closing that was cut off, and whose log came back, leaves such entries: the replay is finished without them.

    Args:
        found: held entries on the events of the replay.
        states: what became of the entries that it took up.
        done: the replay.
    """
    known = {(row.event_id, row.stage) for row in done.rejected} | states.keys()
    whole = {event_id for (event_id, stage), state in states.items() if stage == CHECK and state is HeldState.REPLAYED}
    return [
        row
        for row in found
        if row.identity not in known and row.event_id in whole & done.taken.get(row.stage, frozenset())
    ]


def tally(states: Mapping[Identity, HeldState], again: Sequence[RejectedRow]) -> Counter[HeldState]:
    """Count rows by what became of them; one that a check had held and a sink refuses now is held, by a new entry."""
    new = {row.event_id for row in again if states.get((row.event_id, row.stage)) != HeldState.HELD}
    new |= {row_of_copy(event_id) for event_id in new}
    return Counter(HeldState.HELD if event_id in new else state for (event_id, _), state in states.items())


def result_of(
    number: int, origin: int, became: Mapping[HeldState, int], receipts: Sequence[WriteReceipt] = ()
) -> ReplayResult:
    """Return what a replay of rows of a batch (`origin`) did, by what became of them and what sinks confirmed."""
    written: dict[str, int] = {}
    sinks: dict[str, SinkCounts] = {}
    for receipt in receipts:
        written[receipt.sink] = written.get(receipt.sink, 0) + receipt.written
        given = SinkCounts.of(receipt.rows, len(receipt.rejected), receipt.outputs)
        if given != SinkCounts():
            sinks[receipt.sink] = sinks.get(receipt.sink, SinkCounts()).plus(given)
    replayed, held, discarded = (became[s] for s in (HeldState.REPLAYED, HeldState.HELD, HeldState.DISCARDED))
    return ReplayResult(number, origin, replayed, held, discarded, written, sinks)
