"""Walk over a stretch of raw events: statements, XA phases and rows that it found."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.kernels import walk as w
from databus.binlog.log.expansion import Expansion, unexpanded
from databus.binlog.log.statements.statements import QueryEvent, Statement
from databus.binlog.log.tablemap import TableMap

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def as_buffer(data: bytes | memoryview | Bytes) -> Bytes:
    """Return a read-only byte array over data, without a copy: kernels are compiled for that one type."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    view = array.view()
    view.flags.writeable = False
    return view


class XaPhase(enum.Enum):
    """Phase of an XA transaction at a place of the log."""

    PREPARE = "XA PREPARE"
    COMMIT = "XA COMMIT"
    ROLLBACK = "XA ROLLBACK"


@dataclass(frozen=True, eq=False)
class XaEvent:
    """XA phase met on the way; it is a transaction of the log in each case.

    Attributes:
        phase: what happens.
        xid: `X'gtrid',X'bqual',format`, lower case, as the servers write it.
        transaction: index of its transaction in the walk.
        rows: a prepare's R_… lines that lie in the walked buffer; they are no rows of the walk.
    """

    phase: XaPhase
    xid: str
    transaction: int
    rows: Ints = field(default_factory=lambda: np.empty((0, w.R_WIDTH), np.int64))


@dataclass(frozen=True)
class LoggedStatement:
    """A TRUNCATE or definition statement met on the way.

    Attributes:
        statement: what it does.
        query: its text and default database.
        row_event: index of its place among the walk's rows events.
        transaction: index of its transaction.
        pos: file position of its event.
    """

    statement: Statement
    query: QueryEvent
    row_event: int
    transaction: int
    pos: int = 0


@dataclass(frozen=True)
class RowsByStatement:
    """A statement that changes rows and has no row events, or hides a captured table: its effect is not known.

    Attributes:
        sql: its text.
        pos: file position of its event.
        transaction: index of its transaction.
        hidden: the captured table whose name its temporary table has; "" where it changes rows.
        thread: number of its session, where it hides a table.
    """

    sql: str
    pos: int
    transaction: int
    hidden: str = ""
    thread: int = 0


@dataclass
class Walk:
    """Walk result of one call of `Walker.walk`.

    Attributes:
        consumed_bytes: offset after the last whole event.
        transactions: the transactions that ended.
        transaction_offsets: buffer offset after each of them: where the buffer may be cut.
        rows: int64[n, R_WIDTH], one line per rows event or statement (slot −1) in log order, also of the transaction
            still open.
        statements: TRUNCATE and definition statements.
        slots: table maps that R_SLOT of `rows` counts; grows for the life of the walker.
        open: whether a transaction has begun and not ended.
        expansion: the plain events that `rows` points into; the other offsets are those of the raw bytes.
        xa: XA phases in log order; a prepare's rows are no rows of the walk.
        kept: None, or how many rows events of the transaction that was open before still count, the others having been
            taken back.
        by_statement: statements that change rows, where the walker passes them.
    """

    consumed_bytes: int
    transactions: Transactions
    transaction_offsets: Ints
    rows: Ints
    statements: list[LoggedStatement]
    slots: list[TableMap]
    open: bool
    expansion: Expansion
    xa: list[XaEvent] = field(default_factory=list)
    kept: int | None = None
    by_statement: list[RowsByStatement] = field(default_factory=list)


class WalkPlace:
    """The event that a walk stands at.

    Attributes:
        file: name of the log file.
        state: the kernel's S_… state.
        expansion: the plain events being walked.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.state: Ints = np.zeros(w.S_COUNT, dtype=np.int64)
        self.expansion: Expansion = unexpanded(as_buffer(b""))

    @property
    def pos(self) -> int:
        """File position of the event; inside a compressed event one of its own."""
        return int(self.state[w.S_AT] + self.state[w.S_SHIFT])

    @property
    def fault_position(self) -> int:
        """File position to name in messages: inside a compressed event where that one lies."""
        state = self.state
        at = int(state[w.S_AT])
        if at < state[w.S_PLAIN_END] or state[w.S_EXPECTED]:
            splice = self.expansion.splices[state[w.S_SPLICE] - 1]
            at = int(splice[w.P_TO] - splice[w.P_RAW_TO] + splice[w.P_RAW_FROM])
        return at + int(state[w.S_SHIFT])

    def __str__(self) -> str:
        """Return `file:pos` for messages."""
        return f"{self.file}:{self.fault_position}"
