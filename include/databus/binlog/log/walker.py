"""Walk a stretch of raw events: a kernel does the bulk, this settles what it stops at (statements, tables, faults)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.kernels import walk as w
from databus.binlog.log.compressed_events import ExpansionFault
from databus.binlog.log.events import (
    BETWEEN_TYPES,
    CHECKSUM_BYTES,
    FLAG_ARTIFICIAL,
    FLAGGED_TYPES,
    HEADER_BYTES,
    PASSED_OVER_TYPES,
    ROWS_TYPES,
    VALUE_TYPES,
    EventType,
    FormatDescription,
    is_ignorable,
    parse_format_description,
    parse_header,
    refuse,
    type_name,
)
from databus.binlog.log.expansion import Expansion, expand, unexpanded
from databus.binlog.log.mapped import crc32_of, release
from databus.binlog.log.table_bindings import TableBindings
from databus.binlog.log.tablemap import TableMap
from databus.binlog.log.transactions.control import TransactionControl
from databus.binlog.log.transactions.gtids import mariadb_gtids, mysql_gtids
from databus.binlog.log.walk import Walk, WalkPlace, as_buffer
from databus.binlog.log.walk_faults import walk_fault
from databus.binlog.schema_history.definitions import Definitions
from databus.core.errors.source import DecodeError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_DUMMY_TABLE_ID = 0xFFFFFF
"""Table id of a rows event that only ends a statement."""


def _bytes_of_many(buffer: Bytes, at: int) -> int:
    """Return the bytes of a buffer without those of a large event at an offset, which is but one."""
    head = buffer[at + 9 : at + 13].tobytes()
    size = int.from_bytes(head, "little")
    return len(buffer) - size if w.LARGE_BYTES < size <= len(buffer) - at else len(buffer)


def _classes() -> Bytes:
    classes = np.full(256, w.C_ASK, dtype=np.uint8)
    for kinds, action in (
        (PASSED_OVER_TYPES, w.C_SKIP),
        (BETWEEN_TYPES, w.C_BETWEEN),
        (FLAGGED_TYPES, w.C_FLAGGED),
        (ROWS_TYPES, w.C_ROWS),
    ):
        classes[list(kinds)] = action
    classes[[EventType.HEARTBEAT, EventType.HEARTBEAT_V2]] = w.C_UNPLACED
    classes[[EventType.GTID, EventType.ANONYMOUS_GTID]] = w.C_GTID
    classes[EventType.MARIADB_GTID] = w.C_MARIADB_GTID
    classes[EventType.QUERY] = w.C_QUERY
    classes[EventType.XID] = w.C_XID
    classes[EventType.TABLE_MAP] = w.C_TABLE_MAP
    return classes


_CLASSES = _classes()
_CLASSES_BEHIND_VALUES = np.where(
    np.isin(_CLASSES, (w.C_GTID, w.C_MARIADB_GTID, w.C_QUERY, w.C_XID, w.C_TABLE_MAP, w.C_ROWS)), w.C_ASK, _CLASSES
).astype(np.uint8)
"""Events that begin, fill or end a transaction: each is looked at where values wait for their statement."""


@dataclass
class Walker:
    """Keeps what lasts between stretches of one log file: format, position, table ids, the open transaction.

    Attributes:
        file: name of the log file, for messages and results.
        base_pos: file position of the first event after the leading FORMAT_DESCRIPTION event; 4 when that event itself
            lies at 4, as in a whole file.
        definitions: adds to tables what TABLE_MAP events leave open, and gets definition statements; None where
            the log says it all.
        prepared: whether XA_PREPARE ends a transaction like a commit, because its XA COMMIT is known.
        passes_statements: whether statements that change rows are reported rather than refused.
    """

    file: str
    base_pos: int = 4
    format: FormatDescription | None = None
    prepared: bool = False
    counts: Ints = field(default_factory=lambda: np.zeros(256, dtype=np.int64))
    slots: list[TableMap] = field(default_factory=list)
    definitions: Definitions | None = None
    passes_statements: bool = False

    def __post_init__(self) -> None:
        self._place = WalkPlace(self.file)
        self._state = self._place.state
        self._position = self.base_pos
        self._carry = np.zeros(w.T_WIDTH, dtype=np.int64)
        self._tables = TableBindings(self.slots, self.definitions, self._place)
        self._control = TransactionControl(
            self._place, self._tables, prepared=self.prepared, passes_statements=self.passes_statements
        )

    @property
    def _expansion(self) -> Expansion:
        return self._place.expansion

    @_expansion.setter
    def _expansion(self, expansion: Expansion) -> None:
        self._place.expansion = expansion

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
            consumed, position = self._expansion.raw_offset(int(self._state[w.S_AT])), self._place.fault_position
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
        self._control.start(transactions, rows)
        return transactions, rows

    def _run(self, transactions: Ints, rows: Ints) -> None:
        """Walk to the end of the stretch, unless its format is not known yet."""
        buffer = self._expansion.buffer
        while self.format is not None:
            status = w.walk(
                buffer,
                len(buffer),
                self.format.checksum_bytes,
                _CLASSES_BEHIND_VALUES if self._control.values.waiting else _CLASSES,
                self._state,
                self.counts,
                transactions,
                rows,
                self._tables.lines,
                self._tables.bodies,
                self._expansion.splices,
            )
            if status == w.DONE:
                if self._expansion.fault is not None:
                    raise self._expansion.fault.error(self._where())
                return
            if status == w.UNVERIFIED:
                self._verify(buffer)
            else:
                self._settle(int(status), buffer)

    def _verify(self, buffer: Bytes) -> None:
        """Verify the checksum of the large event that the kernel stands at."""
        at, size = int(self._state[w.S_AT]), int(self._state[w.S_SIZE])
        end = at + size - CHECKSUM_BYTES
        if crc32_of(buffer[at:end]) != int.from_bytes(buffer[end : end + CHECKSUM_BYTES].tobytes(), "little"):
            self._fault(w.BAD_CRC, int(buffer[at + 4]), size)
        release(buffer[at : at + size])
        self._state[w.S_VERIFIED] = end

    def _result(self, transactions: Ints, rows: Ints) -> Walk:
        state, control = self._state, self._control
        count, at = int(state[w.S_TRANSACTIONS]), int(state[w.S_AT])
        consumed = int(self._expansion.raw_ends(state[[w.S_AT]])[0])
        self._position = at + int(state[w.S_SHIFT])
        self._carry = transactions[count].copy()
        done = transactions[:count].copy()
        found = self._transactions(done)
        if count in control.tagged:
            control.tagged = {0: control.tagged[count]}
        offsets = self._expansion.raw_ends(done[:, w.T_OFFSET].copy())
        lines, statements = rows[: state[w.S_EVENTS]], control.statements
        places = control.taken_back.places(len(lines))
        if places is not None:
            lines = lines[places[0]]
            statements = [replace(s, row_event=int(places[1][s.row_event])) for s in statements]
        walk = Walk(
            consumed, found, offsets, lines.copy(), statements, self.slots, bool(state[w.S_PHASE]), self._expansion,
            control.xa, control.taken_back.kept, control.by_statement,
        )  # fmt: skip
        control.end()
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
            return pa.array(
                [self._control.tagged.get(0, "") if kind == w.TAGGED_GTID else ""] * len(lines), pa.string()
            )
        parts = [self._gtids(lines[i : i + 1]) for i in range(len(lines))]
        for i, text in self._control.tagged.items():
            if i < len(parts):
                parts[i] = pa.array([text], pa.string())
        return pa.concat_arrays(parts)

    def _where(self) -> str:
        return str(self._place)

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

    def _settle(self, status: int, buffer: Bytes) -> None:
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
            self._answer(kind, body, bytes(buffer[at : at + size]), self.format)
        self.counts[kind] += 1
        self._state[w.S_AT] = at + size

    def _fault(self, status: int, kind: int, size: int) -> NoReturn:
        raise walk_fault(status, kind, size, self._where())

    def _answer(self, kind: int, body: bytes, event: bytes, log_format: FormatDescription) -> None:
        control = self._control
        if control.values.waiting and not is_ignorable(parse_header(event)):
            control.values.require_statement(kind)
        try:
            if kind in VALUE_TYPES:
                control.value(kind, body)
            elif kind == EventType.TABLE_MAP:
                self._tables.bind(body, log_format.flavor)
            elif kind == EventType.QUERY:
                control.query(body, event)
            elif kind == EventType.GTID_TAGGED:
                control.begin_tagged(body, event)
            elif kind == EventType.MARIADB_GTID:
                control.begin_mariadb(body, event, log_format.flavor)
            elif kind == EventType.XA_PREPARE:
                control.prepare(body, event)
            elif kind == EventType.FORMAT_DESCRIPTION:
                self.format = parse_format_description(event, self._where())
                if parse_header(event).flags & FLAG_ARTIFICIAL or parse_header(event).log_pos == 0:
                    self._state[w.S_SHIFT] -= len(event)
            elif not is_ignorable(parse_header(event)) and not control.of_statement(kind):
                raise refuse(kind, self._where())
        except (ValueError, KeyError, IndexError) as error:
            raise DecodeError(
                f"{self._where()}: event {type_name(kind)} cannot be read: {error}",
                hint="Compare with mysqlbinlog at this position; the log is damaged, or of a newer server.",
            ) from error
