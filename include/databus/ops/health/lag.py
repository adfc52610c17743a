"""Measure how far flows are behind their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import pairwise
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.lag import Headroom, Lag, PartitionLag, eta_s
from databus.core.positions.offsets import Offset, Ordering
from databus.core.protocols.optional_source import PartitionedSource
from databus.core.protocols.source import Source
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.snapshot_progress import SnapshotProgress, progress_of
from databus.ops.health.distance import distance
from databus.runtime.context import Services


@dataclass(frozen=True)
class Beginning:
    """Beginning of a flow that never ran, if it ran now.

    Attributes:
        start: the source's option `start`, "" for a source without.
        at: the place that it names now, in text form.
        head: the head of the source's log in text form.
        rows: whether it begins with the rows that its tables hold.
    """

    start: str
    at: str
    head: str
    rows: bool = False

    def __str__(self) -> str:
        if self.rows:
            return f"not started: begins with the rows that its tables hold, at {self.at}"
        return f"not started: begins at {self.at}" + (f" (start={self.start})" if self.start else "")


@dataclass(frozen=True)
class FlowLag:
    """A flow's lag.

    Attributes:
        flow: flow name.
        committed: committed offset in text form, None before the first run.
        lag: distance to the head, None before the first run.
        headroom: distance to what the source's server deletes, None before the first run or where nothing is deleted.
        eta_s: seconds in which the flow is at the head at the rate of its last batches, None when unknown.
        error: why it could not be measured; then nothing else is known.
        beginning: where a flow that never ran would begin; None for one that ran.
        snapshot: how far an unfinished snapshot of it has come; None without one.
    """

    flow: str
    committed: str | None
    lag: Lag | None
    headroom: Headroom | None
    eta_s: float | None = None
    error: DatabusError | None = None
    beginning: Beginning | None = None
    snapshot: SnapshotProgress | None = None


def measure_each(flows: Iterable[Flow], connections: ConnectionSource) -> list[FlowLag]:
    """Measure flows one by one; one that cannot be measured hides no other, and a ZooKeeper is waited for once."""
    from databus.ops.services import open_services

    away: dict[str, DatabusError] = {}
    found = []
    for flow in flows:
        error = away.get(flow.zookeeper_conn_id)
        if error is None:
            with ExitStack() as stack:
                try:
                    services = stack.enter_context(open_services(flow, connections, records=False))
                except DatabusError as refused:
                    error = away[flow.zookeeper_conn_id] = refused
                else:
                    found.append(_measured(flow, services))
        if error is not None:
            found.append(FlowLag(flow.name, None, None, None, error=error))
    return found


def _measured(flow: Flow, services: Services) -> FlowLag:
    try:
        return measure(flow, services)
    except DatabusError as error:
        return FlowLag(flow.name, None, None, None, error=error)


def measure(flow: Flow, services: Services) -> FlowLag:
    """Compare the committed offset, that of the sink furthest behind, with the head of the source's log.

    Raises:
        ConnectionMissingError: a connection of the source is unknown, also before the first run.
        SourceUnavailableError: the source does not answer.
        SourceError: a flow that never ran cannot begin where its `start` says.
    """
    for conn_id, _ in flow.source.conn_ids():
        services.connections.get(conn_id)
    offset = _standing(flow, services)
    with closing(_source(flow, services)) as source:
        if offset is None:
            start, head = source.start_offset(), source.latest_offset()
            option = str(getattr(flow.source, "start", ""))
            begins = Beginning(option, str(start), str(head), flow.source.begins_with_snapshot())
            return FlowLag(flow.name, None, None, None, beginning=begins)
        lag, headroom = distance(flow, services.store, source, offset)
        eta = eta_s(lag.bytes, *_recent(services.store.history(flow.name, _BATCHES + 1)))
        found = services.store.snapshot(flow.name)
        unfinished = None if found is None or not found.unfinished else progress_of(found, services.clock.now())
        return FlowLag(flow.name, str(offset), lag, headroom, eta, snapshot=unfinished)


def measure_partitions(flow: Flow, services: Services) -> Sequence[PartitionLag]:
    """Return the lag of each topic-partition of a flow's source; of one that never ran, all that is to be read first.

    Raises:
        ConfigError: the source has no partitions.
        SourceUnavailableError: it does not answer.
    """
    offset = _standing(flow, services)
    with closing(_source(flow, services)) as source:
        if not isinstance(source, PartitionedSource):
            raise ConfigError(
                f"flow {flow.name}: its source {flow.source.kind} has no partitions",
                hint=f"`databus lag {flow.name}` shows how far it is behind.",
            )
        return source.partition_lags(source.start_offset() if offset is None else offset)


def _source(flow: Flow, services: Services) -> Source:
    return flow.source.open(services.connections, FlowContext(flow.name, services.settings, services.server_ids))


def _standing(flow: Flow, services: Services) -> Offset | None:
    """Return where the sink furthest behind stands; None before the first run."""
    checkpoint = services.store.load(flow.name)
    if checkpoint is None:
        return None
    own = (services.store.of_sink(name).load(flow.name) for name in services.store.sinks_behind(flow.name))
    return reduce(_earlier, (at.offset for at in own if at is not None), checkpoint.offset)


_BATCHES = 20
"""Batches whose rate counts."""


def _recent(history: Sequence[HistoryEntry]) -> tuple[int, float]:
    """Return log bytes of the last batches and the seconds from commit to commit; history is newest first."""
    moved, seconds = 0, 0.0
    for entry, before in pairwise(history):
        if entry.action == "commit" and before.action in {"commit", "start"} and entry.bytes:
            moved += entry.bytes
            seconds += (entry.at - before.at).total_seconds()
    return moved, seconds


def _earlier(one: Offset, other: Offset) -> Offset:
    return other if other.compare(one) is Ordering.BEFORE else one


def lag_facts(found: FlowLag) -> dict[str, Any]:
    """Return a flow's lag as plain JSON; its error is not in it."""
    lag = {**vars(found.lag), "measured_at": found.lag.measured_at.isoformat()} if found.lag else None
    return {
        "flow": found.flow,
        "committed": found.committed,
        "lag": lag,
        "headroom": vars(found.headroom) if found.headroom else None,
        "eta_s": found.eta_s,
        "beginning": {**vars(found.beginning), "text": str(found.beginning)} if found.beginning else None,
        "snapshot": found.snapshot.to_json() if found.snapshot else None,
    }


def lag_of(facts: Mapping[str, Any]) -> FlowLag:
    """Return what `lag_facts` told of."""
    lag, headroom, beginning, snapshot = (facts[name] for name in ("lag", "headroom", "beginning", "snapshot"))
    return FlowLag(
        facts["flow"],
        facts["committed"],
        Lag(**{**lag, "measured_at": datetime.fromisoformat(lag["measured_at"])}) if lag else None,
        Headroom(**headroom) if headroom else None,
        facts["eta_s"],
        beginning=Beginning(**{n: v for n, v in beginning.items() if n != "text"}) if beginning else None,
        snapshot=SnapshotProgress.from_json(snapshot) if snapshot else None,
    )
