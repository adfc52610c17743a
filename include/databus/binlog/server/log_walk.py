"""Follow a dump through transactions and files: what ends where, and how many rows of which table lie in between."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.kernels.walk import R_TRANSACTION
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.captured_tables import CapturedTables
from databus.binlog.log.events import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    MAGIC,
    EventType,
    is_ignorable,
    parse_format_description,
    parse_header,
    refuse,
    type_name,
)
from databus.binlog.log.statements.scope import as_logged, subjects_of
from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.temporary_tables import hiding_captured
from databus.binlog.log.transactions.open_rows import OpenRows
from databus.binlog.log.transactions.xa import walk_prepared
from databus.binlog.log.walk import LoggedStatement, RowsByStatement, Walk, XaEvent
from databus.binlog.log.walker import Walker
from databus.binlog.schema_history.definitions import (
    Definitions,
    KeptDefinitions,
    NoDefinitions,
    PinnedDefinition,
    PinnedDefinitions,
    RecordingDefinitions,
)
from databus.binlog.segments.segment import FetchedPrepare
from databus.binlog.server.dump import Events
from databus.core.errors.source import DecodeError, OffsetInvalidError
from databus.core.positions.offsets import PreparedTransaction
from databus.core.tables.schemas import TableSchema
from databus.core.tables.unlogged import UnloggedChange, head_of

Ints = npt.NDArray[np.int64]

# What may follow the end of a transaction. Anything else at the start of a dump says that it starts inside one.
_BETWEEN_TRANSACTIONS = frozenset(
    {
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.GTID_TAGGED,
        EventType.MARIADB_GTID,
        EventType.ROTATE,
        EventType.STOP,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.BINLOG_CHECKPOINT,
        EventType.START_ENCRYPTION,
        EventType.INCIDENT,
        EventType.VIEW_CHANGE,
    }
)

_RENAMES = re.compile(
    r"RENAME|CHANGE|ALTER\b.*\bDROP(?!\s+(PARTITION|INDEX|KEY|PRIMARY|FOREIGN|CONSTRAINT|CHECK)\b)",
    re.IGNORECASE | re.DOTALL,
)
_MOST_EXPANDED_BYTES = 64 << 20
"""Bound of compressed events when expanded, of those that are walked at once; a larger one stands alone."""


@dataclass(frozen=True)
class FileStart:
    """The log goes on in this file; what follows lies in it.

    Attributes:
        name: log file.
        pos: position of the next event.
        description: the file's FORMAT_DESCRIPTION event, which every segment of the file starts with.
        checksum: whether its events end with a CRC32.
        created_s: when the server began the file, seconds since the epoch; 0 when unknown.
    """

    name: str
    pos: int
    description: bytes
    checksum: bool
    created_s: int


@dataclass(frozen=True, eq=False)
class Stretch:
    """Events of one file that were walked, and the transactions that ended in them.

    Attributes:
        events: the raw bytes; valid until the next batch is walked.
        pos: file position of the first of them.
        transactions: the transactions that ended.
        offsets: int64[n], offset in `events` after each transaction.
        plain_offsets: int64[n], the same if nothing were compressed.
        plain_bytes: size of the events if nothing were compressed.
        row_transactions: int64[e], index of the transaction of each captured rows event; n for the one still open.
        row_schemas: int64[e], `schema_id` of its table.
        row_counts: int64[e], its row changes.
        table_events: indices of transactions that truncate a captured table or change its definition or database; a
            statement of the one still open comes with the stretch in which that ends.
        open: whether a transaction has begun and not ended.
        xa: XA phases among the transactions.
        unlogged: (index of its transaction, statement) of those that change captured rows without row events.
        by_statement: statements that change rows and are logged as they were said, or hide captured tables;
            one of the transaction still open comes with the stretch in which that ends. Empty where they are refused.
        others: indices of transactions that give tables which are none of the flow's, or their columns, other names, or
            drop these.
        taken_back: `schema_id` → row changes, counted as open in earlier stretches, that their transaction took back.
    """

    events: npt.NDArray[np.uint8]
    pos: int
    transactions: Transactions
    offsets: Ints
    plain_offsets: Ints
    plain_bytes: int
    row_transactions: Ints
    row_schemas: Ints
    row_counts: Ints
    table_events: tuple[int, ...]
    open: bool
    xa: Sequence[XaEvent] = ()
    unlogged: Sequence[tuple[int, UnloggedChange]] = ()
    taken_back: Mapping[int, int] = field(default_factory=dict)
    by_statement: Sequence[RowsByStatement] = ()
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class CountedPrepare:
    """The captured row changes of a prepared transaction.

    Attributes:
        rows: `schema_id` → row changes, in order of appearance.
        definitions: what its TABLE_MAP events left open; a replay uses exactly these.
        by_statement: its statements that change rows, which are in no row event.
    """

    rows: Mapping[int, int]
    definitions: tuple[PinnedDefinition, ...]
    by_statement: Sequence[RowsByStatement] = ()


def part(piece: Stretch, first: int, last: int) -> Stretch:
    """Return the transactions first … last − 1 of a stretch, with what lies before them; the last part has the tail."""
    n, log = len(piece.offsets), piece.transactions
    if (first, last) == (0, n):
        return piece
    begin = int(piece.offsets[first - 1]) if first else 0
    end = int(piece.offsets[last - 1]) if last < n else len(piece.events)
    rows = slice(
        int(np.searchsorted(piece.row_transactions, first)),
        int(np.searchsorted(piece.row_transactions, last)) if last < n else len(piece.row_transactions),
    )
    some = slice(first, last)
    plain_begin = int(piece.plain_offsets[first - 1]) if first else 0
    plain_end = int(piece.plain_offsets[last - 1]) if last < n else piece.plain_bytes
    return Stretch(
        piece.events[begin:end],
        piece.pos + begin,
        Transactions(
            log.file, log.start_pos[some], log.end_pos[some], log.gtid.slice(first, last - first), log.ts_ms[some],
            log.server_id[some],
        ),
        piece.offsets[some] - begin,
        piece.plain_offsets[some] - plain_begin,
        plain_end - plain_begin,
        piece.row_transactions[rows] - first,
        piece.row_schemas[rows],
        piece.row_counts[rows],
        tuple(i - first for i in piece.table_events if first <= i < last),
        piece.open and last == n,
        [replace(x, transaction=x.transaction - first) for x in piece.xa if first <= x.transaction < last],
        [(i - first, change) for i, change in piece.unlogged if first <= i < last],
        piece.taken_back if first == 0 else {},
        [replace(s, transaction=s.transaction - first) for s in piece.by_statement if first <= s.transaction < last],
        tuple(i - first for i in piece.others if first <= i < last),
    )  # fmt: skip


class LogWalk:
    """Walks the batches of one dump in order.

    Sizes, checksums, positions without holes and the nesting of transactions are checked on the way; what does not
    add up stops the walk with its position.
    """

    def __init__(
        self,
        capture: TableCapture,
        start: str,
        definitions: Definitions | None = None,
        prepared: Callable[[PreparedTransaction], RecordingDefinitions] | None = None,
        *,
        passes_statements: bool = False,
        exists: Callable[[str, str], bool] = lambda *_: True,
    ):
        """Prepare for a dump that was asked to start at a transaction boundary.

        Args:
            capture: tables whose rows are counted.
            start: where the dump starts, for messages.
            definitions: adds what TABLE_MAP events leave open; None where the log says it all.
            prepared: begins to record what one prepared transaction uses of these definitions: it is walked again when
                it is committed, and has the tables of its own place. None where the log says it all.
            passes_statements: whether statements that change rows are told rather than refused, and those by which a
                temporary table hides a captured one.
            exists: whether there is a table of a captured name, for the latter.
        """
        self._capture, self._exists = capture, exists
        self._start = start
        self._definitions, self._prepared = definitions, prepared
        self._tables = CapturedTables(capture)
        self._file, self._pos = "", 0
        self._walker: Walker | None = None
        self._description = b""
        self._first = True
        self._open = False
        self._open_rows = OpenRows()
        self.moved = False
        """Whether a statement was met by which captured tables, or all of their database, may have come or gone."""
        self._open_statements: list[LoggedStatement] = []
        self._passes_statements = passes_statements
        self._open_by_statement: list[RowsByStatement] = []

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """Schemas of the captured tables met so far; `schema_id` is the index."""
        return self._tables.schemas

    def walk(self, batch: Events) -> Iterator[FileStart | Stretch]:
        """Walk one batch of whole events of one file.

        Raises:
            OffsetInvalidError: the place the dump starts at is inside an event or a transaction.
            DecodeError: a later event is damaged, unknown, or not supported.
        """
        events = batch.buffer[: batch.end]
        at = 0
        while at < len(events):
            started = self._open_file(events, at)
            if started is None:
                break
            at += started.size_bytes
            if started.file is not None:
                yield started.file
        while at < len(events):
            stretch = self._stretch(events[at:])
            yield stretch
            at += len(stretch.events)

    def _stretch(self, events: npt.NDArray[np.uint8]) -> Stretch:
        if self._walker is None:
            raise refuse(int(events[4]) if len(events) > 4 else 0, f"{self._file}:{self._pos}")
        if self._first:
            self._check_start(self._walker, events)
        pos = self._walker.position
        walk = self._walker.walk(events, _MOST_EXPANDED_BYTES)
        if walk.consumed_bytes == 0:
            raise DecodeError(f"{self._file}:{self._walker.position}: an event has an impossible size")
        self._open = walk.open
        self.walked(walk, pos + walk.consumed_bytes)
        schemas, counts = self._tables.count(walk.expansion.buffer, walk.rows, walk.slots, f"{self._file}")
        captured = schemas >= 0
        taken_back = self._open_rows.follow(walk.rows, schemas, counts, len(walk.transactions), walk.kept)
        statements, others = self._ended_statements(walk)
        return Stretch(
            events[: walk.consumed_bytes],
            pos,
            walk.transactions,
            walk.transaction_offsets,
            walk.expansion.plain_ends(walk.transaction_offsets),
            len(walk.expansion.buffer),
            walk.rows[captured, R_TRANSACTION],
            schemas[captured],
            counts[captured],
            tuple(sorted({s.transaction for s in statements})),
            walk.open,
            walk.xa,
            [found for logged in statements for found in self._unlogged(logged, walk.transactions)],
            taken_back,
            self._ended_by_statement(walk),
            tuple(sorted({s.transaction for s in others})),
        )

    def _ended_by_statement(self, walk: Walk) -> list[RowsByStatement]:
        """Return the statements that change rows of the transactions that ended; those of the open one wait."""
        ended = len(walk.transactions)
        found = [*self._open_by_statement, *walk.by_statement, *self._hiding(walk)]
        self._open_by_statement = [replace(s, transaction=0) for s in found if s.transaction >= ended]
        return [s for s in found if s.transaction < ended]

    def _hiding(self, walk: Walk) -> Iterator[RowsByStatement]:
        if self._passes_statements:
            statements = (as_logged(self._capture, logged) for logged in walk.statements)
            yield from hiding_captured(statements, self._capture, self._exists)

    def _ended_statements(self, walk: Walk) -> tuple[list[LoggedStatement], list[LoggedStatement]]:
        """Return the statements of the transactions that ended; those of the open one wait.

        Returns:
            Those that concern the flow, and those that rename or drop other tables or columns of these.
        """
        ended = len(walk.transactions)
        found = [*self._open_statements, *(as_logged(self._capture, logged) for logged in walk.statements)]
        self._open_statements = [replace(s, transaction=0) for s in found if s.transaction >= ended]
        done = [s for s in found if s.transaction < ended]
        concerning = [s for s in done if self._concerns(s)]
        self.moved = self.moved or any(s.statement.moves for s in concerning)
        return concerning, [s for s in done if _renames_or_drops(s) and not self._concerns(s)]

    def walked(self, walk: Walk, end: int) -> None:
        """Do nothing; for those who look at what is not captured as well.

        Args:
            walk: what was found.
            end: file position after the last event.
        """

    def count_prepared(self, data: npt.NDArray[np.uint8], found: FetchedPrepare) -> CountedPrepare:
        """Count the captured row changes of a prepared transaction, in the numbering of this walk's tables.

        Args:
            data: FORMAT_DESCRIPTION and the transaction.
            found: the transaction that it must be, its place, and the definitions that were kept with it.

        Raises:
            DecodeError: it is another transaction, or cannot be decoded.
            SchemaUnknownError: the kept definitions are not those of the log, or lack a captured table that nothing
                else tells about.
        """
        walk, used = self._walked_prepare(data, found)
        schemas, counts = self._tables.count(walk.expansion.buffer, walk.rows, walk.slots, found.prepared.file)
        rows: dict[int, int] = {}
        for schema, count in zip(schemas.tolist(), counts.tolist(), strict=True):
            if schema >= 0:
                rows[schema] = rows.get(schema, 0) + count
        return CountedPrepare(rows, used, [*walk.by_statement, *self._hiding(walk)])

    def definitions_of(
        self, data: npt.NDArray[np.uint8], prepared: PreparedTransaction
    ) -> tuple[PinnedDefinition, ...]:
        """Return what the TABLE_MAP events of a prepared transaction leave open.

        Args:
            data: FORMAT_DESCRIPTION and the transaction.
            prepared: the transaction that it must be, and its place.
        """
        return self._walked_prepare(data, FetchedPrepare(prepared))[1] if self._prepared is not None else ()

    def _walked_prepare(
        self, data: npt.NDArray[np.uint8], found: FetchedPrepare
    ) -> tuple[Walk, tuple[PinnedDefinition, ...]]:
        prepared, kept = found.prepared, found.definitions or ()
        recorder = None if self._prepared is None or found.former else self._prepared(prepared)
        # Between the two phases the flow may have been given further tables.
        others: Definitions | None = self._unknown(prepared) if found.former else recorder
        definitions = PinnedDefinitions(kept) if others is None else KeptDefinitions(kept, others)
        walker = Walker(
            prepared.file, prepared.start_pos, prepared=True, definitions=definitions, passes_statements=True
        )
        walk = walk_prepared(walker, data, prepared.xid)
        return walk, (*kept, *(recorder.recorded if recorder is not None else ()))

    def _unknown(self, prepared: PreparedTransaction) -> NoDefinitions:
        return NoDefinitions(
            self._capture,
            f"nothing was kept of it with XA transaction {prepared.xid}, which lies in a former server's log: the "
            "table was not the flow's when the flow read the XA PREPARE",
            hint="Leave the table out of the flow until it is past the transaction's XA COMMIT, then add it again and "
            "take a snapshot of it.",
        )

    def _unlogged(self, logged: LoggedStatement, ended: Transactions) -> Iterator[tuple[int, UnloggedChange]]:
        """Yield the change that a statement makes to captured tables without row events, if it makes one."""
        at, default = logged.transaction, logged.query.database
        if not logged.statement.unlogged:
            return
        names = dict.fromkeys((name.database or default, name.table) for name in logged.statement.objects)
        captured = tuple(f"{database}.{table}" for database, table in names if self._capture(database, table))
        if captured:
            text = head_of(logged.query.statement)
            start, end = int(ended.start_pos[at]), int(ended.end_pos[at])
            yield at, UnloggedChange(captured, text, ended.file, start, end)

    def _concerns(self, logged: LoggedStatement) -> bool:
        """Whether a statement is delivered to the flow."""
        return bool(subjects_of(self._capture, logged))

    def _open_file(self, events: npt.NDArray[np.uint8], at: int) -> _Opening | None:
        """Read the made-up ROTATE event that names a file, or its FORMAT_DESCRIPTION event; None at any other.

        A dump of an encrypted file from a place further on repeats START_ENCRYPTION, which does not lie there.
        """
        header = parse_header(events[at : at + HEADER_BYTES].tobytes())
        size = header.size_bytes
        if header.event_type == EventType.START_ENCRYPTION and header.log_pos == 0:
            return _Opening(size, None)
        if header.event_type not in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            return None  # not copied: it may be a row of a GiB
        event = events[at : at + size].tobytes()
        if header.event_type == EventType.ROTATE and header.log_pos == 0:
            if self._open:
                raise DecodeError(
                    f"{self._file}: the log file ends inside a transaction",
                    hint="The server crashed while writing it. Compare the tables with "
                    "SELECT, then start at the next file.",
                )
            self._pos = int.from_bytes(event[19:27], "little")
            self._file = event[27 : len(event) - _checksum_bytes(event)].decode()
            self._walker = None
            return _Opening(size, None)
        if header.event_type == EventType.FORMAT_DESCRIPTION and self._walker is None:
            description = parse_format_description(event, f"{self._file}:{self._pos}")
            # Asked for a place further on, the server sends this event with position 0, because it does not lie there.
            self._pos += size if header.log_pos != 0 and self._pos == len(MAGIC) else 0
            self._walker = Walker(
                self._file,
                self._pos,
                format=description,
                definitions=self._definitions,
                passes_statements=self._passes_statements,
            )
            return _Opening(size, FileStart(self._file, self._pos, event, description.checksum, header.timestamp_s))
        return None

    def _check_start(self, walker: Walker, events: npt.NDArray[np.uint8]) -> None:
        """Look at the first event on its own: a fault there says that the place is wrong, not the log."""
        self._first = False
        header = parse_header(events[:HEADER_BYTES].tobytes())
        if header.event_type not in _BETWEEN_TRANSACTIONS and not is_ignorable(header):
            kind = type_name(header.event_type)
            raise self._bad_start(f"the event there is {kind}, which lies inside a transaction")
        try:
            Walker(walker.file, walker.base_pos, format=walker.format).walk(events[: header.size_bytes])
        except DecodeError as error:
            raise self._bad_start(error.message) from None

    def _bad_start(self, why: str) -> OffsetInvalidError:
        return OffsetInvalidError(
            f"{self._start} is not the start of a transaction: {why}",
            hint="Take a position from a checkpoint, or from SHOW BINLOG EVENTS (the Pos of a Gtid event).",
        )


@dataclass(frozen=True)
class _Opening:
    """An event at the start of a file: its size, and the file once it is known."""

    size_bytes: int
    file: FileStart | None


def _renames_or_drops(logged: LoggedStatement) -> bool:
    """Tell whether a statement may rename or drop tables or columns of tables; whoever reads it looks."""
    statement = logged.statement
    if statement.kind is not StatementKind.DEFINITION or not any(name.table for name in statement.objects):
        return False
    return statement.empties or _RENAMES.search(logged.query.statement) is not None


def _checksum_bytes(event: bytes) -> int:
    """Return how many bytes of checksum end an event of which nothing has said yet whether it has one."""
    stored = int.from_bytes(event[-CHECKSUM_BYTES:], "little")
    return CHECKSUM_BYTES if zlib.crc32(event[:-CHECKSUM_BYTES]) == stored else 0
