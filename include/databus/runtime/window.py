"""A window: one claim of the lease, then micro-batches back to back until it is time to stop."""

from __future__ import annotations

import logging
import math
import time
from contextlib import closing
from dataclasses import dataclass, field

from databus.core.batches.report import BatchReport
from databus.core.errors.batch import QualityGateError, TransformError
from databus.core.errors.checkpoint import FlowPausedError, LeaseBusyError, StaleEpochError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkError
from databus.core.errors.source import OffsetPurgedError, SourceError
from databus.core.positions.offset_ranges import counted_as
from databus.core.positions.offsets import Offset, Ordering
from databus.core.protocols.optional_source import SharedLogSource
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.snapshot import BEGINS_WITH_ROWS
from databus.runtime.batch import move_batch
from databus.runtime.context import FlowSession
from databus.runtime.gap_notes import note_purged
from databus.runtime.ledger_paging import PAGE_EVERY, page_out
from databus.runtime.live.lane import live_lane
from databus.runtime.marker_refresh import Upkeep
from databus.runtime.sink_outage.lagging_sinks import SinksBehind
from databus.runtime.tables.missing_tables import MissingTables
from databus.runtime.takeover.sweep import sweep
from databus.runtime.takeover.takeover import ClaimedFlow, refuse_superseded, take_over
from databus.runtime.window_limits import WindowControl
from databus.runtime.window_result import WindowResult
from databus.runtime.zookeeper_loss.policy import is_detached, outlasting

log = logging.getLogger(__name__)


def run_window(session: FlowSession, control: WindowControl, missing: MissingTables | None = None) -> WindowResult:
    """Claim the flow and run batches until a limit, a waiting successor or a drain; the lease is always given back.

    A lease that is lost (a session that ended while ZooKeeper was away) is claimed again when nobody else has it.

    Args:
        session: the flow, open.
        control: when to end.
        missing: looks for tables that go meanwhile; None where nobody asks.

    Raises:
        FlowPausedError: a person has paused the flow; nothing was begun.
        LeaseBusyError: another run held the lease for longer than `lease_wait_s`.
        StaleEpochError: the lease was lost, and another run has it now.
        DatabusError: a batch failed; the checkpoint stands at the last committed batch.
    """
    with outlasting(session, control.drain, control.limits.store_wait_s) as outlasting_session:
        refuse_paused(outlasting_session)
        open_ended = not control.limits.until_caught_up
        with live_lane(outlasting_session, control.drain, open_ended=open_ended) as at_the_head:
            return _run(at_the_head, control, missing)


def _run(session: FlowSession, control: WindowControl, missing: MissingTables | None) -> WindowResult:
    flow, limits = session.flow.name, control.limits
    who = session.identity
    lease = session.store.claim(flow, who.run_id, limits.lease_wait_s, who.run_url)
    try:
        refuse_paused(session)  # it may have been paused while this run waited for the lease
        session.interrupt_orphans()
        window = _Window(session, control, WindowResult(flow, _begin(session, lease)), missing)
        while not window.move(lease):
            lease = _claim_again(session, lease)
            window.result.checkpoint = _begin(session, lease)
        window.result.drained = control.drain.requested
        return window.result
    except OffsetPurgedError as error:
        note_purged(session.store, flow, lease, error, (who.run_id, who.run_url, session.clock.now()))
        raise
    except DatabusError as error:
        refuse_superseded(session.store, flow, lease, error)
        raise
    finally:
        lease.release()


def _begin(session: FlowSession, lease: Lease) -> Checkpoint:
    """Bring ZooKeeper and the ledger up to date under a new claim; return where the flow goes on from."""
    checkpoint = take_over(ClaimedFlow.of(session, lease)) or _start(session, lease)
    if session.hidden is not None and session.flow.transforms:
        session.hidden.begin()
    for memory in session.hidden_of.values():
        memory.begin()
    if session.snapshots is not None and is_detached(session):
        session.snapshots.require_begun(checkpoint)
    elif session.snapshots is not None:
        session.snapshots.begin(
            session.store, lease, session.source, checkpoint, session.identity.run_id, session.clock.now()
        )
    _page_out(session)
    sweep(session)
    return checkpoint


@dataclass
class _Window:
    """Batches back to back, under one claim after the other.

    Attributes:
        session: the flow, open.
        control: when to end.
        result: what was done so far.
        missing: looks for tables that go; None where nobody asks.
        ends: monotonic time after which no batch is begun.
        lost: whether the claim was lost before the window was over.

    It looks for one batch at least before it hands over: runs that come late, all at once, would else pass the lease on
    from one to the next and move nothing.
    """

    session: FlowSession
    control: WindowControl
    result: WindowResult
    missing: MissingTables | None = None
    ends: float = field(init=False)
    lost: bool = False
    _looked: bool = False
    _head: Offset | None = None
    _upkeep: Upkeep = field(default_factory=Upkeep)

    def __post_init__(self) -> None:
        self.ends = time.monotonic() + self.control.limits.max_seconds
        if self.missing is not None:
            self.missing.begin(self.control.limits.max_seconds, self.result.checkpoint)

    def move(self, lease: Lease) -> bool:
        """Move batches under a claim; return True when the window is over, False when the claim was lost."""
        session, result = self.session, self.result

        def over() -> bool:
            return self._over(lease)

        def caught_up(sink: str, report: BatchReport) -> None:
            result.add_of_sink(sink, report)
            self.control.on_batch(report)

        self.lost, before, settled = False, result.batches, False
        with closing(SinksBehind(session, lease, caught_up, over)) as behind:
            while not over():
                self._note_head()
                stood, result.checkpoint = result.checkpoint, behind.turn(result.checkpoint)
                settled = settled and stood is result.checkpoint
                try:
                    moved = self._move_joined(behind, lease, settled=settled)
                except SinkError as error:
                    self._looked, settled = True, False
                    behind.endure(error, result.checkpoint, self.control.drain.wait)
                    continue
                # Under this claim only this window plans: once a batch was looked for, none is left unfinished.
                self._looked = settled = True
                behind.went_well()
                if self.missing is not None:
                    self.missing.look_when_due(result.checkpoint.offset)
                if moved is None:
                    if not is_detached(session):  # markers are written again under a lease only
                        self._upkeep.idle(behind.joined, result.checkpoint.updated_at)
                    until_head = self.control.limits.until_caught_up and not self._chunks_held()
                    if behind.idle() and (self._over_for_good() or until_head):
                        break
                    continue
                report, result.checkpoint = moved
                result.add(report)
                if result.batches % PAGE_EVERY == 0:
                    _page_out(session)
                self.control.on_batch(report)
                if self._only_others_go_on(report) and behind.idle():
                    break
            result.behind = behind.offsets()
            if not self.lost:
                if result.batches > before:
                    _page_out(session)
                behind.require_well()
        return not self.lost

    def _move_joined(
        self, behind: SinksBehind, lease: Lease, *, settled: bool
    ) -> tuple[BatchReport, Checkpoint] | None:
        """Move a batch to the joined sinks; what the flow cannot pass ends the window once the others caught up."""
        try:
            return move_batch(behind.joined, lease, self.result.checkpoint, settled=settled)
        except (SourceError, TransformError, QualityGateError) as error:
            if not error.retryable:  # a person has to pass it, which is refused while a sink is behind
                self.result.checkpoint = behind.catch_up(self.result.checkpoint, error)
            raise
        finally:
            self.session.slots.batch_over()

    def _note_head(self) -> None:
        source = self.session.source
        if self._head is None and self.control.limits.until_caught_up and isinstance(source, SharedLogSource):
            self._head = source.latest_offset()

    def _over_for_good(self) -> bool:
        """Return whether nothing is to come: the flow reads its tables alone, and has read them."""
        turns = self.session.snapshots
        if turns is None or not turns.over:
            return False
        log.info("%s", turns.told_over())
        return True

    def _only_others_go_on(self, report: BatchReport) -> bool:
        """Return whether the window passed the head that it began with, and this batch has no rows of the flow."""
        if self._head is None or any(counts.read for counts in report.tables.values()):
            return False
        if report.plan.chunks is not None and report.plan.chunks.snapshot.under_way:
            return False
        if self._chunks_held():
            return False
        end = report.plan.range.end
        return end.compare(counted_as(self._head, end)) in (Ordering.EQUAL, Ordering.AFTER)

    def _chunks_held(self) -> bool:
        """Return whether the flow's own bounds alone keep chunks of a snapshot back: it has not caught up then."""
        return self.session.snapshots is not None and self.session.snapshots.held

    def _over(self, lease: Lease) -> bool:
        control = self.control
        # Without ZooKeeper no successor can take over: the window has no end of its own then.
        ends = math.inf if is_detached(self.session) else self.ends
        if control.drain.requested or time.monotonic() >= ends:
            return True
        if control.limits.max_batches is not None and self.result.batches >= control.limits.max_batches:
            return True
        if not lease.held():
            self.session.store.load(self.result.flow)  # waits until the store can be asked, or goes on without it
            self.lost = not lease.held()
            if self.lost:
                return True
        hands_over = control.limits.hands_over and self._looked
        return (hands_over and lease.successor_waiting()) or _paused(self.session, self.result)


def _page_out(session: FlowSession) -> None:
    """Write ledger pages; without ZooKeeper there is no history to read."""
    if not is_detached(session):
        page_out(session.store, session.recorder, session.flow.name)


def _claim_again(session: FlowSession, lost: Lease) -> Lease:
    """Return a new claim after one was lost.

    Raises:
        StaleEpochError: another run holds the flow now.
    """
    flow = session.flow.name
    log.warning("flow %s: the lease of epoch %d was lost, claiming it again", flow, lost.epoch)
    lost.release()
    try:
        return session.store.claim(flow, session.identity.run_id, 0, session.identity.run_url)
    except LeaseBusyError as error:
        raise StaleEpochError(
            f"flow {flow}: the lease of epoch {lost.epoch} was lost, and another run has it now: {error.message}"
        ) from error


def refuse_paused(session: FlowSession) -> None:
    """Refuse to run a flow that a person has paused.

    Raises:
        FlowPausedError: names who paused it, since when and why.
    """
    pause = session.store.paused(session.flow.name)
    if pause is not None:
        raise FlowPausedError(
            f"flow {session.flow.name} is {pause}",
            hint=f"`databus checkpoint resume {session.flow.name} --reason … --execute` lets it go on.",
        )


def _paused(session: FlowSession, result: WindowResult) -> bool:
    pause = session.store.paused(session.flow.name)
    if pause is not None:
        log.warning("flow %s: %s; the window ends", session.flow.name, pause)
        result.paused = str(pause)
    return pause is not None


def _start(session: FlowSession, lease: Lease) -> Checkpoint:
    offset = session.source.start_offset()
    log.info("flow %s: first run, starts after %s", session.flow.name, offset)
    why = BEGINS_WITH_ROWS if session.snapshots is not None and session.snapshots.initial else ""
    return session.store.start(session.flow.name, lease, offset, session.identity.run_id, why)
