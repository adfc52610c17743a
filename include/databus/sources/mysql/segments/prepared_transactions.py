"""Find the first phase of a committed XA transaction: a kept copy, at its known place, or back in the log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.events import MAGIC
from databus.binlog.log.mapped import windows
from databus.binlog.log.transactions.pending_xa import WantedPrepare, prepare_missing
from databus.binlog.log.walk import XaPhase
from databus.binlog.segments.kept_log import KeptLog
from databus.binlog.segments.segment import FetchedPrepare
from databus.binlog.segments.store_space import writing
from databus.binlog.server.dump import Dump, DumpRequest
from databus.binlog.server.log_walk import LogWalk
from databus.binlog.server.stretches import FileStart, WalkedStretch
from databus.core.errors.source import DecodeError, OffsetInvalidError, OffsetPurgedError
from databus.core.positions.offsets import BinlogOffset, PreparedTransaction
from databus.core.private_files import private_file
from databus.sources.mysql.dump.kept_segments import SegmentRelay
from databus.sources.mysql.flow_stores import FlowStores
from databus.sources.mysql.server import MysqlServer

_NO_TABLES = TableCapture(("re:",))
OpenDump = Callable[[DumpRequest], "contextlib.AbstractContextManager[Dump]"]


class PreparedTransactions:
    """Fetches the events of prepares for ranges in which their XA COMMIT lies.

    Where a checkpoint names the prepare, its kept copy serves (after a failover the former server's), else the server's
    log at the named place, else what is kept of that log. A prepare that the checkpoint does not name (the flow began
    behind it, or failed over without a copy) is looked for backwards through the log and what is kept before it: the
    newest phase of its xid before the commit must be its prepare, since a server prepares an xid again only after it
    was resolved. What is found is checked to be the prepare of exactly this xid.
    """

    def __init__(
        self, server: MysqlServer, open_dump: OpenDump, stores: FlowStores, relay: SegmentRelay, start: BinlogOffset
    ):
        """Prepare; nothing is read.

        Args:
            server: whose log is searched.
            open_dump: opens a dump beside the range's.
            stores: the flow's, with its kept copies.
            relay: what is kept of the server's log.
            start: where the range begins in this server's log.
        """
        self._server, self._open_dump, self._stores = server, open_dump, stores
        self._relay, self._start = relay, start

    def fetch(self, wanted: WantedPrepare, path: Path) -> FetchedPrepare:
        """Write FORMAT_DESCRIPTION and the events of a prepare to a file; returns where they lie in the log.

        Raises:
            PreparedTransactionMissingError: no copy is kept and the log no longer has it.
            SourceUnavailableError: the server cannot be asked.
        """
        if wanted.known is not None:
            kept = self._copy(wanted.known, path)
            if kept is not None:
                return kept
            if self._write(wanted.known, path):
                return FetchedPrepare(wanted.known)
        found = self._search(wanted)
        if found is None or not self._write(found, path):
            raise prepare_missing(wanted, self._server.place)
        return FetchedPrepare(found)

    def _copy(self, prepared: PreparedTransaction, path: Path) -> FetchedPrepare | None:
        for store, former in self._stores.copies():
            copy = store.load_pin(prepared, path, named=former)
            if copy is not None:
                return replace(copy, former=former)
        return None

    def _write(self, prepared: PreparedTransaction, path: Path) -> bool:
        """Write a prepare to a file; False when another transaction lies at its place, or nothing any more."""
        # Another server's log (a failover) may lack the file, or hold something else at that place.
        with contextlib.suppress(OffsetPurgedError, OffsetInvalidError, DecodeError):
            request = DumpRequest(prepared.file, prepared.start_pos, self._server.flavor)
            with self._open_dump(request) as dump:
                if self._written(prepared, dump, path):
                    return True
        kept = self._relay.log_at(prepared.file, prepared.start_pos, self._start)
        with contextlib.suppress(OffsetInvalidError, DecodeError):
            return kept is not None and self._written(prepared, kept, path)
        return False

    def _written(self, prepared: PreparedTransaction, log: Dump | KeptLog, path: Path) -> bool:
        walk = LogWalk(
            _NO_TABLES, f"{self._server.place}: {prepared.file}:{prepared.start_pos}", passes_statements=True
        )
        with private_file(path) as target:
            for batch in log.batches():
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
        newest = BinlogOffset(wanted.commit.file, wanted.commit.start_pos).file_number
        # A file behind the commit may hold the next transaction under its xid.
        for file in reversed([f for f in self._server.log_files() if f.number <= newest]):
            last = self._last_phase(wanted, self._stretches(file.name))
            if last is not None:
                return last.prepare
        for pieces in self._relay.stretches_before(self._start):
            last = self._last_phase(wanted, pieces)
            if last is not None:
                return last.prepare
        return None

    def _stretches(self, file: str) -> Iterator[WalkedStretch]:
        """Yield the stretches of one file of the server's log."""
        walk = LogWalk(_NO_TABLES, f"{self._server.place}: {file}", passes_statements=True)
        with self._open_dump(DumpRequest(file, len(MAGIC), self._server.flavor)) as dump:
            for batch in dump.batches():
                for piece in walk.walk(batch):
                    if isinstance(piece, WalkedStretch):
                        yield piece
                    elif piece.name != file:
                        return

    @staticmethod
    def _last_phase(wanted: WantedPrepare, pieces: Iterable[WalkedStretch]) -> _Phase | None:
        """Return the newest phase of the wanted xid before its commit in some stretches of the log."""
        found: _Phase | None = None
        for piece in pieces:
            for event in piece.xa:
                log, i = piece.transactions, event.transaction
                start, end = int(log.start_pos[i]), int(log.end_pos[i])
                if log.file == wanted.commit.file and start >= wanted.commit.start_pos:
                    return found
                if event.xid == wanted.xid:
                    prepared = PreparedTransaction(event.xid, log.file, start, end)
                    found = _Phase(prepared if event.phase is XaPhase.PREPARE else None)
        return found


@dataclass(frozen=True)
class _Phase:
    """A phase of an XA transaction: where it lies if it is the first, None for the second."""

    prepare: PreparedTransaction | None


def _is_prepare(piece: WalkedStretch, prepared: PreparedTransaction) -> bool:
    return any(
        x.transaction == 0 and x.phase is XaPhase.PREPARE and x.xid == prepared.xid for x in piece.xa
    ) and prepared.end_pos == int(piece.transactions.end_pos[0])
