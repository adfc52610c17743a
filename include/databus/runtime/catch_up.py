"""What a new holder does before it reads: take over what was moved without ZooKeeper, compare with the sinks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from databus.checkpoints.spool import PlanSpool
from databus.core.checkpoint import Checkpoint
from databus.core.errors import ConfigError, MarkersAheadError, StaleEpochError
from databus.core.marks import ClaimRegister, MarkedSink, SlotMark
from databus.core.plan import Plan
from databus.core.protocols import Lease
from databus.runtime.context import FlowSession
from databus.runtime.detached import DetachableStore, Terms
from databus.runtime.drain import Drain
from databus.runtime.patience import Patience, PatientStore

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


@contextmanager
def outlasting(session: FlowSession, drain: Drain, patience_s: float) -> Iterator[FlowSession]:
    """Give the session a store that outlasts ZooKeeper's absence as the flow wants it.

    Raises:
        ConfigError: the flow wants to go on without ZooKeeper and has no sink with markers.
    """
    patience, flow = Patience(patience_s, drain), session.flow
    if flow.on_zookeeper_loss == "stop":
        yield replace(session, store=PatientStore(session.store, patience))
        return
    register = _register(session)
    terms = Terms(flow.zookeeper_loss_seconds, flow.zookeeper_loss_batches)
    store = DetachableStore(session.store, patience, terms, spool_of(session), register)
    try:
        yield replace(session, store=store, register=register)
    finally:
        store.close()


def is_detached(session: FlowSession) -> bool:
    """Tell whether the holder goes on without ZooKeeper just now."""
    return isinstance(session.store, DetachableStore) and session.store.detached


def spool_of(session: FlowSession) -> PlanSpool:
    """Return the flow's spool."""
    return PlanSpool(session.settings.segment_store, session.settings.installation, session.flow.name)


def catch_up(session: FlowSession, lease: Lease) -> Checkpoint | None:
    """Take over what a former holder moved while ZooKeeper was away, and make sure that no sink is ahead of ZooKeeper.

    Returns:
        The checkpoint, None for a flow that never ran.

    Raises:
        MarkersAheadError: sinks hold batches that neither ZooKeeper nor the spool knows; nothing was read or written.
        StaleEpochError: another run claimed the flow since.
    """
    flow, spool = session.flow.name, spool_of(session)
    if session.register is not None:
        _take_over(session, lease, spool, session.register)
    elif not spool.is_empty():
        register = _register(session)
        try:
            _take_over(session, lease, spool, register)
        finally:
            register.close()
    checkpoint, pending = session.store.load(flow), session.store.pending_plan(flow)
    ahead = slots_ahead(session, checkpoint, pending)
    if ahead:
        raise _behind(flow, checkpoint, ahead)
    return checkpoint


def slots_ahead(session: FlowSession, checkpoint: Checkpoint | None, pending: Plan | None) -> Sequence[Ahead]:
    """Return the slots that hold a batch which is neither committed nor in flight."""
    found: list[Ahead] = []
    for name, marks in marks_of(session, checkpoint).items():
        for slot, mark in enumerate(marks):
            if mark is not None and _is_ahead(mark, checkpoint, pending):
                found.append(Ahead(name, slot, mark))
    return found


def marks_of(session: FlowSession, checkpoint: Checkpoint | None) -> Mapping[str, Sequence[SlotMark | None]]:
    """Return sink → the marks of its slots, those the flow has now and those it had at the checkpoint."""
    known = checkpoint.slots if checkpoint else {}
    found = {}
    for name, sink in session.sinks.items():
        if isinstance(sink, MarkedSink):
            slots = max(int(getattr(session.sink_spec(name), "slots", 1)), len(known.get(name, ())))
            found[name] = sink.marks(slots)
    return found


def _is_ahead(mark: SlotMark, checkpoint: Checkpoint | None, pending: Plan | None) -> bool:
    if pending is not None and mark.batch == pending.batch:
        return mark.plan_hash != pending.hash
    return mark.batch > (checkpoint.batch if checkpoint else 0)


def _take_over(session: FlowSession, lease: Lease, spool: PlanSpool, register: ClaimRegister) -> None:
    flow = session.flow.name
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
    checkpoint = session.store.load(flow)
    if said is None or checkpoint is None or said.batch <= checkpoint.batch:
        spool.clear()
        return
    chain = spool.chain(checkpoint, said)
    session.store.reconcile(lease, flow, chain.outcomes, chain.pending)
    log.warning(
        "flow %s: %d batches that epoch %d moved while ZooKeeper was away are added to it%s",
        flow,
        len(chain.outcomes),
        said.epoch,
        f"; batch {chain.pending.batch} is taken up again" if chain.pending else "",
    )
    spool.clear()


def _register(session: FlowSession) -> ClaimRegister:
    """Return the register of the flow's first sink with markers."""
    for sink in session.sinks.values():
        if isinstance(sink, MarkedSink):
            return sink.register()
    raise ConfigError(
        f"flow {session.flow.name}: on_zookeeper_loss=continue needs a sink with markers, such as Kafka",
        hint="The markers tell two holders apart while ZooKeeper cannot; without them use on_zookeeper_loss=stop.",
    )


def _behind(flow: str, checkpoint: Checkpoint | None, ahead: Sequence[Ahead]) -> MarkersAheadError:
    stands = f"batch {checkpoint.batch}, {checkpoint.offset}" if checkpoint else "nothing committed"
    return MarkersAheadError(
        f"flow {flow}: the checkpoint stands at {stands}, but {'; '.join(map(str, ahead))}",
        hint="ZooKeeper was restored from an older copy, or another installation of the same name writes there. "
        f"Nothing was read. To go on from what the sinks hold: databus checkpoint adopt {flow}",
    )
