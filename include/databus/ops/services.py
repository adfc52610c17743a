"""Open what an installation offers to a flow: checkpoint store, records, clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.core.settings import Settings
from databus.observe.clock import SystemClock
from databus.runtime.context import Services


@contextmanager
def open_services(flow: Flow, connections: ConnectionSource, settings: Settings | None = None) -> Iterator[Services]:
    """Connect to the flow's ZooKeeper and to the records store; both are closed at the end.

    Raises:
        CheckpointUnavailableError: ZooKeeper does not answer.
        ConnectionMissingError: the flow's ZooKeeper conn_id is unknown.
    """
    from databus.checkpoints.large_values import LargeValues
    from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
    from databus.records.recorder import SqlRecorder

    settings = settings or Settings.from_environment()
    clock = SystemClock()
    large = LargeValues(settings.segment_store, settings.installation)
    with (
        ZooKeeperCheckpoints.open(connections.get(flow.zookeeper), clock, large) as store,
        SqlRecorder.open(settings.records_url) as recorder,
    ):
        yield Services(
            settings=settings,
            connections=connections,
            store=store,
            server_ids=store.server_ids(),
            dump_turns=store.dump_turns(),
            recorder=recorder,
            clock=clock,
            backfills=store.backfills(),
        )
