"""Open what an installation offers to a flow: checkpoint store, records, clock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchPlan, BatchReport, CheckedBatch
from databus.core.connections import ConnectionSource
from databus.core.errors.source import DecodeError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.recorder import Recorder
from databus.core.protocols.sink import Sink
from databus.core.protocols.source import Source
from databus.core.settings import Settings
from databus.core.state.checkpoint import HistoryEntry
from databus.core.times import SystemClock
from databus.runtime.context import Services, open_ends


@contextmanager
def open_services(
    flow: Flow, connections: ConnectionSource, settings: Settings | None = None, *, records: bool = True
) -> Iterator[Services]:
    """Connect to the flow's ZooKeeper and to the records store; both are closed at the end.

    Args:
        flow: the flow.
        connections: where connections are found.
        settings: the installation's settings; from the environment by default.
        records: False opens the records store with the first record: what only looks need not load SQLAlchemy.

    Raises:
        CheckpointUnavailableError: ZooKeeper does not answer.
        ConnectionMissingError: the flow's ZooKeeper conn_id is unknown.
    """
    from databus.checkpoints.nodes.large_values import LargeValues
    from databus.checkpoints.zookeeper import ZooKeeperCheckpoints

    settings = settings or Settings.from_environment()
    clock = SystemClock()
    large = LargeValues(settings.segment_store, settings.installation)
    with ExitStack() as stack:
        store = stack.enter_context(ZooKeeperCheckpoints.open(connections.get(flow.zookeeper_conn_id), clock, large))
        recorder = _LateRecorder(settings.records_url, stack)
        if records:
            recorder.opened  # noqa: B018 - a wrong URL is refused before anything moves
        yield Services(
            settings=settings,
            connections=connections,
            store=store,
            server_ids=store.server_ids(),
            dump_turns=store.dump_turns(),
            recorder=recorder,
            clock=clock,
            backfills=store.backfills(),
            accepted=store.accepted_wants(),
            topics_read=store.topics_read(),
            hidden_columns=store.hidden_columns(),
        )


class _LateRecorder:
    """A recorder that opens the records store when first used.

    Args:
        url: the records store.
        stack: closes it.
    """

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = url
        self._stack = stack

    @cached_property
    def opened(self) -> Recorder:
        """The recorder itself; raises ConfigError when the URL is none of SQLite or PostgreSQL."""
        from databus.records.recorder import SqlRecorder

        return self._stack.enter_context(SqlRecorder.open(self._url))

    def record(self, *reports: BatchReport) -> None:
        self.opened.record(*reports)

    def paged(self, flow: str) -> int:
        return self.opened.paged(flow)

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        return self.opened.page(flow, entries)

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow], plan_hash: str = "") -> None:
        self.opened.quarantine(flow, batch, rows, plan_hash=plan_hash)

    def checked_batches(self, flow: str, after: int) -> Sequence[CheckedBatch]:
        return self.opened.checked_batches(flow, after)

    def held_by_checks(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        return self.opened.held_by_checks(flow, batches)


@dataclass(frozen=True)
class Ends:
    """Open ends of a flow: its source and sinks.

    Attributes:
        source: open source.
        sinks: open sinks by name, in the flow's order.
    """

    source: Source
    sinks: Mapping[str, Sink]


@contextmanager
def opened_ends(flow: Flow, services: Services) -> Iterator[Ends]:
    """Open source and sinks; all are closed at the end.

    Raises:
        DatabusError: a connection is missing, a server refused or cannot be reached.
    """
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with ExitStack() as stack:
        yield Ends(*open_ends(stack, flow, services.connections, context))


@contextmanager
def naming_flow(flow: Flow) -> Iterator[None]:
    """Write flow and connection into an error of decoding that the block raises."""
    try:
        yield
    except DecodeError as error:
        of = f"flow {flow.name}: "
        if not error.message.startswith(of):
            where = ", ".join(conn_id for conn_id, _ in flow.source.conn_ids() if conn_id not in error.message)
            error.message = f"{of}{f'{where}: ' if where else ''}{error.message}"
        raise
