"""Stretches of a log that were walked: files that begin, and the events and transactions in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.log.walk import RowsByStatement, XaEvent
from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.core.tables.unlogged import UnloggedChange

Ints = npt.NDArray[np.int64]


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
class WalkedStretch:
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


def part(piece: WalkedStretch, first: int, last: int) -> WalkedStretch:
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
    return WalkedStretch(
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
