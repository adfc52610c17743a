"""Snapshot reader: the next chunks of a flow's tables, read in consistent views that cover its checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace

from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.capture import TableCapture
from databus.binlog.segments.chunk_store import ChunkStore
from databus.core.batching import Batching
from databus.core.errors.source import SnapshotNotYetVisibleError, SnapshotReplicaBehindError, SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.snapshot import ChunkFile, Snapshot, TableProgress
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.absent_keys import deletes_of_absent, image_schema
from databus.sources.mysql.snapshot.chunk_bounds import rows_estimated
from databus.sources.mysql.snapshot.chunk_file import write_chunk
from databus.sources.mysql.snapshot.chunk_form import ChunkHead
from databus.sources.mysql.snapshot.next_chunks import MostChunks, NextChunk, NextChunks, ReadTable
from databus.sources.mysql.snapshot.snapshot_preflight import grant_named
from databus.sources.mysql.snapshot.table_reader import read_table
from databus.sources.mysql.snapshot.views.consistent_view import ConsistentView
from databus.sources.mysql.snapshot.views.replica_view import REPLICA_WAIT_S, require_nothing_of_its_own
from databus.sources.mysql.snapshot_options import SnapshotOptions
from databus.sources.mysql.tables.information_schema import MysqlColumns

BATCH_S = 1.0
"""Chunks are begun for so long in one view: the stream may wait meanwhile, and definition statements on the table."""

WAIT_S = 2.0
"""A server that does not show yet what its log holds is waited for so long; then the batch goes on without a chunk."""


@dataclass(frozen=True)
class ReadChunk:
    """Chunk that was read and not yet compared with the log.

    Attributes:
        file: all of its rows.
        schema: the table as the log describes it; `schema_id` -1.
        key: columns by which its rows are told apart; () for a table without any.
    """

    file: ChunkFile
    schema: TableSchema
    key: tuple[str, ...]


class ReadingStopped(Exception):  # noqa: N818 - nothing failed
    """The chunks are not wanted any more, or those of another view cannot be read."""


class SnapshotReader:
    """Reads chunks for one flow; by one thread at a time.

    Args:
        server: the server, for what is asked outside of views; nobody else's while chunks are read.
        capture: the flow's tables.
        options: order of tables, their conditions, size of chunks, views side by side; None for the defaults. With more
            than one view, another one finds the bounds.
        replica: server whose views are read in place of the source's; None for the source itself.
    """

    def __init__(
        self,
        server: MysqlServer,
        capture: TableCapture,
        options: SnapshotOptions | None = None,
        replica: MysqlServer | None = None,
    ):
        self._server, self._capture, self._options = server, capture, options or SnapshotOptions()
        self._replica = replica
        self._views: tuple[ConsistentView, ...] = ()

    def tables(self, conditions: Mapping[str, str]) -> tuple[TableProgress, ...]:
        """Return the flow's tables as they stand, in the order of reading, with the rows that the server estimates.

        Args:
            conditions: `database.table` → condition that its rows must meet; of the others the options say it.

        Raises:
            SnapshotConditionError: a condition is none, or the server refuses it.
            SourceError: the tables cannot be listed.
        """
        columns = MysqlColumns(self._server)
        conditions = self._options.conditions(conditions)
        names = sorted(name for name in columns.table_names() if self._capture(name.database, name.table))
        names.sort(key=lambda name: self._options.place_of(str(name)))
        found = columns.definitions(sorted({name.database for name in names}))
        made = []
        for name in names:
            where = conditions.get(str(name), "")
            with grant_named(self._server, name.database, name.table):
                rows = rows_estimated(self._server.query, found[name], where) if name in found else None
            made.append(TableProgress(str(name), estimate=rows, where=where))
        return tuple(made)

    def read(
        self,
        covers: BinlogOffset,
        snapshot: Snapshot,
        limit: Batching,
        store: ChunkStore,
        stop: threading.Event | None = None,
        *,
        at_source: bool = False,
    ) -> tuple[list[ReadChunk], Snapshot]:
        """Read the next chunks; return them with the snapshot as it stands behind them.

        Each view covers `covers`. Rows between two bounds are read by one of them; what another view would have shown
        of them otherwise was logged behind `covers`, before the end of the log after the last read.

        Args:
            covers: where the flow stands.
            snapshot: how far it has come.
            limit: bounds of the batch; rows and bytes are those of the chunks here.
            store: takes the chunk files.
            stop: set by another thread once the chunks are not wanted any more.
            at_source: whether the source is read, also where the options name a replica. Repairs, and chunks that
                delete absent keys, always are: a replica may lack or have rows that nobody logged.

        Raises:
            SnapshotNotYetVisibleError: the server does not show yet what lies before `covers`, or the replica cannot
                be read.
            SourceError: a table cannot be read; no file is left.
            ReadingStopped: `stop` was set; no file is left.
        """
        try:
            return self._in_views(
                covers, snapshot, limit, store, stop or threading.Event(), at_source or _at_source(snapshot)
            )
        except SourceUnavailableError as error:
            if self._replica is None or not error.message.startswith(f"{self._replica.connection.conn_id} ("):
                raise
            raise SnapshotReplicaBehindError(
                f"rows are read from the replica {self._replica.place}, and cannot be: {error.message}"
            ) from error

    def _in_views(
        self,
        covers: BinlogOffset,
        snapshot: Snapshot,
        limit: Batching,
        store: ChunkStore,
        stop: threading.Event,
        at_source: bool,
    ) -> tuple[list[ReadChunk], Snapshot]:
        chunks: dict[int, ReadChunk] = {}
        try:
            with ExitStack() as stack:
                threads = self._options.threads
                self._views = tuple(self._view(covers, at_source) for _ in range(threads + 1 if threads > 1 else 1))
                views = [stack.enter_context(view) for view in self._views if not stop.is_set()]
                if stop.is_set():
                    raise ReadingStopped
                share = -(-limit.max_rows // threads)
                most = MostChunks(limit.max_rows, min(share, self._options.chunk_rows or share), BATCH_S)
                reads, source = self._server, None
                if self._replica is not None and views[0].session.of_replica:
                    reads, source = self._replica, self._server
                bounds = NextChunks(reads, self._capture, views[0].opened, snapshot, most, source)
                if threads > 1:
                    self._side_by_side(views[1:], bounds, chunks, store, stop)
                else:
                    self._in_view(views[0], bounds, chunks, store, stop)
                if source is not None:
                    require_nothing_of_its_own(views[0].session, source)
        except BaseException:
            for chunk in chunks.values():
                store.delete(chunk.file.name)
            raise
        return [chunks[number] for number in sorted(chunks)], bounds.snapshot

    def cut(self) -> None:
        """End what another thread reads: `read` raises there, and leaves no file; safe to call when nobody reads."""
        for view in self._views:
            view.cut()

    def close(self) -> None:
        """Close the connections for what is asked outside of views; they are opened again when needed."""
        for server in filter(None, (self._server, self._replica)):
            server.close()

    def _view(self, covers: BinlogOffset, at_source: bool) -> ConsistentView:
        if self._replica is None or at_source:
            return ConsistentView(self._server.connection, self._server.flavor, covers, WAIT_S)
        return ConsistentView(self._replica.connection, self._replica.flavor, covers, REPLICA_WAIT_S, replica=True)

    def _side_by_side(
        self,
        views: Sequence[ConsistentView],
        bounds: NextChunks,
        chunks: dict[int, ReadChunk],
        store: ChunkStore,
        stop: threading.Event,
    ) -> None:
        """Read in all views at a time; after a failure of one the others stop, and all have ended."""
        with ThreadPoolExecutor(len(views), "databus-view") as pool:
            begun: list[Future[None]] = []
            try:
                for view in views:  # each is kept before the next is tried
                    begun.append(pool.submit(self._in_view, view, bounds, chunks, store, stop, beside=True))  # noqa: PERF401
                wait(begun, return_when=FIRST_EXCEPTION)
            except RuntimeError as none:  # the machine has no thread left
                raise SnapshotNotYetVisibleError(f"no thread reads one of {len(views)} views: {none}") from none
            finally:
                if not begun or not all(_well(each) for each in begun):
                    stop.set()
        errors = [error for each in begun if (error := each.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, ReadingStopped)):
            raise error

    def _in_view(
        self,
        view: ConsistentView,
        bounds: NextChunks,
        chunks: dict[int, ReadChunk],
        store: ChunkStore,
        stop: threading.Event,
        *,
        beside: bool = False,
    ) -> None:
        """Read chunk after chunk in one view; with `beside` it is not the one that finds the bounds."""
        known: list[ReadTable] = []
        while (chunk := bounds.next()) is not None:
            if stop.is_set():
                raise ReadingStopped
            table = chunk.table
            with bounds.grant_named(table):
                if beside and table not in known:
                    if not bounds.defined(view.opened, table):
                        raise SnapshotNotYetVisibleError(
                            f"{table.definition.name} is defined otherwise in another view"
                        )
                    known.append(table)
                file = _read(view, bounds.snapshot.number, chunk, store, stop)
            chunks[chunk.number] = ReadChunk(file, table.schema, table.columns)
            bounds.was_read(chunk, file.rows)


def _at_source(snapshot: Snapshot) -> bool:
    return snapshot.cause == "repair" or any(table.absent for table in snapshot.tables)


def _read(view: ConsistentView, snapshot: int, chunk: NextChunk, store: ChunkStore, stop: threading.Event) -> ChunkFile:
    """Read a chunk into a file."""
    table, part = chunk.table, chunk.chunk
    head = ChunkHead(table.schema, snapshot, chunk.number, int(view.read_at.timestamp() * 1000))
    rows = _until(stop, read_table(view.opened, table.logged, part.condition, table.schema, forced=part.forced))
    if not chunk.absent:
        return write_chunk(store, head, rows)
    gone = deletes_of_absent(image_schema(table.logged), table.schema, chunk.absent, rows)
    return write_chunk(store, replace(head, deletes=True), [] if gone is None else [gone])


def _until(stop: threading.Event, batches: Iterable[TableBatch]) -> Iterator[TableBatch]:
    for batch in batches:
        if stop.is_set():
            raise ReadingStopped
        yield batch


def _well(ended: Future[None]) -> bool:
    return ended.done() and not ended.cancelled() and ended.exception() is None
