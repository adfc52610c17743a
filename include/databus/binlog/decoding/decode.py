"""Decode a stretch of raw events into batches of row changes per table, and table events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.arena import kernel_columns
from databus.binlog.decoding.table_batch import SchemaIds, TableBatch, TableEvent, Transactions
from databus.binlog.decoding.table_rows import LogPlace, TableRows, row_fault
from databus.binlog.decoding.versioned_rows import HistoryRows, current_rows
from databus.binlog.kernels import walk as w
from databus.binlog.log.events import HEADER_BYTES, parse_header, type_name
from databus.binlog.log.row_counting import count_rows
from databus.binlog.log.statements.scope import subjects_of
from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.tablemap import TableMap
from databus.binlog.log.transactions.xa import CommitPlace, PreparedRows, answer_commits, walk_prepared
from databus.binlog.log.walk import LoggedStatement, Walk, as_buffer
from databus.binlog.log.walker import Walker
from databus.binlog.schema_history.definitions import Definitions
from databus.core.errors.source import DecodeError

Ints = npt.NDArray[np.int64]
TableFilter = Callable[[str, str], bool]
"""Returns whether rows are wanted, by database and table name."""


def every_table(database: str, table: str) -> bool:  # noqa: ARG001 - the signature of a TableFilter
    """Want all rows."""
    return True


class DecodedEvents:
    """The contents of one segment: transactions at once, rows as they are asked for.

    Iterating decodes; it can be done more than once. Batches of one table come in log order; table events come first.

    Attributes:
        transactions: the transactions that the batches' `transaction` indexes.
        table_maps: every table map met, also of tables that are not wanted.
        event_counts: int64[256], events seen per type.
        server_version: version of the server that wrote the log.
    """

    def __init__(
        self, walker: Walker, walk: Walk, tables: TableFilter, schema_ids: SchemaIds, most_bytes: int | None = None
    ) -> None:
        self._walk, self._tables, self._schema_ids, self._most_bytes = walk, tables, schema_ids, most_bytes
        self._buffer = walk.expansion.buffer
        self._place = LogPlace(walker.file, walker.position - walk.consumed_bytes, walk.expansion)
        self.transactions: Transactions = walk.transactions
        self.table_maps: tuple[TableMap, ...] = tuple(walk.slots)
        self.event_counts = walker.counts
        self.server_version = walker.format.server_version if walker.format else ""

    @property
    def mixed(self) -> bool:
        """Return whether batches of several tables, or statements, may come out: then they are not in log order."""
        slots = np.unique(self._walk.rows[:, w.R_SLOT])
        wanted = [
            s for s in slots.tolist() if s < 0 or self._tables(self._walk.slots[s].database, self._walk.slots[s].table)
        ]
        return len(wanted) > 1

    def __iter__(self) -> Iterator[TableBatch | TableEvent]:
        rows = self._walk.rows
        bases = self._ordinal_bases(rows)
        history = self._history_rows(rows, bases)
        for statement in self._walk.statements:
            for event in self._table_events(statement, bases):
                yield replace(event, ordinal=history.dense(event.transaction, event.ordinal))
        for slot in np.unique(rows[rows[:, w.R_SLOT] >= 0, w.R_SLOT]).tolist():
            table = self._walk.slots[slot]
            if not self._tables(table.database, table.table):
                continue
            chosen = rows[:, w.R_SLOT] == slot
            for batch in TableRows(
                self._buffer,
                table,
                rows[chosen],
                bases[chosen],
                self._schema_ids,
                self._place,
                most_bytes=self._most_bytes,
            ).batches():
                current = batch if table.period is None else current_rows(batch, table)
                if len(current):
                    yield history.renumbered(current)

    def _history_rows(self, rows: Ints, bases: Ints) -> HistoryRows:
        """Find the history rows of the wanted tables WITH SYSTEM VERSIONING: they are not delivered and not counted."""
        found = HistoryRows()
        self._add_history(found, rows, bases)
        return found

    def _add_history(self, found: HistoryRows, rows: Ints, bases: Ints) -> None:
        for slot, table in enumerate(self._walk.slots):
            if table.period is None or not self._tables(table.database, table.table):
                continue
            chosen = rows[:, w.R_SLOT] == slot
            if chosen.any():
                versions = TableRows(
                    self._buffer,
                    table,
                    rows[chosen],
                    bases[chosen],
                    SchemaIds(),
                    self._place,
                    most_bytes=self._most_bytes,
                ).batches()
                for batch in versions:
                    found.add(batch, table)

    def _ordinal_bases(self, rows: Ints) -> Ints:
        """Return the ordinal of each event's first change.

        −1 stands where a transaction touches one table only: counting on is enough there.
        """
        bases = np.full(len(rows), -1, dtype=np.int64)
        if not len(rows):
            return bases
        transaction, slot = rows[:, w.R_TRANSACTION], rows[:, w.R_SLOT]
        # Rows events lie in transaction order, so a change of table inside one shows between neighbours.
        mixed = transaction[1:][(transaction[1:] == transaction[:-1]) & (slot[1:] != slot[:-1])]
        marked = np.zeros(int(transaction[-1]) + 1, dtype=np.bool_)
        marked[mixed] = True
        matrices: dict[int, Ints] = {}
        current, ordinal = -1, 0
        for i in np.flatnonzero(marked[transaction]).tolist():
            line = rows[i]
            if line[w.R_TRANSACTION] != current:
                current, ordinal = int(line[w.R_TRANSACTION]), 0
            bases[i] = ordinal
            ordinal += 1 if line[w.R_SLOT] < 0 else self._count(line, matrices)
        bases[(slot < 0) & (bases < 0)] = 0
        return bases

    def _count(self, event: Ints, matrices: dict[int, Ints]) -> int:
        slot = int(event[w.R_SLOT])
        table = self._walk.slots[slot]
        if slot not in matrices:
            matrices[slot] = kernel_columns(table.columns)
        count = int(count_rows(self._buffer, event, matrices[slot]))
        if count < 0:
            raise row_fault(count, self._place.where(int(event[w.R_AT])), int(event[w.R_TYPE]), table, -1)
        return count

    def _table_events(self, logged: LoggedStatement, bases: Ints) -> Iterator[TableEvent]:
        op: Literal["t", "m"] = "t" if logged.statement.kind is StatementKind.TRUNCATE else "m"
        ordinal = int(bases[logged.row_event])
        for part, (database, table) in enumerate(subjects_of(self._tables, logged)):
            yield TableEvent(op, database, table, logged.query.statement, logged.transaction, ordinal, part)


def decode_events(  # noqa: PLR0913 - what a stretch of bytes does not say of itself
    buffer: bytes | memoryview | npt.NDArray[np.uint8],
    *,
    file: str,
    base_pos: int = 4,
    tables: TableFilter = every_table,
    schema_ids: SchemaIds | None = None,
    definitions: Definitions | None = None,
    prepared: PreparedRows = "inside",
    most_bytes: int | None = None,
) -> DecodedEvents:
    """Decode whole transactions of one log file.

    Args:
        buffer: raw events without packet headers and without the file's 4-byte magic; begins with a FORMAT_DESCRIPTION
            event and ends after a transaction.
        file: name of the log file.
        base_pos: file position of the first event after the leading FORMAT_DESCRIPTION event; 4 when that event itself
            lies at 4, as in a whole file.
        tables: which tables' rows are wanted; ordinals count all.
        schema_ids: numbers for the schemas met; share one between the segments of a plan.
        definitions: what TABLE_MAP events leave open, as the plan found it; None where the log says it all.
        prepared: where the rows of XA COMMITs are. "inside": at an XA PREPARE before them in the buffer, whose rows
            come out as the commit's; those without a commit do not come out. "elsewhere": another segment holds them.
            A place: the buffer is one prepared transaction, and its rows come out as that of the commit at this place.
        most_bytes: a larger value is left in the buffer and comes out as a `LargeValue`; None to read all.

    Raises:
        DecodeError: an event is damaged, unknown or unsupported, or the buffer ends inside an event or a transaction,
            or an XA COMMIT lacks its prepare. Damage inside rows shows while iterating.
    """
    array = as_buffer(buffer)
    if isinstance(prepared, CommitPlace):
        walker = Walker(file, base_pos, prepared=True, definitions=definitions)
        walk = replace(walk_prepared(walker, array), transactions=prepared.transactions)
        return DecodedEvents(walker, walk, tables, schema_ids or SchemaIds(), most_bytes)
    walker = Walker(file, base_pos, definitions=definitions)
    walk = walker.walk(array)
    if walk.consumed_bytes != len(array) or walker.format is None:
        raise _cut_short(array, walker, walk)
    if walk.open:
        raise DecodeError(
            f"{file}:{walker.position}: the events end inside a transaction",
            hint="A segment must hold whole transactions: cut it where Walk.transaction_offsets say.",
        )
    if prepared == "inside":
        walk = answer_commits(walk, file)
    return DecodedEvents(walker, walk, tables, schema_ids or SchemaIds(), most_bytes)


def _cut_short(array: npt.NDArray[np.uint8], walker: Walker, walk: Walk) -> DecodeError:
    at, left = walk.consumed_bytes, len(array) - walk.consumed_bytes
    if left < HEADER_BYTES:
        return DecodeError(f"{walker.file}:{walker.position}: {left} bytes are left that are no whole event header")
    header = parse_header(array.data, at)
    return DecodeError(
        f"{walker.file}:{walker.position}: event {type_name(header.event_type)} is cut short: "
        f"{left} of its {header.size_bytes} bytes are there"
    )
