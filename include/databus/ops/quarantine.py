"""The quarantine of a flow: what is held and why, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from databus.core.errors import CheckpointConflictError, LeaseBusyError
from databus.core.flow import Flow
from databus.core.plan import Plan
from databus.ops.mediation import Said
from databus.records.held_rows import HeldRow, HeldRows, HeldState, Selection
from databus.records.store import RecordStore
from databus.runtime.context import Services


@contextmanager
def held_rows(flow: Flow, services: Services) -> Iterator[HeldRows]:
    """Open the flow's quarantine."""
    with RecordStore(services.settings.records_url) as store:
        yield HeldRows(store, flow.name)


def select(flow: Flow, services: Services, wanted: Selection) -> list[HeldRow]:
    """Return the rows that are meant, oldest first."""
    with held_rows(flow, services) as rows:
        return rows.select(wanted)


def tally(flow: Flow, services: Services) -> dict[str, dict[str, int]]:
    """Return the number of rows by state and, in it, by stage: "check" or a sink's name."""
    with held_rows(flow, services) as rows:
        return rows.tally()


def discard(flow: Flow, services: Services, wanted: Selection, said: Said) -> int:
    """Decide that held rows will never be replayed; they stay listed. Returns how many.

    Raises:
        LeaseBusyError: a replay of the flow runs.
        CheckpointConflictError: an unfinished replay has taken up some of the rows, and sinks may hold them.
    """
    name = replays_of(flow)
    try:
        lease = services.store.claim(name, said.who, 0.0)
    except LeaseBusyError as error:
        raise LeaseBusyError(f"a replay of flow {flow.name} runs: {error.message}", hint=error.hint) from error
    try:
        with held_rows(flow, services) as rows:
            found = rows.select(replace(wanted, state=HeldState.HELD))
            _refuse_taken(flow, services.store.pending_plan(name), found)
            rows.discard(found, (said.who, said.why, services.clock.now()))
    finally:
        lease.release()
    return len(found)


def replays_of(flow: Flow) -> str:
    """Return the name under which a flow's replays have lease, plan, checkpoint and markers."""
    return f"{flow.name}.quarantine"


def _refuse_taken(flow: Flow, pending: Plan | None, found: Sequence[HeldRow]) -> None:
    taken = [row for row in found if pending is not None and row.replay == pending.batch]
    if pending is not None and taken:
        raise CheckpointConflictError(
            f"flow {flow.name}: replay {pending.batch} has taken up {len(taken)} of these rows and is not finished, "
            f"first {taken[0].event_id}",
            hint=f"`databus quarantine replay {flow.name}` finishes it before anything else; then discard what is "
            "held still. Rows that it has not taken up can be discarded now, by --event.",
            code="quarantine_replay_open",
        )
