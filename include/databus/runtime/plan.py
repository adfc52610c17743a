"""Plan: choose the next range under the lease and write it down before anything is read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from databus.core.batching import Batching
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkKeyChangedError
from databus.core.errors.source import ChunkFileError, OffsetPurgedError
from databus.core.positions.offset_ranges import later, overlap, unreached, with_lives_of
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.positions.replaced_logs import resumed
from databus.core.protocols.optional_sink import PinningSink
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.state.backfill import RangedSource
from databus.core.state.checkpoint import Checkpoint, merged_slots
from databus.core.state.checkpoint_store import Lease
from databus.core.state.known_outputs import known_outputs
from databus.core.state.plan import LostRange, Plan, SinkPlan, SourcePlan
from databus.core.state.snapshot import PlannedChunks
from databus.runtime.context import FlowSession
from databus.runtime.direct.required import require_lane
from databus.runtime.gap_notes import note_passed
from databus.runtime.pacing.batch_sizing import Pace
from databus.runtime.pacing.snapshot_turns import drop_unplanned
from databus.runtime.routing import follow_columns, outputs_named, outputs_of, prepare, require_unreserved
from databus.runtime.sink_outage.outage import naming
from databus.runtime.tables.changed_keys import before_another_key
from databus.runtime.tables.column_lineage import written_tables
from databus.runtime.tables.sink_views import seen_by
from databus.runtime.takeover.closing import open_again
from databus.runtime.takeover.forgotten_markers import recall_piece
from databus.runtime.takeover.given_up import abandon
from databus.runtime.zookeeper_loss.policy import is_detached, marked_sinks

log = logging.getLogger(__name__)

_LOOK_UP_S = 2.0
"""A source waits this long at most before the window looks for a drain and for a successor; Airflow kills a cancelled
task after 5 seconds."""


@dataclass(frozen=True)
class PlannedBatch:
    """A plan in ZooKeeper together with what the source knows of its range.

    Attributes:
        plan: the plan.
        source: the source's description of the same range.
        previous: checkpoint it starts from.
        attempt: 1, or 2 when an earlier attempt had left the plan behind.
    """

    plan: Plan
    source: SourcePlan
    previous: Checkpoint
    attempt: int


def next_plan(
    session: FlowSession, lease: Lease, checkpoint: Checkpoint, *, settled: bool = False
) -> PlannedBatch | None:
    """Return the plan found unfinished, else a new one; None when the source has nothing new.

    A plan found unfinished is taken as it is: same range, same slots, same clock, and opened again where it was closed
    while the flow had another definition. What its log has lost since is noted as a gap and passed over where the
    source's policy says so. With `settled` none is looked for: the caller has committed the last one, or found none,
    under the same claim.

    Raises:
        PlanChangedError: the flow changed while a sink already holds part of the unfinished batch.
        ChunkFileError: it has chunks that are gone, and a sink already holds part of it.
        MarkerDivergedError: of a backfill, nothing shows any more whether the sinks hold the unfinished batch, and the
            user did not consent.
        OffsetPurgedError: the log has lost what was to be read, and a person decides.
    """
    pending = None if settled else session.store.pending_plan(session.flow.name)
    if pending is not None:
        _recall(session, lease, pending, checkpoint)
    lost: ChunkFileError | None = None
    if pending is not None and session.takes_up(pending):
        try:
            return _taken_up(session, lease, pending, checkpoint)
        except ChunkFileError as error:
            lost = error
    batch, marks = _next_number(session, checkpoint), dict(checkpoint.slots)
    after, ends = checkpoint.offset, [checkpoint.closed_until]
    if pending is not None:
        marks = merged_slots(marks, abandon(session, lease, pending, lost))
        batch = max(batch, pending.batch + 1)
        after = with_lives_of(after, pending.range.end)
        ends += pending.left_behind(marked_sinks(session.sinks))
    patience = Pace.of(checkpoint.pace, session.flow.batching).limit(session.flow.batching)
    if patience.max_seconds > _LOOK_UP_S:
        patience = patience.model_copy(update={"max_seconds": _LOOK_UP_S})
    proposed, chunks = _proposed(session, after, patience, pending)
    if proposed is None and pending is None:
        return None
    if proposed is None:
        raise CheckpointConflictError(
            f"flow {session.flow.name}: the unfinished batch {batch - 1} was planned over a range "
            "that the source no longer offers",
            hint=f"Compare `databus checkpoint show {session.flow.name}` with the server's log before going on.",
        )
    if proposed.passed:
        _note(session, lease, LostRange(proposed.range, proposed.passed))
    found = _without_another_key(session, (checkpoint, marks), (proposed, chunks), (batch, pending), (after, patience))
    if found is None:
        return None
    plan, proposed = found
    if session.passed is None:
        session.keys.tell(session.flow, proposed)
    until = unreached(proposed.range.end, *ends)
    plan = replace(plan, mode=_mode(session, checkpoint, proposed), closed_until=until)
    session.store.write_plan(lease, plan)
    if not settled:
        _recall(session, lease, plan, checkpoint)
    return PlannedBatch(plan, proposed, checkpoint, attempt=1)


def _taken_up(session: FlowSession, lease: Lease, pending: Plan, checkpoint: Checkpoint) -> PlannedBatch:
    """Return a plan that was found unfinished, opened again. Raises ChunkFileError where chunks of it are lost."""
    log.info("flow %s: batch %d %s found unfinished, taken up again", pending.flow, pending.batch, pending.range)
    open_again(session.sinks, pending, lease)
    source = _resumed(session, lease, pending)
    _make_unplanned(session, pending, source, checkpoint)
    return PlannedBatch(pending, source, checkpoint, attempt=2)


def _without_another_key(
    session: FlowSession,
    standing: tuple[Checkpoint, Mapping[str, tuple[int, ...]]],
    planned: tuple[SourcePlan, PlannedChunks | None],
    number: tuple[int, Plan | None],
    asked: tuple[Offset, Batching],
) -> tuple[Plan, SourcePlan] | None:
    """Return the plan of a proposed range, or of the part of it that lies before a key that a sink refuses.

    Such a range is planned without the chunks that came with it; None where nothing is left of it then.

    Args:
        session: the flow.
        standing: checkpoint, and what the sinks' markers hold.
        planned: the range, and the chunks that come with it.
        number: batch number, and the plan that was given up for it.
        asked: the offset and the bounds with which the source was asked.
    """
    proposed, chunks = planned
    while True:
        try:
            plan = _new_plan(session, standing, proposed, *number)
        except SinkKeyChangedError as refused:
            if chunks is None:
                proposed = before_another_key(session.source, asked[0], proposed, refused, asked[1])
                continue
            if session.passed is not None:  # nobody reads these chunks again for it
                raise
            session.source.discard(proposed)
            drop_unplanned(session, proposed)
            again, chunks = session.source.plan(*asked), None
            if again is None:
                return None
            proposed = again
        except DatabusError:
            drop_unplanned(session, proposed)
            raise
        else:
            return replace(plan, chunks=chunks), proposed


def _proposed(
    session: FlowSession, after: Offset, limit: Batching, given_up: Plan | None
) -> tuple[SourcePlan | None, PlannedChunks | None]:
    """Return what the source proposes next, with chunks of a snapshot where one is under way.

    While a sink is behind none are read: it would have to have them too. Chunks of a plan that such a sink has taken
    along and gives up come again with the same range: the snapshot has passed them.
    """
    if given_up is not None and given_up.chunks is not None and session.passed is not None:
        source = session.source
        if not isinstance(source, SnapshotSource) or not isinstance(source, RangedSource):
            raise TypeError(f"a source of kind {session.flow.source.kind} has no snapshots")
        chunks = given_up.chunks
        if given_up.range.empty:
            return source.with_chunks(source.reopen(given_up.range), chunks.files), chunks
        return source.with_chunks(source.plan_exactly(given_up.range), chunks.files), chunks
    turns, takes_chunks = session.snapshots, given_up is None
    beside = session.split or session.replays or session.passed is not None
    if takes_chunks and turns is not None and not beside and not is_detached(session):
        planned = turns.plan(session.store, session.source, after, limit, session.clock.now())
        if planned is not None:
            return planned
    catches_up = session.replays or session.passed is not None
    if takes_chunks and turns is not None and not catches_up and turns.over:
        return None, None
    proposed = session.source.plan(after, limit)
    if proposed is None and given_up is not None and given_up.range.empty:  # of chunks alone: a later batch reads them
        proposed = SourcePlan(OffsetRange(after, after), (), 0, 0)
    return proposed, None


def _recall(session: FlowSession, lease: Lease, plan: Plan, checkpoint: Checkpoint) -> None:
    """Recall a replay's markers: nothing refreshes those of a drained piece, and nobody can rewind it."""
    if session.replays:
        recall_piece(session.sinks, plan, lease, checkpoint, session.clock.now(), accept=session.consents)


def _resumed(session: FlowSession, lease: Lease, pending: Plan) -> SourcePlan:
    try:
        found = resumed(session.source, pending.range)
    except OffsetPurgedError as error:
        error.hint = f"{error.hint} {_half_written(session, pending)}".strip()
        raise
    if found.lost is not None:
        _note(session, lease, found.lost)
    if pending.chunks is not None and isinstance(session.source, SnapshotSource):
        found = session.source.with_chunks(found, pending.chunks.files)
    return found


def _make_unplanned(session: FlowSession, pending: Plan, source: SourcePlan, checkpoint: Checkpoint) -> None:
    """Make outputs of statements that a plan lacks since an older databus wrote it, and pinned those of rows alone.

    An older databus notified no sink of columns that move either.
    """
    for name, sink in session.sinks.items():
        with naming(name):
            follow_columns(session.flow, session.sink_spec(name), sink, source)
        named = outputs_named(session.flow, session.sink_spec(name), sink, source)
        if named and isinstance(sink, PinningSink):
            with naming(name):
                sink.make_unplanned(pending, named, known_outputs(checkpoint, name, session.live_standing))


def _half_written(session: FlowSession, pending: Plan) -> str:
    """Say what a skip means for a plan in flight; "" where no sink holds a part of it, or one does not answer."""
    sinks = {name: sink for name, sink in session.sinks.items() if name in pending.sinks}
    held: list[str] = []
    with suppress(DatabusError):
        held = [name for name, sink in sinks.items() if sink.wrote_any_of(pending)]
    if not held:
        return ""
    return (
        f"Batch {pending.batch} is half written ({', '.join(held)}): a skip closes it, what is there stays, and its "
        "rows behind the gap come once more."
    )


def _note(session: FlowSession, lease: Lease, lost: LostRange) -> None:
    note_passed(session.store, session.flow.name, lease, lost, (session.identity.run_id, session.clock.now()))


def _new_plan(
    session: FlowSession,
    standing: tuple[Checkpoint, Mapping[str, tuple[int, ...]]],
    proposed: SourcePlan,
    batch: int,
    given_up: Plan | None,
) -> Plan:
    checkpoint, marks = standing
    sinks: dict[str, SinkPlan] = {}
    require_lane(session.flow, proposed)
    views = {name: seen_by(session.flow, session.sink_spec(name)) for name in session.sinks}
    tables = {name: written_tables(view, proposed.tables) for name, view in views.items()}
    for name, view in views.items():
        with naming(name):
            require_unreserved(view, session.sink_spec(name), tables[name], proposed.tables)
    for name, sink in session.sinks.items():
        outputs = outputs_of(session.flow, session.sink_spec(name), tables[name])
        with naming(name):
            follow_columns(session.flow, session.sink_spec(name), sink, proposed)
            named = outputs_named(session.flow, session.sink_spec(name), sink, proposed)
            pinned = prepare(sink, proposed, outputs, known_outputs(checkpoint, name, session.live_standing), named)
        before = given_up.sinks.get(name) if given_up is not None else None
        pinned = pinned.also_first(before, checkpoint.first.get(name, ()))
        sinks[name] = pinned.following(marks.get(name, ()), batch - 1)
    return Plan(
        installation=session.settings.installation,
        flow=session.flow.name,
        batch=batch,
        range=proposed.range,
        sinks=sinks,
        spec_hash=session.spec_hash,
        clock=session.clock.now(),
    )


def _mode(session: FlowSession, checkpoint: Checkpoint, proposed: SourcePlan) -> str:
    """Return whether rows are moved again: in a backfill, and before the place from which the flow was set back."""
    start, until = proposed.range.start, checkpoint.replay_until
    if session.replays:
        return "replay"
    again = until is not None and overlap(proposed.range, OffsetRange(start, later(start, until)))
    return "replay" if again else "live"


def _next_number(session: FlowSession, checkpoint: Checkpoint) -> int:
    """Numbers are unique in a flow: while a sink is behind, its plans count too."""
    return (session.store.highest_batch(session.flow.name) if session.split else checkpoint.batch) + 1
