"""Takeover by a new holder, before anything else: adopt what was moved without ZooKeeper, compare with the sinks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from databus.checkpoints.spool import PlanSpool
from databus.core.errors.checkpoint import CheckpointError, StaleEpochError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import MarkersAheadError, SinkUnavailableError
from databus.core.flow import Flow
from databus.core.protocols.sink import Sink
from databus.core.settings import Settings
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import ClaimRegister, SlotMark
from databus.runtime.context import FlowSession
from databus.runtime.zookeeper_loss.policy import marked_sinks, register_of, spool_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ahead:
    """A slot that holds a batch which the checkpoint store does not know.

    Attributes:
        sink: sink name.
        slot: number of the slot.
        mark: what it holds.
    """

    sink: str
    slot: int
    mark: SlotMark

    def __str__(self) -> str:
        return f"sink {self.sink}, slot {self.slot}: {self.mark}"


@dataclass(frozen=True)
class ClaimedFlow:
    """A flow under a claim of its lease.

    Attributes:
        flow: the flow.
        settings: the installation's settings; its segment store holds the spool.
        store: checkpoint store.
        sinks: all sinks of the flow, open, by name.
        lease: the claim.
        register: the flow's register when it is open already; else it is opened where it is needed.
    """

    flow: Flow
    settings: Settings
    store: CheckpointStore
    sinks: Mapping[str, Sink]
    lease: Lease
    register: ClaimRegister | None = None

    @classmethod
    def of(cls, session: FlowSession, lease: Lease) -> ClaimedFlow:
        """Return what is claimed of a session."""
        return cls(session.flow, session.settings, session.store, session.every_sink, lease, session.register)


def take_over(claimed: ClaimedFlow) -> Checkpoint | None:
    """Take over what a former holder moved while ZooKeeper was away, and make sure that no sink is ahead of ZooKeeper.

    Returns:
        The checkpoint, None for a flow that never ran.

    Raises:
        MarkersAheadError: sinks hold batches that neither ZooKeeper nor the spool knows; nothing was read or written.
        StaleEpochError: another run claimed the flow since.
    """
    flow, spool = claimed.flow, spool_of(claimed.settings, claimed.flow.name)
    if claimed.register is not None:
        _reconcile(claimed, spool, claimed.register)
    elif flow.on_zookeeper_loss == "continue" or not spool.is_empty():
        register = register_of(flow.name, claimed.sinks)
        try:
            _reconcile(claimed, spool, register)
        finally:
            register.close()
    # Asked here in any case: a store that stands in for ZooKeeper later must have seen both.
    checkpoint, pending = claimed.store.load(flow.name), claimed.store.pending_plan(flow.name)
    ahead = slots_ahead(claimed.store, flow, claimed.sinks, (checkpoint, pending))
    if ahead:
        raise _behind_sinks(flow.name, checkpoint, ahead)
    return checkpoint


def refuse_superseded(store: CheckpointStore, flow: str, lease: Lease, error: DatabusError) -> None:
    """Raise that a holder was taken over, whatever it failed with: its successor removes what it still wants to read.

    Raises:
        StaleEpochError: another run has committed since; `error` is its cause.
    """
    if isinstance(error, CheckpointError):
        return
    try:
        checkpoint = store.load(flow)
    except CheckpointError as unanswered:
        log.warning("flow %s: whether another run has taken over is not known: %s", flow, unanswered)
        return
    if checkpoint is not None and checkpoint.epoch > lease.epoch:
        raise StaleEpochError(
            f"flow {flow}: epoch {checkpoint.epoch} has taken over from epoch {lease.epoch}, whose batch then failed: "
            f"{error.message}"
        ) from error


def slots_ahead(
    store: CheckpointStore, flow: Flow, sinks: Mapping[str, Sink], stands: tuple[Checkpoint | None, Plan | None]
) -> Sequence[Ahead]:
    """Return the slots that hold a batch that is neither committed, nor in flight, nor closed before the plan was made.

    A sink that is away is left out: it may be the one that the others go on without, and its writers compare again.

    Args:
        store: checkpoint store; asked for the sinks that are behind, each of which has a checkpoint of its own.
        flow: the flow.
        sinks: its sinks.
        stands: its checkpoint and plan in flight.
    """
    behind, found = store.sinks_behind(flow.name), list[Ahead]()
    for name in marked_sinks(sinks):
        own = store.of_sink(name) if name in behind else None
        checkpoint, pending = (own.load(flow.name), own.pending_plan(flow.name)) if own else stands
        try:
            # Not waited for: what a dead holder left open, this claim's writers end, and compare with again.
            marks = marks_of(flow, sinks, name, checkpoint, settled=False)
        except SinkUnavailableError as error:
            log.warning("flow %s: markers of sink %s are not compared: %s", flow.name, name, error)
            continue
        for slot, mark in enumerate(marks):
            if mark is not None and _is_ahead(mark, checkpoint, pending, _before(pending, name, slot)):
                found.append(Ahead(name, slot, mark))
    return found


def marks_of(
    flow: Flow, sinks: Mapping[str, Sink], name: str, checkpoint: Checkpoint | None, *, settled: bool = True
) -> Sequence[SlotMark | None]:
    """Return the marks of a sink's slots, those the flow has now and those it had at the checkpoint."""
    spec = next(s for s in flow.sinks if s.sink_name == name)
    known = checkpoint.slots.get(name, ()) if checkpoint else ()
    return marked_sinks(sinks)[name].marks(max(int(getattr(spec, "slots", 1)), len(known)), settled=settled)


def _before(pending: Plan | None, sink: str, slot: int) -> int:
    """Return the batch that a slot held when the plan in flight was made: it may have been closed, not committed."""
    previous = pending.sinks[sink].prev if pending is not None and sink in pending.sinks else ()
    return previous[slot] if slot < len(previous) else 0


def _is_ahead(mark: SlotMark, checkpoint: Checkpoint | None, pending: Plan | None, before: int) -> bool:
    if pending is not None and mark.batch == pending.batch:
        return mark.plan_hash != pending.hash
    return mark.batch > max(checkpoint.batch if checkpoint else 0, before)


def _reconcile(claimed: ClaimedFlow, spool: PlanSpool, register: ClaimRegister) -> None:
    flow, lease = claimed.flow.name, claimed.lease
    try:
        said = register.take(lease.epoch)
    except StaleEpochError as error:
        if not lease.held():
            raise
        raise MarkersAheadError(
            f"flow {flow}: ZooKeeper gave epoch {lease.epoch}, but the sinks have seen a later one ({error.message}): "
            "it was restored from an older copy",
            hint=f"Go on from the sinks' markers: databus checkpoint adopt {flow}",
        ) from error
    checkpoint = claimed.store.load(flow)
    if said is None or checkpoint is None or said.batch <= checkpoint.batch:
        spool.clear()
        return
    pending = claimed.store.pending_plan(flow)
    stands = pending is not None and (pending.batch, pending.hash) == (said.batch, said.plan_hash)
    if pending is not None and stands and not spool.holds(pending):
        return  # a claimer put it there, and did not come to finish it
    chain = spool.chain(checkpoint, said)
    claimed.store.reconcile(lease, flow, chain.outcomes, chain.pending)
    log.warning(
        "flow %s: %d batches that epoch %d moved while ZooKeeper was away are added to it%s",
        flow,
        len(chain.outcomes),
        said.epoch,
        f"; batch {chain.pending.batch} is taken up again" if chain.pending else "",
    )
    spool.clear()


def _behind_sinks(flow: str, checkpoint: Checkpoint | None, ahead: Sequence[Ahead]) -> MarkersAheadError:
    stands = f"batch {checkpoint.batch}, {checkpoint.offset}" if checkpoint else "nothing committed"
    return MarkersAheadError(
        f"flow {flow}: the checkpoint stands at {stands}, but {'; '.join(map(str, ahead))}",
        hint="ZooKeeper was restored from an older copy, or another installation of the same name writes there. "
        f"Nothing was read. To go on from what the sinks hold: databus checkpoint adopt {flow}",
    )
