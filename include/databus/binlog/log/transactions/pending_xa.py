"""Prepared transactions of a range while it is staged: what XA COMMIT brings back, what is pending at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from databus.binlog.log.events import HEADER_BYTES, parse_format_description, parse_header
from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.log.walk_faults import prepared_by_statement
from databus.binlog.segments.segment import FetchedPrepare, PinnedPrepare, Segment, committed_name, pinned_name
from databus.binlog.server.log_walk import LogWalk
from databus.core.errors.source import DecodeError, PreparedTransactionMissingError
from databus.core.positions.offsets import BinlogOffset, PreparedTransaction
from databus.core.private_files import private_file
from databus.core.tables.schemas import TableSchema

_COPY_BYTES = 4 << 20


@dataclass(frozen=True)
class WantedPrepare:
    """A prepared transaction that was committed, and whose events are to be found.

    Attributes:
        xid: the transaction.
        known: where its prepare lies, None when the checkpoint does not have it.
        commit: where it was committed.
    """

    xid: str
    known: PreparedTransaction | None
    commit: CommitPlace


FetchPrepare = Callable[[WantedPrepare, Path], FetchedPrepare]
"""Writes FORMAT_DESCRIPTION and the events of a prepare to a file, and returns where they lie in the log."""


def nowhere_to_fetch(wanted: WantedPrepare, path: Path) -> FetchedPrepare:  # noqa: ARG001 - a FetchPrepare
    """Refuse: there is no log to look in.

    Raises:
        PreparedTransactionMissingError: always.
    """
    raise prepare_missing(wanted, "")


def prepare_missing(wanted: WantedPrepare, place: str) -> PreparedTransactionMissingError:
    """Return the error for a commit whose prepare cannot be found.

    Args:
        wanted: what was looked for.
        place: the server, "" for none.
    """
    known = wanted.known
    where = f"at {known.file}:{known.start_pos} to {known.end_pos}" if known else "in a file of the log that is gone"
    return PreparedTransactionMissingError(
        f"{place}{': ' if place else ''}XA COMMIT {wanted.xid} at {wanted.commit.file}:{wanted.commit.start_pos} "
        f"(GTID {wanted.commit.gtid or 'none'}) needs its XA PREPARE, which was {where}: its rows cannot be read",
        hint="Decide on the gap: take a new snapshot of the touched tables, or start after the XA COMMIT knowingly. "
        "Keep the log longer than XA transactions stay prepared, and the segment store's folder `prepared`.",
    )


@dataclass(frozen=True)
class StagedPrepare:
    """The events of a prepare inside a segment file of the range.

    Attributes:
        path: the segment file.
        description_bytes: length of its FORMAT_DESCRIPTION event.
        end: file offset after the prepare.
    """

    path: Path
    description_bytes: int
    end: int


class PendingXa:
    """XA transactions that were prepared and not resolved, as the range goes on."""

    def __init__(self, folder: Path, walk: LogWalk, start: BinlogOffset, fetch: FetchPrepare):
        """Begin with what is pending at the range's start.

        Args:
            folder: takes the segments of committed transactions.
            walk: the range's walk, which numbers the tables.
            start: the range's start.
            fetch: finds prepares that lie before the range.
        """
        self._folder, self._walk, self._fetch = folder, walk, fetch
        self._pending = {p.xid: p for p in start.prepared}
        self._staged: dict[str, StagedPrepare] = {}

    @property
    def pending(self) -> tuple[PreparedTransaction, ...]:
        """Pending XA transactions, in log order."""
        return tuple(sorted(self._pending.values(), key=lambda p: (_number(p.file), p.start_pos)))

    def prepare(self, prepared: PreparedTransaction, staged: StagedPrepare) -> None:
        """Take note of a first phase whose events have been written."""
        self._pending[prepared.xid], self._staged[prepared.xid] = prepared, staged

    def rollback(self, xid: str) -> None:
        """Forget a transaction; one prepared before the flow began is not known."""
        self._pending.pop(xid, None)
        self._staged.pop(xid, None)

    def commit(self, xid: str, place: CommitPlace, flow: str = "") -> Segment | DecodeError | None:
        """Write the rows of a committed transaction as a segment; None when it changed no captured row.

        Args:
            xid: the transaction.
            place: where it is committed.
            flow: whose range it is, for messages.

        Returns:
            An error where it is logged by statement; it counts as pending then, as before.

        Raises:
            PreparedTransactionMissingError: the prepare is neither in the range nor elsewhere.
            SchemaUnknownError: it is not of the tables that were kept with it, or of another captured one that nothing
                reports.
        """
        known, staged = self._pending.pop(xid, None), self._staged.pop(xid, None)
        path = self._folder / committed_name(place.file, place.start_pos)
        if known is not None and staged is not None:
            _copy(known, staged, path)
            found = FetchedPrepare(known)
        else:
            found = self._fetch(WantedPrepare(xid, known, place), path)
        data = np.memmap(path, np.uint8, mode="r")
        counted = self._walk.count_prepared(data, found)
        if counted.by_statement:
            path.unlink()
            self._pending.update({xid: known} if known is not None else {})
            self._staged.update({xid: staged} if staged is not None else {})
            return prepared_by_statement(counted.by_statement[0], found.prepared, place, flow)
        known = found.prepared
        if not counted.rows:
            path.unlink()
            return None
        description = data[: parse_header(data[:HEADER_BYTES].tobytes()).size_bytes].tobytes()
        return Segment(
            path.name, known.file, known.start_pos, known.end_pos, len(data), 1, counted.rows, place.ts_ms, place.ts_ms,
            place.ts_ms, parse_format_description(description, known.file).checksum, (), place,
            definitions=counted.definitions,
        )  # fmt: skip

    def pin(self, folder: Path) -> list[PinnedPrepare]:
        """Copy the events of what was prepared in this range and is pending to files of their own; returns these."""
        pins = []
        for xid, staged in self._staged.items():
            prepared = self._pending[xid]
            path = folder / pinned_name(prepared)
            _copy(prepared, staged, path)
            definitions = self._walk.definitions_of(np.memmap(path, np.uint8, mode="r"), prepared)
            pins.append(PinnedPrepare(path, xid, definitions))
        return pins


def in_log_order(
    segments: Sequence[Segment], tables: Sequence[TableSchema]
) -> tuple[tuple[Segment, ...], tuple[TableSchema, ...]]:
    """Number tables by their first appearance in the segments.

    Tables that only a committed XA transaction shows are met when its commit is, which depends on how the dump's bytes
    arrive; a range that is dumped again must get the same numbers.
    """
    used = max((schema for s in segments for schema in s.rows), default=-1)
    if not any(s.commits for s in segments):
        return tuple(segments), tuple(tables[: used + 1])
    numbers: dict[int, int] = {}
    for segment in segments:
        for schema in segment.rows:
            numbers.setdefault(schema, len(numbers))
    renumbered = tuple(replace(s, rows=_renumbered(s.rows, numbers)) for s in segments)
    return renumbered, tuple(replace(tables[old], schema_id=new) for old, new in numbers.items())


def _renumbered(rows: Mapping[int, int], numbers: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted((numbers[schema], count) for schema, count in rows.items()))


def _copy(prepared: PreparedTransaction, staged: StagedPrepare, path: Path) -> None:
    left = prepared.end_pos - prepared.start_pos
    with staged.path.open("rb") as source, private_file(path) as target:
        target.write(source.read(staged.description_bytes))
        source.seek(staged.end - left)
        while left:
            piece = source.read(min(left, _COPY_BYTES))
            if not piece:
                raise OSError(f"{staged.path} ends before {prepared.file}:{prepared.end_pos}")
            target.write(piece)
            left -= len(piece)


def _number(file: str) -> int:
    return int(file.rpartition(".")[2])
