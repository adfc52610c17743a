"""Checkpoints and plans of the snapshot model, the rows of a plan, and what a sink must hold once it is committed."""

from __future__ import annotations

from typing import NamedTuple

from tests.faults.snapshot_model.chunks import Chunks, Snapshot
from tests.faults.snapshot_model.entries import KEYS, Key
from tests.faults.snapshot_model.rules import Rules
from tests.faults.snapshot_model.server import Server
from tests.faults.snapshot_model.sinks import Documents, Records, Row, Violation


class Plan(NamedTuple):
    """Plan in flight: its number, its range, its chunks, and the flow's definition that it is of."""

    batch: int
    start: int
    end: int
    chunks: Chunks | None
    definition: int


class Owed(NamedTuple):
    """Chunks that a lagging sink has yet to get, and the range for which they were made."""

    start: int
    end: int
    chunks: Chunks


class Standing:
    """Checkpoint and plan of the flow, or of a sink that is behind.

    Attributes:
        place: end of what was delivered.
        snapshot: its snapshot; None before the first.
        plan: plan in flight.
        sinks: names of the sinks that it is of.
        until: end of plans that were given up, of which the documents may hold rows.
        done: keys of finished chunks.
        delivered: chunks that were delivered: number and run of the snapshot, and the ranks that bound it.
        owed: chunks that it has yet to deliver, in the order of their places.
    """

    def __init__(self, place: int, sinks: tuple[str, ...]) -> None:
        self.place, self.sinks = place, sinks
        self.snapshot: Snapshot | None = None
        self.plan: Plan | None = None
        self.until = 0
        self.done: frozenset[Key] = frozenset()
        self.delivered: frozenset[tuple[int, ...]] = frozenset()
        self.owed: tuple[Owed, ...] = ()


def rows_of(plan: Plan, server: Server, rules: Rules) -> list[Row]:
    """Return the rows of a plan in the order in which a sink gets them.

    Raises:
        Violation: a chunk row is none that the place of the plan has, or the counts do not add up.
    """
    start = plan.start
    from_log = [row for entry in server.log[start + 1 : plan.end + 1] for row in entry.rows]
    if plan.chunks is None:
        return from_log
    version = start if rules.version == "start" else plan.end
    from_chunks, filtered = [], 0
    for key, serial, schema, snapshot in plan.chunks.rows:
        if schema != server.log[start].schema:
            raise Violation(f"chunk row {key} has definition {schema}, its place {start} another")
        if not server.passes(serial):
            filtered += 1
            continue
        if serial in server.held and server.placed[serial] > start:
            raise Violation(f"chunk row {key} has value {serial}, which the range holds back")
        from_chunks.append(Row("r", key, serial, version, server.placed[serial], snapshot))
    read, superseded = plan.chunks.read, plan.chunks.superseded
    if read != len(from_chunks) + filtered + superseded:
        raise Violation(
            f"{read} rows read, {len(from_chunks)} dispatched, {filtered} filtered, {superseded} superseded"
        )
    return from_chunks + from_log if rules.order == "chunks first" else from_log + from_chunks


def check(sink: Records | Documents, at: Standing, server: Server) -> None:
    """Raise Violation unless a sink holds the table of its place, but for keys whose chunk is still to come.

    Documents may be as new as what was written of plans that were given up.
    """
    log, rows, done, stale = server.log, sink.rows, at.done, sink.stale
    here = log[at.place]
    for key in KEYS:
        found, wanted = rows.get(key, 0), here.seen(key, server.passes)
        if found == wanted or key in stale or (found == 0 and key not in done):
            continue
        further = log[at.place + 1 : at.until + 1] if isinstance(sink, Documents) else []
        held = any(row[:2] == ("h", key) for entry in further for row in entry.rows)
        if not held and not any(found == entry.seen(key, server.passes) for entry in further):
            raise Violation(f"{sink.name}: key {key} is {found} at {at.place}, not {wanted}")
