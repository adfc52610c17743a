"""Follow a dump through transactions and files: what ends where, and how many rows of which table lie in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.walk import R_TRANSACTION
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.captured_tables import CapturedTables
from databus.binlog.log.events import (
    HEADER_BYTES,
    MAGIC,
    EventType,
    is_ignorable,
    parse_format_description,
    parse_header,
    refuse,
    type_name,
)
from databus.binlog.log.expansion import MOST_EXPANDED_BYTES
from databus.binlog.log.scan import checksum_bytes
from databus.binlog.log.transactions.open_rows import OpenRows
from databus.binlog.log.transactions.xa import walk_prepared
from databus.binlog.log.walk import Walk
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
from databus.binlog.server.stretches import CountedPrepare, FileStart, WalkedStretch
from databus.binlog.server.walked_statements import WalkedStatements
from databus.core.errors.source import DecodeError, OffsetInvalidError
from databus.core.positions.offsets import PreparedTransaction
from databus.core.tables.schemas import TableSchema

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
            passes_statements: whether statements that change rows are reported rather than refused, and those by which
                a temporary table hides a captured one.
            exists: whether there is a table of a captured name, for the latter.
        """
        self._capture = capture
        self._start = start
        self._definitions, self._prepared = definitions, prepared
        self._tables = CapturedTables(capture)
        self._file, self._pos = "", 0
        self._walker: Walker | None = None
        self._description = b""
        self._first = True
        self._open = False
        self._open_rows = OpenRows()
        self._passes_statements = passes_statements
        self._statements = WalkedStatements(capture, exists, passes=passes_statements)

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """Schemas of the captured tables met so far; `schema_id` is the index."""
        return self._tables.schemas

    @property
    def moved(self) -> bool:
        """Return whether a statement may have made captured tables, or all of their database, come or go."""
        return self._statements.moved

    def walk(self, batch: Events) -> Iterator[FileStart | WalkedStretch]:
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

    def _stretch(self, events: npt.NDArray[np.uint8]) -> WalkedStretch:
        if self._walker is None:
            raise refuse(int(events[4]) if len(events) > 4 else 0, f"{self._file}:{self._pos}")
        if self._first:
            self._check_start(self._walker, events)
        pos = self._walker.position
        walk = self._walker.walk(events, MOST_EXPANDED_BYTES)
        if walk.consumed_bytes == 0:
            raise DecodeError(f"{self._file}:{self._walker.position}: an event has an impossible size")
        self._open = walk.open
        self.walked(walk, pos + walk.consumed_bytes)
        schemas, counts = self._tables.count(walk.expansion.buffer, walk.rows, walk.slots, f"{self._file}")
        captured = schemas >= 0
        taken_back = self._open_rows.follow(walk.rows, schemas, counts, len(walk.transactions), walk.kept)
        statements, others = self._statements.ended(walk)
        return WalkedStretch(
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
            [found for logged in statements for found in self._statements.unlogged(logged, walk.transactions)],
            taken_back,
            self._statements.ended_by_statement(walk),
            tuple(sorted({s.transaction for s in others})),
        )

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
                else reports.
        """
        walk, used = self._walked_prepare(data, found)
        schemas, counts = self._tables.count(walk.expansion.buffer, walk.rows, walk.slots, found.prepared.file)
        rows: dict[int, int] = {}
        for schema, count in zip(schemas.tolist(), counts.tolist(), strict=True):
            if schema >= 0:
                rows[schema] = rows.get(schema, 0) + count
        return CountedPrepare(rows, used, [*walk.by_statement, *self._statements.hiding(walk)])

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
            self._file = event[27 : len(event) - checksum_bytes(event)].decode()
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
