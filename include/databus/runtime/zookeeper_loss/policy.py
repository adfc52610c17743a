"""Store of a claim while ZooKeeper is away: retried, or replaced by the spool, as the flow wants it (ADR 19)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from databus.checkpoints.spool import PlanSpool
from databus.core.errors.config import ConfigError
from databus.core.protocols.sink import Sink
from databus.core.settings import Settings
from databus.core.state.sink_markers import ClaimRegister, MarkedSink
from databus.runtime.context import FlowSession
from databus.runtime.drain import Drain
from databus.runtime.zookeeper_loss.detached_store import DetachableStore, Terms
from databus.runtime.zookeeper_loss.retrying_store import Retry, RetryingStore


@contextmanager
def outlasting(session: FlowSession, drain: Drain, patience_s: float) -> Iterator[FlowSession]:
    """Give the session a store that outlasts ZooKeeper's absence as the flow wants it.

    Raises:
        ConfigError: the flow wants to go on without ZooKeeper and has no sink with markers.
    """
    retry, flow = Retry(patience_s, drain), session.flow
    goes_on = flow.on_zookeeper_loss != "stop"
    for memory in session.memories():
        memory.outlasting(retry, session.store.connected, goes_on=goes_on)
    if not goes_on:
        yield replace(session, store=RetryingStore(session.store, retry), raw_store=session.store)
        return
    register = register_of(flow.name, session.every_sink)
    terms = Terms(flow.zookeeper_loss_seconds, flow.zookeeper_loss_batches)
    spool = spool_of(session.settings, flow.name)
    store = DetachableStore(flow.name, session.store, retry, terms, spool, register)
    try:
        yield replace(session, store=store, raw_store=session.store, register=register)
    finally:
        store.close()


def goes_on(session: FlowSession) -> bool:
    """Return whether the holder would go on without ZooKeeper."""
    return isinstance(session.store, DetachableStore)


def is_detached(session: FlowSession) -> bool:
    """Return whether the holder goes on without ZooKeeper just now."""
    return isinstance(session.store, DetachableStore) and session.store.detached


def spool_of(settings: Settings, flow: str) -> PlanSpool:
    """Return the flow's spool."""
    return PlanSpool(settings.segment_store, settings.installation, flow)


def marked_sinks(sinks: Mapping[str, Sink]) -> Mapping[str, MarkedSink]:
    """Return the sinks that keep markers."""
    return {name: sink for name, sink in sinks.items() if isinstance(sink, MarkedSink) and sink.marked}


def register_of(flow: str, sinks: Mapping[str, Sink]) -> ClaimRegister:
    """Return the register of the flow's first sink with markers.

    Raises:
        ConfigError: there is none.
    """
    for sink in marked_sinks(sinks).values():
        return sink.register()
    raise ConfigError(
        f"flow {flow}: on_zookeeper_loss=continue needs a sink with markers, such as Kafka",
        hint="The markers distinguish two holders while ZooKeeper cannot; without them use on_zookeeper_loss=stop.",
    )
