"""Snapshot rules: when one may begin, and what a person or a batch makes of it. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError
from databus.core.state.snapshot import Snapshot

Change = Callable[[str, Snapshot | None, datetime], Snapshot]
"""Flow, stored snapshot, time → the snapshot as a person wants it, equal to the stored one where it is so already."""


def check_begin(flow: str, stored: Snapshot | None, wanted: Snapshot) -> bool:
    """Tell whether a snapshot is to be written: not where it was begun already, however far it has come since.

    Raises:
        SnapshotUnfinishedError: another one is unfinished.
        CheckpointConflictError: its number was used, or it is not at its beginning.
    """
    if not wanted.tables:
        raise CheckpointConflictError(
            f"flow {flow}: snapshot {wanted.number} has no table to read",
            hint="`databus flows show` says what the flow captures; a table may have been dropped meanwhile.",
        )
    if stored is None or stored.number < wanted.number:
        if stored is not None and stored.unfinished:
            raise SnapshotUnfinishedError(
                f"flow {flow}: snapshot {wanted.number} cannot begin while snapshot {stored.number} is unfinished",
                hint="Let it finish, or cancel it.",
            )
        if not wanted.unfinished or any(table.chunks for table in wanted.tables):
            raise CheckpointConflictError(f"flow {flow}: snapshot {wanted.number} does not begin at its beginning")
        return True
    if _identity(stored) == _identity(wanted):
        return False
    if stored.unfinished:
        raise SnapshotUnfinishedError(
            f"flow {flow}: a snapshot of {_named(wanted)} cannot begin while snapshot {stored.number} of "
            f"{_named(stored)} is unfinished",
            hint="Let it finish, or cancel it.",
        )
    raise CheckpointConflictError(
        f"flow {flow}: snapshot {wanted.number} cannot begin, the last one is snapshot {stored.number}",
        hint="Numbers of snapshots are never used twice: take the next one.",
    )


def with_added(stored: Snapshot | None, added: Snapshot) -> Snapshot:
    """Return the snapshot that reads added tables too: the unfinished one with them at its end, else one of its own.

    A table that is in the unfinished one already was left out of the flow meanwhile, and changes of it with it: it is
    read from its beginning. The number of its chunks goes on, which ids of rows hold.

    Args:
        stored: as it stands.
        added: snapshot of the added tables alone, none begun.
    """
    if stored is None or not stored.unfinished:
        return replace(added, number=1 if stored is None else stored.number + 1)
    before = {table.table: table for table in stored.tables}
    anew = [
        replace(table, chunks=known.chunks, rows=known.rows, superseded=known.superseded)
        if (known := before.get(table.table)) is not None
        else table
        for table in added.tables
    ]
    names = {table.table for table in anew}
    return replace(stored, tables=(*(table for table in stored.tables if table.table not in names), *anew))


def paused(flow: str, stored: Snapshot | None, now: datetime) -> Snapshot:  # noqa: ARG001 - as each change is called
    """Return a snapshot that a person holds. Raises CheckpointConflictError where none is unfinished."""
    return replace(_unfinished(flow, stored, "paused"), paused=True)


def resumed(flow: str, stored: Snapshot | None, now: datetime) -> Snapshot:
    """Return a snapshot that goes on. Raises CheckpointConflictError where none is unfinished."""
    found = _unfinished(flow, stored, "resumed")
    return replace(found, paused=False, resumed_at=now, resumed_rows=found.rows) if found.paused else found


def cancelled(flow: str, stored: Snapshot | None, now: datetime) -> Snapshot:
    """Return a snapshot that a person ended. Raises CheckpointConflictError where none is unfinished or cancelled."""
    if stored is not None and stored.cancelled:
        return stored
    return replace(_unfinished(flow, stored, "cancelled"), paused=False, finished_at=now, cancelled=True)


def after_batch(stored: Snapshot | None, planned: Snapshot) -> Snapshot:
    """Return the stored snapshot once a batch with chunks is committed.

    What a person said since the plan was written stands: a pause while chunks are left, a cancellation in any case,
    whatever chunks were delivered all the same. Tables that were appended since are left to read. Another snapshot that
    has begun since stays as it is.

    Args:
        stored: as it stands; None where the node was lost.
        planned: as the plan foresaw it.
    """
    if stored is None:
        return planned
    if stored.number != planned.number:
        return stored
    planned = replace(_with_later(stored, planned), resumed_at=stored.resumed_at, resumed_rows=stored.resumed_rows)
    if stored.cancelled:
        return replace(planned, paused=False, finished_at=stored.finished_at, cancelled=True)
    return replace(planned, paused=stored.paused and planned.unfinished, cancelled=False)


def _with_later(stored: Snapshot, planned: Snapshot) -> Snapshot:
    """Return a planned snapshot with the tables that were appended to the stored one since."""
    known = {table.table for table in planned.tables}
    later = tuple(table for table in stored.tables if table.table not in known)
    whole = replace(planned, tables=(*planned.tables, *later))
    return whole if whole.current is None else replace(whole, finished_at=None)


def _unfinished(flow: str, stored: Snapshot | None, change: str) -> Snapshot:
    if stored is None or not stored.unfinished:
        found = "there was none yet" if stored is None else f"snapshot {stored.number} has ended"
        raise CheckpointConflictError(f"flow {flow}: no snapshot can be {change}: {found}")
    return stored


def _identity(snapshot: Snapshot) -> tuple[object, ...]:
    tables = tuple((table.table, table.where) for table in snapshot.tables)
    return snapshot.number, snapshot.cause, snapshot.begun_at, tables


def _named(snapshot: Snapshot) -> str:
    first = ", ".join(table.table for table in snapshot.tables[:3])
    return first + (f" and {len(snapshot.tables) - 3} more" if len(snapshot.tables) > 3 else "")
