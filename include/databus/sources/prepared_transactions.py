"""Find the first phase of a committed XA transaction: in the segment store, at its known place, or back in the log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from databus.binlog.capture import TableCapture
from databus.binlog.dump import Dump, DumpRequest
from databus.binlog.events import MAGIC
from databus.binlog.log_walk import FileStart, LogWalk, Stretch
from databus.binlog.mapped import windows
from databus.binlog.pending_xa import WantedPrepare, prepare_missing
from databus.binlog.segment_store import SegmentStore
from databus.binlog.segments import FetchedPrepare
from databus.binlog.store_space import writing
from databus.binlog.xa import XaPhase
from databus.core.errors import DecodeError, OffsetInvalidError, OffsetPurgedError
from databus.core.offsets import PreparedTransaction
from databus.sources.mysql_server import MysqlServer

_NO_TABLES = TableCapture(("re:",))
OpenDump = Callable[[DumpRequest], "contextlib.AbstractContextManager[Dump]"]


class PreparedTransactions:
    """Fetches the events of prepares for ranges in which their XA COMMIT lies.

    Where a checkpoint names the prepare, its kept copy serves, else the server's log at the named place. A prepare that
    the checkpoint does not name (the flow began behind it, or failed over) is looked for backwards through the log: the
    newest phase of its xid before the commit must be its prepare, since a server prepares an xid again only after it
    was resolved. What is found is checked to be the prepare of exactly this xid.
    """

    def __init__(self, server: MysqlServer, open_dump: OpenDump, store: SegmentStore):
        self._server, self._open_dump, self._store = server, open_dump, store

    def fetch(self, wanted: WantedPrepare, path: Path) -> FetchedPrepare:
        """Write FORMAT_DESCRIPTION and the events of a prepare to a file; returns where they lie in the log.

        Raises:
            PreparedTransactionMissingError: no copy is kept and the log no longer has it.
            SourceUnavailableError: the server cannot be asked.
        """
        if wanted.known is not None:
            kept = self._store.load_pin(wanted.known, path)
            if kept is not None:
                return kept
            # Another server's log (a failover) may lack the file, or hold something else at that place.
            with contextlib.suppress(OffsetPurgedError, OffsetInvalidError, DecodeError):
                if self._write(wanted.known, path):
                    return FetchedPrepare(wanted.known)
        found = self._search(wanted)
        if found is None or not self._write(found, path):
            raise prepare_missing(wanted, self._server.place)
        return FetchedPrepare(found)

    def _write(self, prepared: PreparedTransaction, path: Path) -> bool:
        """Dump a prepare to a file; False when another transaction lies at its place."""
        walk = LogWalk(_NO_TABLES, f"{self._server.place}: {prepared.file}:{prepared.start_pos}")
        request = DumpRequest(prepared.file, prepared.start_pos, self._server.flavor)
        with self._open_dump(request) as dump, path.open("wb") as target:
            for batch in dump.batches():
                for piece in walk.walk(batch):
                    if isinstance(piece, FileStart):
                        target.write(piece.description)
                        continue
                    ended = len(piece.transactions) > 0
                    events = piece.events[: int(piece.offsets[0])] if ended else piece.events
                    with writing(path, len(events)):
                        for window in windows(events):
                            target.write(np.ascontiguousarray(window).data)
                    if ended:
                        return _is_prepare(piece, prepared)
        return False

    def _search(self, wanted: WantedPrepare) -> PreparedTransaction | None:
        files = [f.name for f in self._server.log_files()]
        last = files.index(wanted.commit.file) if wanted.commit.file in files else len(files) - 1
        for file in reversed(files[: last + 1]):
            phase, found = self._newest_phase(file, wanted)
            if phase is not None:
                return found
        return None

    def _newest_phase(self, file: str, wanted: WantedPrepare) -> tuple[XaPhase | None, PreparedTransaction | None]:
        """Return the newest phase of the wanted xid in one file before its commit, and where it lies if a prepare."""
        phase: XaPhase | None = None
        found: PreparedTransaction | None = None
        walk = LogWalk(_NO_TABLES, f"{self._server.place}: {file}")
        with self._open_dump(DumpRequest(file, len(MAGIC), self._server.flavor)) as dump:
            for batch in dump.batches():
                for piece in walk.walk(batch):
                    if isinstance(piece, FileStart):
                        if piece.name != file:
                            return phase, found
                        continue
                    for event in piece.xa:
                        log, i = piece.transactions, event.transaction
                        start, end = int(log.start_pos[i]), int(log.end_pos[i])
                        if file == wanted.commit.file and start >= wanted.commit.start_pos:
                            return phase, found
                        if event.xid == wanted.xid:
                            phase = event.phase
                            prepared = PreparedTransaction(event.xid, file, start, end)
                            found = prepared if phase is XaPhase.PREPARE else None
        return phase, found


def _is_prepare(piece: Stretch, prepared: PreparedTransaction) -> bool:
    return any(
        x.transaction == 0 and x.phase is XaPhase.PREPARE and x.xid == prepared.xid for x in piece.xa
    ) and prepared.end_pos == int(piece.transactions.end_pos[0])
