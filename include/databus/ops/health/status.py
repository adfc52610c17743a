"""Look at a flow from outside any run: ZooKeeper, the head of its source, and the records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from databus.checkpoints.nodes.large_values import LargeValues
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.alerts.flow_status import FlowFigures
from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.gaps import OPEN
from databus.core.positions.offsets import KafkaOffsets, Offset, Ordering
from databus.core.positions.topics_read import TopicsRead
from databus.core.protocols.optional_source import DefinedSource, PartitionedSource, SharedLogSource
from databus.core.protocols.recorder import Clock
from databus.core.protocols.source import Source
from databus.core.settings import Settings
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.snapshot_progress import SnapshotProgress, progress_of
from databus.core.times import SystemClock
from databus.ops.health.distance import distance
from databus.ops.shared_clients import SharedClients
from databus.runtime.tables.missing_tables import EVERY_S, really_gone

log = logging.getLogger(__name__)

SOURCE, STORE, RECORDS = "source", "checkpoint store", "records"
"""Parts that can be unreachable."""
_PLACES = {SOURCE: "_source", RECORDS: "_records", STORE: "_store"}

_stores: SharedClients[ZooKeeperCheckpoints] = SharedClients()
_record_stores: SharedClients[Any] = SharedClients()
_SHARED: Mapping[str, SharedClients[Any]] = {STORE: _stores, RECORDS: _record_stores}


@dataclass
class FlowLook:
    """Looks at one flow again and again; connections stay open between looks and are opened anew after an error.

    The looks of a process share what they can: one session of ZooKeeper and one engine of the records serve all flows,
    and a source with a log that many flows read is connected while it is asked. So hundreds of flows can be looked at.

    Attributes:
        flow: the flow.
        connections: resolves its conn_ids.
        settings: where the records are.
        clock: gives the time.
    """

    flow: Flow
    connections: ConnectionSource
    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    _store: ZooKeeperCheckpoints | None = field(default=None, init=False, repr=False)
    _source: Source | None = field(default=None, init=False, repr=False)
    _records: Any = field(default=None, init=False, repr=False)
    _held_at: datetime | None = field(default=None, init=False)
    _missing: tuple[datetime, tuple[str, ...]] | None = field(default=None, init=False, repr=False)
    _since: SnapshotProgress | None = field(default=None, init=False, repr=False)
    _at: tuple[Checkpoint, Offset] | None = field(default=None, init=False, repr=False)

    def look(self, quarantine_s: float = 3600.0) -> FlowFigures:
        """Return the flow's figures; what does not answer is named in them and never raised.

        Args:
            quarantine_s: rows held back for the first time within so many seconds count as new.
        """
        figures, self._at = FlowFigures(self.flow.name, self.clock.now()), None
        parts = ((STORE, self._of_store), (RECORDS, self._of_records), (SOURCE, self._of_source))
        away: dict[str, str] = {}
        for what, measure in parts:
            kept = getattr(self, _PLACES[what]) is not None
            try:
                try:
                    figures = measure(figures, quarantine_s)
                except DatabusError:
                    self._drop(what)
                    if not kept:
                        raise
                    figures = measure(figures, quarantine_s)  # what was kept since the last look may have been cut
            except DatabusError as error:
                self._drop(what)
                away[what] = error.message
            except Exception as error:
                # A fault in one part must not hide the others. Only our own errors are known to hold no secrets.
                log.exception("flow %s: %s was not looked at", self.flow.name, what)
                self._drop(what)
                away[what] = f"{type(error).__name__}, see the log of who looked"
        self.rest()
        return replace(figures, unreachable=away)

    def rest(self) -> None:
        """Close what each flow has of its own at a server that many flows share, until the next look."""
        if isinstance(self._source, SharedLogSource):
            self._source.rest()

    @property
    def store(self) -> ZooKeeperCheckpoints:
        """The checkpoint store, connected at first use.

        Raises:
            CheckpointError: it does not answer.
        """
        if self._store is None:
            connection, settings = self.connections.get(self.flow.zookeeper_conn_id), self.settings
            large = LargeValues(settings.segment_store, settings.installation)
            self._store = _stores.take(
                (connection, settings.segment_store, settings.installation, self.clock),
                lambda: ZooKeeperCheckpoints.open(connection, self.clock, large),
            )
        return self._store

    def position(self) -> tuple[Checkpoint, Offset] | None:
        """Return the checkpoint and where the sink furthest behind stands; None before the first run."""
        checkpoint = self.store.load(self.flow.name)
        if checkpoint is None:
            return None
        own = (self.store.of_sink(sink).load(self.flow.name) for sink in self.store.sinks_behind(self.flow.name))
        return checkpoint, reduce(_earlier, (at.offset for at in own if at is not None), checkpoint.offset)

    def snapshot(self) -> SnapshotProgress | None:
        """Return how far the flow's last snapshot has come, its rate counted over the looks; None before the first."""
        found, now = self.store.snapshot(self.flow.name), self.clock.now()
        if found is None or not found.under_way:
            self._since = None
        elif self._since is None or self._since.number != found.number:
            self._since = progress_of(found, now)
        return None if found is None else progress_of(found, now, self._since)

    def audited(self, run_ids: Collection[str]) -> set[str]:
        """Return which of these runs were audited and so are over; none if the records did not answer the last look."""
        from databus.records.run_ranges import audited

        try:
            return audited(self._records, self.flow.name, run_ids) if self._records is not None else set()
        except DatabusError:
            return set()

    def moved_by(self, run_id: str) -> str:
        """Return the range that a run moved, in text form; "" for none, and as `audited`."""
        from databus.records.run_ranges import moved_by

        if self._records is None or not run_id:
            return ""
        try:
            return moved_by(self._records, self.flow.name, run_id).range
        except DatabusError:
            return ""

    def source(self) -> Source:
        """Return the open source.

        Raises:
            DatabusError: it does not answer.
        """
        if self._source is None:
            context = FlowContext(self.flow.name, self.settings)
            self._source = self.flow.source.open(self.connections, context)
        return self._source

    def close(self) -> None:
        """Close what is open; safe to call twice."""
        for what in (SOURCE, RECORDS, STORE):
            self._drop(what)

    def __enter__(self) -> FlowLook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of_store(self, figures: FlowFigures, _quarantine_s: float) -> FlowFigures:
        name, store = self.flow.name, self.store
        held = store.holder(name)
        if held is not None:
            self._held_at = figures.at
        plan, pause = store.pending_plan(name), store.paused(name)
        self._at = at = self.position()
        runs = [when for when in (store.last_claim(name), self._held_at, at and at[0].updated_at) if when]
        return replace(
            figures,
            committed=str(at[1]) if at else "",
            batch=at[0].batch if at else None,
            committed_at=at[0].updated_at if at else None,
            gaps=tuple(gap for gap in store.gaps(name) if gap.decision == OPEN),
            behind=tuple(store.sinks_behind(name)),
            snapshot=self.snapshot(),
            epoch=store.epoch(name),
            last_run_at=max(runs, default=None),
            window_seconds=max(0.0, (figures.at - held.since).total_seconds()) if held else None,
            paused=str(pause) if pause else "",
            plan_range=str(plan.range) if plan else "",
            run_id=held.who if held else at[0].run_id if at else "",
            run_url=held.run_url if held else "",
        )

    def _of_records(self, figures: FlowFigures, quarantine_s: float) -> FlowFigures:
        from databus.records.activity import activity
        from databus.records.store import RecordStore

        if self._records is None:
            url = self.settings.records_url
            self._records = _record_stores.take(url, lambda: RecordStore(url))
        seen = activity(self._records, self.flow.name, figures.at - timedelta(seconds=quarantine_s))
        return replace(
            figures,
            recent=seen.recent,
            run_id=figures.run_id or seen.run_id,
            run_url=figures.run_url or (seen.run_url if figures.run_id in ("", seen.run_id) else ""),
            committed_run=seen.run_id,
            committed_url=seen.run_url,
            quarantine_rows=seen.quarantine_rows,
            quarantine_new=seen.quarantine_new,
            quarantine_range=seen.held.range,
            quarantine_run=seen.held.run_id,
            quarantine_url=seen.held.run_url,
            rejected=seen.rejected,
            quality_run=seen.quality.run_id,
            quality_url=seen.quality.run_url,
            quality_range=seen.quality.range,
            quality_passed=seen.quality_passed,
            quality_violations=seen.quality_violations,
        )

    def _of_source(self, figures: FlowFigures, _quarantine_s: float) -> FlowFigures:
        source, at = self.source(), self._at
        if at is None:
            return replace(figures, head=str(source.latest_offset()))
        lag, headroom = distance(self.flow, self.store, source, at[1])
        return replace(
            figures,
            head=lag.head,
            lag_seconds=lag.seconds,
            lag_bytes=lag.bytes,
            lag_rows=_rows(lag.bytes, figures, at[0]),
            headroom=headroom,
            missing_tables=self._gone_of(source, at[1], figures.at),
            partitions=tuple(source.partition_lags(at[1])) if isinstance(source, PartitionedSource) else (),
        )

    def _gone_of(self, source: Source, standing: Offset, now: datetime) -> tuple[str, ...] | None:
        """Return what the source does not have any more, asked for once a minute."""
        if not isinstance(source, DefinedSource):
            return None
        if self._missing is None or (now - self._missing[0]).total_seconds() >= EVERY_S:
            try:
                self._missing = now, really_gone(self.flow, source, standing, self._topics_read(standing))
            except DatabusError as error:  # what answers nothing at all is named by the figures before
                log.debug("flow %s: its tables cannot be looked for: %s", self.flow.name, error)
                return None
        return self._missing[1]

    def _topics_read(self, standing: Offset) -> TopicsRead | None:
        if not isinstance(standing, KafkaOffsets) or not any(map(self.flow.source.rotates, standing.positions)):
            return None
        return self.store.topics_read().load(self.flow.name)

    def _drop(self, what: str) -> None:
        gone = getattr(self, _PLACES[what])
        setattr(self, _PLACES[what], None)
        if gone is not None and what in _SHARED:
            _SHARED[what].give_back(gone)
        elif gone is not None:
            gone.close()


def _earlier(one: Offset, other: Offset) -> Offset:
    return other if other.compare(one) is Ordering.BEFORE else one


def _rows(lag_bytes: int | None, figures: FlowFigures, checkpoint: Checkpoint) -> int | None:
    """Estimate rows by the bytes that a row took in the newest batches, else in the last one."""
    if not lag_bytes:
        return lag_bytes
    recent = figures.recent
    if recent is not None and recent.bytes and recent.rows:
        return round(lag_bytes * recent.rows / recent.bytes)
    rows = sum(counts.read - counts.snapshot for counts in checkpoint.counts.values())
    return round(lag_bytes * rows / checkpoint.bytes) if rows and checkpoint.bytes else None
