"""Table reads of a binlog source: its tables as they stand, in chunks beside the log or by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from databus.core.batching import Batching
from databus.core.findings import Finding
from databus.core.positions.offsets import BinlogOffset, Offset
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import CaptureScope, ChunkFile, Snapshot, TableProgress
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.chunk_planning import ChunkPlanner
from databus.sources.mysql.snapshot.server_load import ServerLoad
from databus.sources.mysql.snapshot.views.consistent_view import after_reads


class MysqlTableReads:
    """Part of a binlog source that reads tables; see `SnapshotSource` and `ComparableSource`."""

    _server: MysqlServer
    _chunks: ChunkPlanner
    _load: ServerLoad
    _history_known: BinlogOffset | None

    def snapshot_tables(self, conditions: Mapping[str, str] | None = None) -> Sequence[TableProgress]:
        """Return the flow's tables as they stand, none begun; see `SnapshotSource`."""
        return self._chunks.tables(conditions or {})

    def snapshot_tables_added(self, before: CaptureScope) -> Sequence[TableProgress]:
        """Return the tables that are there and that the flow did not capture before; see `SnapshotSource`."""
        return self._chunks.added(before)

    def snapshot_findings(self) -> Sequence[Finding]:
        """Probe what reading the tables as they stand needs beyond the stream; changes nothing."""
        return self._chunks.findings()

    def snapshot_load(self) -> str:
        """Return which bound of the flow's options the servers' load passes, "" where none is."""
        return self._load.excess()

    def plan_chunks(
        self, after: Offset, snapshot: Snapshot, limit: Batching
    ) -> tuple[SourcePlan, Snapshot | None] | None:
        """Read the next chunks of a snapshot, and plan the range that goes with them; see `SnapshotSource`."""
        start = self._server.binlog(after)
        planned = self._chunks.plan(start, snapshot, limit, known=start == self._history_known)
        if planned is not None:
            self._history_known = self._server.binlog(planned[0].range.end)
        return planned

    def with_chunks(self, plan: SourcePlan, chunks: Sequence[ChunkFile]) -> SourcePlan:
        """Return the plan of a range with the chunks that were planned with it."""
        return self._chunks.with_chunks(plan, chunks)

    def read_chunks(
        self, covers: Offset, snapshot: Snapshot, limit: Batching
    ) -> tuple[SourcePlan, Snapshot, BinlogOffset]:
        """Read the next chunks by themselves; see `ComparableSource`."""
        return self._chunks.read_alone(self._server.binlog(covers), snapshot, limit)

    def end_of_log(self, standing: Offset) -> BinlogOffset:
        """Return the end of the log, counted as a place of the flow is; see `ComparableSource`."""
        return after_reads(self._server, self._server.binlog(standing))

    def drop_chunks(self, plan: SourcePlan) -> None:
        """Delete the chunk files of a plan."""
        self._chunks.discard(plan)
