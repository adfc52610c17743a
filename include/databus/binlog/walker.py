"""Walk a stretch of raw events: a kernel does the bulk, this settles what it stops at (statements, tables, faults)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.compressed_events import ExpansionFault
from databus.binlog.events import (
    CHECKSUM_BYTES,
    FLAG_ARTIFICIAL,
    HEADER_BYTES,
    IGNORABLE_TYPES,
    ROWS_TYPES,
    EventType,
    FormatDescription,
    parse_format_description,
    parse_header,
    refuse,
    type_name,
)
from databus.binlog.expansion import Expansion, expand, unexpanded
from databus.binlog.gtids import mariadb_gtids, mysql_gtids, parse_mariadb_gtid, parse_tagged_gtid
from databus.binlog.kernels import walk as w
from databus.binlog.mapped import crc32_of, release
from databus.binlog.schema_history.definitions import Definitions
from databus.binlog.statements import QueryEvent, Statement, StatementKind, classify, parse_query, savepoint_name
from databus.binlog.table_batch import Transactions
from databus.binlog.tablemap import TableMap, parse_table_map
from databus.binlog.taken_back import TakenBack
from databus.binlog.walk_faults import refuse_statement, walk_fault
from databus.binlog.xa import XaEvent, XaPhase, parse_prepare, parse_second_phase
from databus.core.errors import DecodeError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_DUMMY_TABLE_ID = 0xFFFFFF
"""Table id of a rows event that only ends a statement."""


def as_buffer(data: bytes | memoryview | Bytes) -> Bytes:
    """Return a read-only byte array over data, without a copy: kernels are compiled for that one type."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    view = array.view()
    view.flags.writeable = False
    return view


def _bytes_of_many(buffer: Bytes, at: int) -> int:
    """Return the bytes of a buffer without those of a large event at an offset, which is but one."""
    head = buffer[at + 9 : at + 13].tobytes()
    size = int.from_bytes(head, "little")
    return len(buffer) - size if w.LARGE_BYTES < size <= len(buffer) - at else len(buffer)


def _classes() -> Bytes:
    classes = np.full(256, w.C_ASK, dtype=np.uint8)
    for kind in IGNORABLE_TYPES:
        classes[kind] = w.C_SKIP
    for kind in ROWS_TYPES:
        classes[kind] = w.C_ROWS
    classes[[EventType.HEARTBEAT, EventType.HEARTBEAT_V2]] = w.C_UNPLACED
    classes[[EventType.GTID, EventType.ANONYMOUS_GTID]] = w.C_GTID
    classes[EventType.MARIADB_GTID] = w.C_MARIADB_GTID
    classes[EventType.QUERY] = w.C_QUERY
    classes[EventType.XID] = w.C_XID
    classes[EventType.TABLE_MAP] = w.C_TABLE_MAP
    return classes


_CLASSES = _classes()


@dataclass(frozen=True)
class LoggedStatement:
    """A TRUNCATE or definition statement met on the way.

    Attributes:
        statement: what it does.
        query: its text and default database.
        row_event: index of its place among the walk's rows events.
        transaction: index of its transaction.
    """

    statement: Statement
    query: QueryEvent
    row_event: int
    transaction: int


@dataclass
class Walk:
    """What one call of `Walker.walk` found.

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


@dataclass
class Walker:
    """Keeps what lasts between stretches of one log file: format, position, table ids, the open transaction.

    Attributes:
        file: name of the log file, for messages and results.
        base_pos: file position of the first event after the leading FORMAT_DESCRIPTION event; 4 when that event itself
            lies at 4, as in a whole file.
        definitions: adds to tables what TABLE_MAP events leave open, and is told of definition statements; None where
            the log says it all.
        prepared: whether XA_PREPARE ends a transaction like a commit, because its XA COMMIT is known.
    """

    file: str
    base_pos: int = 4
    format: FormatDescription | None = None
    prepared: bool = False
    counts: Ints = field(default_factory=lambda: np.zeros(256, dtype=np.int64))
    slots: list[TableMap] = field(default_factory=list)
    definitions: Definitions | None = None

    def __post_init__(self) -> None:
        self._state = np.zeros(w.S_COUNT, dtype=np.int64)
        self._position = self.base_pos
        self._carry = np.zeros(w.T_WIDTH, dtype=np.int64)
        self._tagged: dict[int, str] = {}
        self._known: dict[bytes, int] = {}
        self._slot_of: dict[TableMap, int] = {}
        self._bindings = np.full((64, w.B_WIDTH), -1, dtype=np.int64)
        self._bound = 0
        self._store = np.empty(1 << 14, dtype=np.uint8)
        self._store_view = as_buffer(self._store)
        self._stored = 0
        self._statements: list[LoggedStatement] = []
        self._expansion = unexpanded(as_buffer(b""))
        self._taken_back = TakenBack()
        self._xa: list[XaEvent] = []
        self._undecided = -1

    @property
    def position(self) -> int:
        """File position after the last event walked over."""
        return self._position

    def walk(self, data: bytes | memoryview | Bytes, most_bytes: int | None = None) -> Walk:
        """Walk over the whole events in a buffer that starts where the last walk ended.

        Args:
            data: raw events.
            most_bytes: walk no further once what was compressed takes more than this; None to walk over all.

        Raises:
            DecodeError: an event is damaged, unknown or unsupported; names file, position and type.
        """
        transactions, rows = self._start(as_buffer(data), most_bytes)
        self._run(transactions, rows)
        return self._result(transactions, rows)

    def walk_until_fault(
        self, data: bytes | memoryview | Bytes, most_bytes: int | None = None
    ) -> tuple[Walk, DecodeError | None]:
        """Walk as `walk` does, and give what lies before a fault together with it; the walker ends there."""
        transactions, rows = self._start(as_buffer(data), most_bytes)
        try:
            self._run(transactions, rows)
        except DecodeError as fault:
            consumed, position = self._expansion.raw_offset(int(self._state[w.S_AT])), self._fault_position()
            walk = replace(self._result(transactions, rows), consumed_bytes=consumed)
            self._position = position
            return walk, fault
        return self._result(transactions, rows), None

    def _start(self, raw: Bytes, most_bytes: int | None) -> tuple[Ints, Ints]:
        """Get ready for a stretch; returns room for its transactions and rows events."""
        state = self._state
        state[[w.S_AT, w.S_EVENTS, w.S_TRANSACTIONS, w.S_SPLICE, w.S_PLAIN_END, w.S_EXPECTED, w.S_VERIFIED]] = 0
        state[w.S_SHIFT] = self._position
        if self.format is not None or self._read_format(raw):
            assert self.format is not None  # noqa: S101 - just read
            self._expansion = expand(raw, int(state[w.S_AT]), self.format, most_bytes)
            state[w.S_SHIFT] = self._position - state[w.S_AT]
        else:
            self._expansion = unexpanded(raw)
        size = _bytes_of_many(self._expansion.buffer, int(state[w.S_AT]))
        # Smallest possible events bound how many there can be; pages of these arrays that stay untouched cost nothing.
        transactions = np.empty((size // HEADER_BYTES + 2, w.T_WIDTH), dtype=np.int64)
        transactions[0] = self._carry
        rows = np.empty((size // HEADER_BYTES + 1, w.R_WIDTH), dtype=np.int64)
        self._statements = []
        self._taken_back.start_walk(int(self._carry[w.T_ROW_EVENTS]))
        self._xa = []
        if self._carry[w.T_KIND] != w.TAGGED_GTID:
            self._tagged = {}
        return transactions, rows

    def _run(self, transactions: Ints, rows: Ints) -> None:
        """Walk to the end of the stretch, unless its format is not known yet."""
        buffer = self._expansion.buffer
        while self.format is not None:
            status = w.walk(
                buffer,
                len(buffer),
                self.format.checksum_bytes,
                _CLASSES,
                self._state,
                self.counts,
                transactions,
                rows,
                self._bindings,
                self._store_view,
                self._expansion.splices,
            )
            if status == w.DONE:
                if self._expansion.fault is not None:
                    raise self._expansion.fault.error(self._where())
                return
            if status == w.UNVERIFIED:
                self._verify(buffer)
            else:
                self._settle(int(status), buffer, transactions, rows)

    def _verify(self, buffer: Bytes) -> None:
        """Verify the checksum of the large event that the kernel stands at."""
        at, size = int(self._state[w.S_AT]), int(self._state[w.S_SIZE])
        end = at + size - CHECKSUM_BYTES
        if crc32_of(buffer[at:end]) != int.from_bytes(buffer[end : end + CHECKSUM_BYTES].tobytes(), "little"):
            self._fault(w.BAD_CRC, int(buffer[at + 4]), size)
        release(buffer[at : at + size])
        self._state[w.S_VERIFIED] = end

    def _result(self, transactions: Ints, rows: Ints) -> Walk:
        state = self._state
        count, at = int(state[w.S_TRANSACTIONS]), int(state[w.S_AT])
        consumed = int(self._expansion.raw_ends(state[[w.S_AT]])[0])
        self._position = at + int(state[w.S_SHIFT])
        self._carry = transactions[count].copy()
        done = transactions[:count].copy()
        found = self._transactions(done)
        if count in self._tagged:
            self._tagged = {0: self._tagged[count]}
        offsets = self._expansion.raw_ends(done[:, w.T_OFFSET].copy())
        lines, statements = rows[: state[w.S_EVENTS]], self._statements
        places = self._taken_back.places(len(lines))
        if places is not None:
            lines = lines[places[0]]
            statements = [replace(s, row_event=int(places[1][s.row_event])) for s in statements]
        walk = Walk(
            consumed, found, offsets, lines.copy(), statements, self.slots, bool(state[w.S_PHASE]), self._expansion,
            self._xa, self._taken_back.kept,
        )  # fmt: skip
        self._statements = []
        return walk

    def _transactions(self, lines: Ints) -> Transactions:
        stamps = np.where(lines[:, w.T_COMMIT_US] > 0, lines[:, w.T_COMMIT_US] // 1000, lines[:, w.T_TIMESTAMP] * 1000)
        return Transactions(
            self.file,
            lines[:, w.T_START].copy(),
            lines[:, w.T_END].copy(),
            self._gtids(lines),
            stamps,
            lines[:, w.T_SERVER].copy(),
        )

    def _gtids(self, lines: Ints) -> pa.StringArray:
        kinds = lines[:, w.T_KIND]
        kind = int(kinds[0]) if len(lines) and bool((kinds == kinds[0]).all()) else -1
        if kind == w.MYSQL_GTID:
            return mysql_gtids(np.ascontiguousarray(lines[:, [w.T_UUID, w.T_UUID2]]), lines[:, w.T_NUMBER])
        if kind == w.MARIADB_GTID:
            return mariadb_gtids(lines[:, w.T_DOMAIN], lines[:, w.T_SERVER], lines[:, w.T_NUMBER])
        if len(lines) <= 1:
            return pa.array([self._tagged.get(0, "") if kind == w.TAGGED_GTID else ""] * len(lines), pa.string())
        parts = [self._gtids(lines[i : i + 1]) for i in range(len(lines))]
        for i, text in self._tagged.items():
            if i < len(parts):
                parts[i] = pa.array([text], pa.string())
        return pa.concat_arrays(parts)

    def _where(self) -> str:
        return f"{self.file}:{self._fault_position()}"

    def _fault_position(self) -> int:
        at, state = int(self._state[w.S_AT]), self._state
        if at < state[w.S_PLAIN_END] or state[w.S_EXPECTED]:  # inside a compressed event: where that one lies
            splice = self._expansion.splices[state[w.S_SPLICE] - 1]
            at = int(splice[w.P_TO] - splice[w.P_RAW_TO] + splice[w.P_RAW_FROM])
        return at + int(state[w.S_SHIFT])

    def _read_format(self, buffer: Bytes) -> bool:
        """Read the leading FORMAT_DESCRIPTION event; False when the buffer does not hold all of it yet."""
        where = f"{self.file}:4"
        if len(buffer) < HEADER_BYTES:
            return False
        size = parse_header(buffer.data).size_bytes
        if buffer[4] == EventType.FORMAT_DESCRIPTION and size > len(buffer):
            return False
        self.format = parse_format_description(bytes(buffer[:size]), where)
        self.counts[EventType.FORMAT_DESCRIPTION] += 1
        self._state[w.S_AT] = size
        if self.base_pos == 4:
            self._position += size
        return True

    def _settle(self, status: int, buffer: Bytes, transactions: Ints, rows: Ints) -> None:
        """Deal with the event at which the kernel stopped, and step over it."""
        at, size = int(self._state[w.S_AT]), int(self._state[w.S_SIZE])
        if status == w.NOT_ONE:
            raise ExpansionFault(EventType.TRANSACTION_PAYLOAD, at, "holds not one whole transaction").error(
                self._where()
            )
        kind = int(buffer[at + 4])
        if status == w.UNBOUND_ROWS and int.from_bytes(bytes(buffer[at + 19 : at + 25]), "little") == _DUMMY_TABLE_ID:
            pass
        elif status != w.ASK:
            self._fault(status, kind, size)
        else:
            assert self.format is not None  # noqa: S101 - walk() has read it
            checksum = self.format.checksum_bytes if at >= self._state[w.S_PLAIN_END] else 0
            body = bytes(buffer[at + HEADER_BYTES : at + size - checksum])
            self._answer(kind, body, bytes(buffer[at : at + size]), transactions, rows)
        self.counts[kind] += 1
        self._state[w.S_AT] = at + size

    def _fault(self, status: int, kind: int, size: int) -> NoReturn:
        raise walk_fault(status, kind, size, self._where())

    def _answer(self, kind: int, body: bytes, event: bytes, transactions: Ints, rows: Ints) -> None:
        try:
            if kind == EventType.TABLE_MAP:
                self._bind(body)
            elif kind == EventType.QUERY:
                self._query(body, event, transactions, rows)
            elif kind == EventType.GTID_TAGGED:
                self._begin_tagged(body, event, transactions)
            elif kind == EventType.MARIADB_GTID:
                self._begin_mariadb(body, event, transactions)
            elif kind == EventType.XA_PREPARE:
                self._prepare(body, event, transactions, rows)
            elif kind == EventType.FORMAT_DESCRIPTION:
                self.format = parse_format_description(event, self._where())
                if parse_header(event).flags & FLAG_ARTIFICIAL or parse_header(event).log_pos == 0:
                    self._state[w.S_SHIFT] -= len(event)
            else:
                raise refuse(kind, self._where())
        except (ValueError, KeyError, IndexError) as error:
            raise DecodeError(
                f"{self._where()}: event {type_name(kind)} cannot be read: {error}",
                hint="Compare with mysqlbinlog at this position; the log is damaged, or of a newer server.",
            ) from error

    def _bind(self, body: bytes) -> None:
        """Bind a table id to the table its TABLE_MAP describes; ids of one and the same table share a slot."""
        slot = self._known.get(body[8:])
        if slot is None:
            slot = self._slot(body)
            self._known[body[8:]] = slot
        if 2 * self._bound >= len(self._bindings):
            self._grow_bindings()
        table_id = int.from_bytes(body[:6], "little")
        line = self._bindings[w.find_binding(self._bindings, table_id)]
        self._bound += int(line[w.B_ID] == -1)
        line[:] = (table_id, slot, self._keep(body), len(body))

    def _slot(self, body: bytes) -> int:
        flavor = self.format.flavor if self.format else "mysql"
        table = parse_table_map(body, self._where(), flavor)
        if self.definitions is not None:
            pos = int(self._state[w.S_AT] + self._state[w.S_SHIFT])
            table = self.definitions.complete(table, flavor, self.file, pos)
            slot = self._slot_of.setdefault(replace(table, table_id=0), len(self.slots))
            if slot < len(self.slots):
                return slot
        self.slots.append(table)
        return len(self.slots) - 1

    def _redefine(self, query: QueryEvent, event: bytes) -> None:
        """Pass a definition statement on; what a TABLE_MAP stands for may be another table from here on."""
        if self.definitions is None:
            return
        self.definitions.follow(query, self.file, int(self._state[w.S_AT] + self._state[w.S_SHIFT]) + len(event))
        self._known = {}
        self._bindings[:] = -1
        self._bound = self._stored = 0

    def _keep(self, body: bytes) -> int:
        """Copy a TABLE_MAP body to where the kernel compares later ones with it; returns its offset there."""
        at = self._stored
        if at + len(body) > len(self._store):
            larger = np.empty(2 * (at + len(body)), dtype=np.uint8)
            larger[:at] = self._store[:at]
            self._store, self._store_view = larger, as_buffer(larger)
        self._store[at : at + len(body)] = np.frombuffer(body, dtype=np.uint8)
        self._stored = at + len(body)
        return at

    def _grow_bindings(self) -> None:
        old = self._bindings[self._bindings[:, w.B_ID] != -1]
        self._bindings = np.full((4 * len(self._bindings), w.B_WIDTH), -1, dtype=np.int64)
        for line in old:
            self._bindings[w.find_binding(self._bindings, int(line[w.B_ID]))] = line

    def _begin(self, event: bytes, transactions: Ints) -> Ints:
        if self._state[w.S_PHASE] != w.OUTSIDE:
            self._fault(w.NESTED, event[4], len(event))
        line: Ints = transactions[self._state[w.S_TRANSACTIONS]]
        line[w.T_START] = self._state[w.S_AT] + self._state[w.S_SHIFT]
        line[w.T_SERVER] = parse_header(event).server_id
        return line

    def _begin_tagged(self, body: bytes, event: bytes, transactions: Ints) -> None:
        line = self._begin(event, transactions)
        gtid = parse_tagged_gtid(body)
        line[w.T_KIND], line[w.T_COMMIT_US] = w.TAGGED_GTID, gtid.commit_us
        self._tagged[int(self._state[w.S_TRANSACTIONS])] = gtid.text
        self._state[w.S_PHASE] = w.ANNOUNCED

    def _begin_mariadb(self, body: bytes, event: bytes, transactions: Ints) -> None:
        """Begin a MariaDB transaction whose GTID event carries more than the kernel reads."""
        if self.format is None or self.format.flavor != "mariadb":
            raise refuse(event[4], self._where())
        gtid = parse_mariadb_gtid(body)
        line = self._begin(event, transactions)
        line[w.T_KIND], line[w.T_NUMBER], line[w.T_DOMAIN] = w.MARIADB_GTID, gtid.sequence, gtid.domain
        self._state[w.S_PHASE] = w.ANNOUNCED if gtid.standalone else w.INSIDE
        self._undecided = int(line[w.T_START]) if gtid.undecided_alter else -1

    def _query(self, body: bytes, event: bytes, transactions: Ints, rows: Ints) -> None:
        query = parse_query(body)
        statement = classify(query.statement)
        state = self._state
        inside = state[w.S_PHASE] == w.INSIDE
        kind = statement.kind
        if kind is StatementKind.NOTHING:
            return
        if kind is StatementKind.SAVEPOINT:
            self._savepoint(query.statement, transactions[state[w.S_TRANSACTIONS]])
        elif kind is StatementKind.BEGIN and not inside:
            if state[w.S_PHASE] == w.OUTSIDE:
                self._begin(event, transactions)
            state[w.S_PHASE] = w.INSIDE
        elif kind is StatementKind.COMMIT and inside:
            self._close(event, transactions)
        elif kind is StatementKind.ROLLBACK and inside:
            self._taken_back.drop(0, state, transactions, rows)
            self._close(event, transactions)
        elif kind is StatementKind.ROLLBACK_TO and inside:
            self._rollback_to(query.statement, transactions, rows)
        elif kind is StatementKind.XA:
            self._second_phase(query.statement, event, transactions)
        elif kind in (StatementKind.TRUNCATE, StatementKind.DEFINITION):
            self._define(statement, query, event, transactions, rows)
        else:
            raise refuse_statement(kind, query.statement, self._where())

    def _savepoint(self, sql: str, transaction: Ints) -> None:
        name = savepoint_name(sql)
        if sql.lstrip()[:7].upper() == "RELEASE":
            self._taken_back.release(name, transaction)
        else:
            self._taken_back.savepoint(name, transaction)

    def _rollback_to(self, sql: str, transactions: Ints, rows: Ints) -> None:
        line = transactions[self._state[w.S_TRANSACTIONS]]
        first = self._taken_back.rollback_to(savepoint_name(sql), line)
        if first is not None:
            self._taken_back.drop(first, self._state, transactions, rows)
        elif line[w.T_ROW_EVENTS]:
            raise refuse_statement(StatementKind.ROLLBACK_TO, sql, self._where())

    def _second_phase(self, sql: str, event: bytes, transactions: Ints) -> None:
        """Follow XA START and XA END of a first phase, and the second phase, which is a transaction of its own."""
        state, words = self._state, sql.upper().split()[:2]
        inside = state[w.S_PHASE] == w.INSIDE
        if (words == ["XA", "START"] and not inside) or (words == ["XA", "END"] and inside):
            if state[w.S_PHASE] == w.OUTSIDE:
                self._begin(event, transactions)
            state[w.S_PHASE] = w.INSIDE
            return
        parsed = parse_second_phase(sql)
        if parsed is None or inside:
            raise refuse_statement(StatementKind.XA, sql, self._where())
        if state[w.S_PHASE] == w.OUTSIDE:
            self._begin(event, transactions)
        self._xa.append(XaEvent(*parsed, int(state[w.S_TRANSACTIONS])))
        self._close(event, transactions)

    def _prepare(self, body: bytes, event: bytes, transactions: Ints, rows: Ints) -> None:
        """End a first phase: its rows wait for XA COMMIT, unless it commits at once."""
        xid, one_phase = parse_prepare(body)
        if self._state[w.S_PHASE] != w.INSIDE:
            self._fault(w.NO_TRANSACTION, event[4], len(event))
        if not one_phase:
            place = int(self._state[w.S_TRANSACTIONS])
            held = () if self.prepared else (self._taken_back.drop(0, self._state, transactions, rows),)
            self._xa.append(XaEvent(XaPhase.PREPARE, xid, place, *held))
        self._close(event, transactions)

    def _define(self, statement: Statement, query: QueryEvent, event: bytes, transactions: Ints, rows: Ints) -> None:
        """Take note of a TRUNCATE or definition statement; outside BEGIN it is a transaction of its own."""
        state = self._state
        inside = state[w.S_PHASE] == w.INSIDE
        if state[w.S_PHASE] == w.ANNOUNCED and int(transactions[state[w.S_TRANSACTIONS], w.T_START]) == self._undecided:
            # The definition takes effect at COMMIT ALTER, or never.
            self._close(event, transactions)
            return
        if state[w.S_PHASE] == w.OUTSIDE:
            self._begin(event, transactions)
        place = int(state[w.S_EVENTS])
        rows[place] = 0
        rows[place, w.R_AT] = state[w.S_AT]
        rows[place, w.R_TYPE], rows[place, w.R_SLOT] = EventType.QUERY, -1
        rows[place, w.R_TRANSACTION] = state[w.S_TRANSACTIONS]
        state[w.S_EVENTS] += 1
        self._statements.append(LoggedStatement(statement, query, place, int(state[w.S_TRANSACTIONS])))
        self._redefine(query, event)
        if inside:
            return
        if (
            query.statement.rstrip().upper().endswith("START TRANSACTION")
        ):  # CREATE TABLE … SELECT of MySQL 8.0.21 and later
            state[w.S_PHASE] = w.INSIDE
        else:
            self._close(event, transactions)

    def _close(self, event: bytes, transactions: Ints) -> None:
        header = parse_header(event)
        end = int(self._state[w.S_AT] + self._state[w.S_SHIFT]) + len(event)
        w.close_transaction(self._state, transactions, end, header.timestamp_s, header.server_id)
