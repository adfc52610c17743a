"""Chunks read ahead: those of the next batch, while the batch before is delivered.

They are read in a view that covers the end of that batch's range, which is where the next one begins: they are its
chunks as if they had been read at its beginning. The end of the log is asked for when it is planned, after the last
read. Whatever does not fit by then is thrown away.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from databus.binlog.segments.chunk_store import ChunkStore
from databus.core.batching import Batching
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SnapshotNotYetVisibleError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.snapshot import Snapshot
from databus.sources.mysql.snapshot.snapshot_reader import ReadChunk, ReadingStopped, SnapshotReader

log = logging.getLogger(__name__)

Read = tuple[list[ReadChunk], Snapshot]

KEPT_S = 60.0
"""Chunks that waited longer are read anew: much of them would be superseded."""


@dataclass
class _Ahead:
    """Reading that is under way, or was.

    Attributes:
        covers: where the batch begins that the chunks are for.
        snapshot: how far the snapshot has come there.
        limit: bounds of what is read; a table without a key is read whole all the same.
        store: takes the files.
        stop: ends the reading.
        ended_at: when it ended, monotonic.
        read: what was read; None of a reading that failed.
        late: why no view came in time; None where one did.
    """

    covers: BinlogOffset
    snapshot: Snapshot
    limit: Batching
    store: ChunkStore
    stop: threading.Event = field(default_factory=threading.Event)
    ended_at: float = 0.0
    read: Read | None = None
    late: SnapshotNotYetVisibleError | None = None
    thread: threading.Thread | None = None


class ChunksAhead:
    """Chunks of one flow read ahead.

    Args:
        reader: reads them; nobody else's between `begin` and `take` or `drop`.
    """

    def __init__(self, reader: SnapshotReader):
        self._reader = reader
        self._ahead: _Ahead | None = None

    def begin(self, covers: BinlogOffset, snapshot: Snapshot, limit: Batching, store: ChunkStore) -> None:
        """Begin to read; arguments as of `SnapshotReader.read`. What fails is read anew when it is asked for."""
        self.drop()
        ahead = _Ahead(covers, snapshot, limit, store)

        def read() -> None:
            try:
                ahead.read = self._reader.read(covers, snapshot, limit, store, ahead.stop)
            except ReadingStopped:
                pass
            except SnapshotNotYetVisibleError as error:
                ahead.late = error
            except DatabusError as error:
                if not ahead.stop.is_set():
                    log.info("no chunk was read ahead: %s", error)
            except Exception:
                if not ahead.stop.is_set():
                    log.exception("no chunk was read ahead")
            ahead.ended_at = time.monotonic()

        ahead.thread = threading.Thread(target=read, name="databus-chunks-ahead", daemon=True)
        try:
            ahead.thread.start()
        except RuntimeError as error:  # the machine has no thread left
            log.warning("no chunk is read ahead: %s", error)
            return
        self._ahead = ahead

    def take(self, covers: BinlogOffset, snapshot: Snapshot, limit: Batching) -> Read | None:
        """Return what was read for a batch, once it is there; None where nothing fits, which leaves no file.

        Raises:
            SnapshotNotYetVisibleError: the server did not show in time what lies before the batch.
        """
        ahead = self._ahead
        if ahead is None:
            return None
        if (ahead.covers, ahead.snapshot) != (covers, snapshot):
            self.drop()
            return None
        self._ended(ahead)
        read, rows = ahead.read, 0 if ahead.read is None else sum(chunk.file.rows for chunk in ahead.read[0])
        too_many = limit.max_rows < ahead.limit.max_rows and rows > limit.max_rows
        if read is None or too_many or time.monotonic() - ahead.ended_at > KEPT_S:
            self.drop()
            if ahead.late is not None:
                raise ahead.late
            return None
        self._ahead = None
        return read

    def drop(self) -> None:
        """End the reading, and delete what was read; safe to call when there is nothing."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return
        ahead.stop.set()
        self._reader.cut()  # what a server is still asked for is not waited for
        self._ended(ahead)
        for chunk in ahead.read[0] if ahead.read is not None else ():
            ahead.store.delete(chunk.file.name)

    def _ended(self, ahead: _Ahead) -> None:
        if ahead.thread is not None:
            ahead.thread.join()
