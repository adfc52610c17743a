"""Begin, end and take back the transactions of a walk: the events of which its kernel only knows where they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels import walk as w
from databus.binlog.log.events import FLAG_OF_SESSION, STATEMENT_TYPES, EventType, parse_header, refuse
from databus.binlog.log.statements.logged_values import StatementValues
from databus.binlog.log.statements.statements import (
    QueryEvent,
    Statement,
    StatementKind,
    classify,
    parse_query,
    savepoint_name,
)
from databus.binlog.log.table_bindings import TableBindings
from databus.binlog.log.transactions.gtids import parse_mariadb_gtid, parse_tagged_gtid
from databus.binlog.log.transactions.rolled_back_rows import RolledBackRows
from databus.binlog.log.transactions.xa import parse_prepare, parse_second_phase
from databus.binlog.log.walk import LoggedStatement, RowsByStatement, WalkPlace, XaEvent, XaPhase
from databus.binlog.log.walk_faults import refuse_statement, walk_fault

Ints = npt.NDArray[np.int64]

_NO_LINES: Ints = np.zeros((0, 0), np.int64)


class TransactionControl:
    """Settles statements, GTIDs and XA phases of one log file, stretch by stretch.

    Attributes:
        statements: TRUNCATE and definition statements of the stretch.
        xa: XA phases of the stretch.
        by_statement: statements of the stretch that change rows, where they are passed.
        tagged: index of a transaction of the stretch → its GTID, where that has a tag.
        taken_back: rows events of the open transaction that still count.
        values: values that wait for their statement.
    """

    def __init__(self, place: WalkPlace, tables: TableBindings, *, prepared: bool, passes_statements: bool) -> None:
        """Begin outside any transaction.

        Args:
            place: the event that is settled; its state is moved.
            tables: gets definition statements.
            prepared: whether XA_PREPARE ends a transaction like a commit.
            passes_statements: whether statements that change rows are reported rather than refused.
        """
        self._place, self._state, self._tables, self._prepared = place, place.state, tables, prepared
        self._passes_statements = passes_statements
        self._transactions = self._rows = _NO_LINES
        self.by_statement: list[RowsByStatement] = []
        self.statements: list[LoggedStatement] = []
        self.xa: list[XaEvent] = []
        self.tagged: dict[int, str] = {}
        self.taken_back = RolledBackRows()
        self.values = StatementValues(place)
        self._undecided = -1

    def start(self, transactions: Ints, rows: Ints) -> None:
        """Go on in a new stretch, of which these are the lines; the first is the transaction that is open."""
        self._transactions, self._rows = transactions, rows
        self.statements, self.xa, self.by_statement = [], [], []
        self.taken_back.start_walk(int(transactions[0, w.T_ROW_EVENTS]))
        if transactions[0, w.T_KIND] != w.TAGGED_GTID:
            self.tagged = {}

    def end(self) -> None:
        """Let go of the stretch's lines."""
        self._transactions = self._rows = _NO_LINES

    def _begin(self, event: bytes) -> Ints:
        if self._state[w.S_PHASE] != w.OUTSIDE:
            raise walk_fault(w.NESTED, event[4], len(event), str(self._place))
        line: Ints = self._transactions[self._state[w.S_TRANSACTIONS]]
        line[w.T_START] = self._state[w.S_AT] + self._state[w.S_SHIFT]
        line[w.T_SERVER] = parse_header(event).server_id
        return line

    def begin_tagged(self, body: bytes, event: bytes) -> None:
        """Begin a transaction whose GTID may have a tag."""
        line = self._begin(event)
        gtid = parse_tagged_gtid(body)
        line[w.T_KIND], line[w.T_COMMIT_US] = w.TAGGED_GTID, gtid.commit_us
        self.tagged[int(self._state[w.S_TRANSACTIONS])] = gtid.text
        self._state[w.S_PHASE] = w.ANNOUNCED

    def begin_mariadb(self, body: bytes, event: bytes, flavor: str) -> None:
        """Begin a MariaDB transaction whose GTID event carries more than the kernel reads."""
        if flavor != "mariadb":
            raise refuse(event[4], str(self._place))
        gtid = parse_mariadb_gtid(body)
        line = self._begin(event)
        line[w.T_KIND], line[w.T_NUMBER], line[w.T_DOMAIN] = w.MARIADB_GTID, gtid.sequence, gtid.domain
        self._state[w.S_PHASE] = w.ANNOUNCED if gtid.standalone else w.INSIDE
        self._undecided = int(line[w.T_START]) if gtid.undecided_alter else -1

    def query(self, body: bytes, event: bytes) -> None:
        """Do what a statement does to the open transaction, or to definitions."""
        query = replace(parse_query(body), of_session=bool(parse_header(event).flags & FLAG_OF_SESSION))
        state = self._state
        inside = bool(state[w.S_PHASE] == w.INSIDE)
        statement = classify(query.statement, query.sql_mode, inside=inside)
        kind = statement.kind
        if kind is not StatementKind.DEFINITION and not (kind is StatementKind.ROWS and self._passes_statements):
            self.values.refuse()
        self.values.end()
        if kind is StatementKind.NOTHING:
            return
        if kind is StatementKind.SAVEPOINT:
            self._savepoint(query.statement, self._transactions[state[w.S_TRANSACTIONS]])
        elif kind is StatementKind.BEGIN and not inside:
            if state[w.S_PHASE] == w.OUTSIDE:
                self._begin(event)
            state[w.S_PHASE] = w.INSIDE
        elif kind is StatementKind.COMMIT and inside:
            self._close(event)
        elif kind is StatementKind.ROLLBACK and inside:
            self.taken_back.drop(0, state, self._transactions, self._rows)
            self._close(event)
        elif kind is StatementKind.ROLLBACK_TO and inside:
            self._rollback_to(query.statement)
        elif kind is StatementKind.XA:
            self._second_phase(query.statement, event)
        elif kind is StatementKind.ROWS or statement.fills:
            self._by_statement(statement, query, event)
        elif kind in (StatementKind.TRUNCATE, StatementKind.DEFINITION):
            self._define(statement, query, event)
        else:
            raise refuse_statement(kind, query.statement, str(self._place))

    def _by_statement(self, statement: Statement, query: QueryEvent, event: bytes) -> None:
        """Handle a statement that changes rows; outside BEGIN it is a transaction of its own."""
        if not self._passes_statements:
            raise refuse_statement(StatementKind.ROWS, query.statement, str(self._place))
        if self._state[w.S_PHASE] == w.OUTSIDE:
            self._begin(event)
            self._state[w.S_PHASE] = w.ANNOUNCED
        self._tell(query.statement)
        if statement.fills:
            self._define(statement, query, event)
        elif self._state[w.S_PHASE] == w.ANNOUNCED:
            self._close(event)

    def value(self, kind: int, body: bytes) -> None:
        """Take a value for the statement that follows, whatever that does: it may only make a temporary table."""
        if self._state[w.S_PHASE] == w.OUTSIDE:
            raise refuse(kind, str(self._place))
        self.values.take(kind, body)

    def of_statement(self, kind: int) -> bool:
        """Take note of an event that belongs to a statement logged as it was said; False where it is refused."""
        if not self._passes_statements or kind not in STATEMENT_TYPES or self._state[w.S_PHASE] != w.INSIDE:
            return False
        if kind == EventType.EXECUTE_LOAD_QUERY:
            self.values.end()
            self._tell("LOAD DATA")
        return True

    def _tell(self, sql: str) -> None:
        transaction = int(self._state[w.S_TRANSACTIONS])
        self.by_statement.append(RowsByStatement(sql, self._place.fault_position, transaction))

    def _savepoint(self, sql: str, transaction: Ints) -> None:
        name = savepoint_name(sql)
        if sql.lstrip()[:7].upper() == "RELEASE":
            self.taken_back.release(name, transaction)
        else:
            self.taken_back.savepoint(name, transaction)

    def _rollback_to(self, sql: str) -> None:
        line = self._transactions[self._state[w.S_TRANSACTIONS]]
        first = self.taken_back.rollback_to(savepoint_name(sql), line)
        if first is not None:
            self.taken_back.drop(first, self._state, self._transactions, self._rows)
        elif line[w.T_ROW_EVENTS]:
            raise refuse_statement(StatementKind.ROLLBACK_TO, sql, str(self._place))

    def _second_phase(self, sql: str, event: bytes) -> None:
        """Follow XA START and XA END of a first phase, and the second phase, which is a transaction of its own."""
        state, words = self._state, sql.upper().split()[:2]
        inside = state[w.S_PHASE] == w.INSIDE
        if (words == ["XA", "START"] and not inside) or (words == ["XA", "END"] and inside):
            if state[w.S_PHASE] == w.OUTSIDE:
                self._begin(event)
            state[w.S_PHASE] = w.INSIDE
            return
        parsed = parse_second_phase(sql)
        if parsed is None or inside:
            raise refuse_statement(StatementKind.XA, sql, str(self._place))
        if state[w.S_PHASE] == w.OUTSIDE:
            self._begin(event)
        self.xa.append(XaEvent(*parsed, int(state[w.S_TRANSACTIONS])))
        self._close(event)

    def prepare(self, body: bytes, event: bytes) -> None:
        """End a first phase: its rows wait for XA COMMIT, unless it commits at once."""
        xid, one_phase = parse_prepare(body)
        if self._state[w.S_PHASE] != w.INSIDE:
            raise walk_fault(w.NO_TRANSACTION, event[4], len(event), str(self._place))
        if not one_phase:
            place = int(self._state[w.S_TRANSACTIONS])
            held = () if self._prepared else (self.taken_back.drop(0, self._state, self._transactions, self._rows),)
            self.xa.append(XaEvent(XaPhase.PREPARE, xid, place, *held))
        self._close(event)

    def _define(self, statement: Statement, query: QueryEvent, event: bytes) -> None:
        """Take note of a TRUNCATE or definition statement; outside BEGIN it is a transaction of its own."""
        state = self._state
        inside = state[w.S_PHASE] == w.INSIDE
        begin = int(self._transactions[state[w.S_TRANSACTIONS], w.T_START])
        if state[w.S_PHASE] == w.ANNOUNCED and begin == self._undecided:
            # The definition takes effect at COMMIT ALTER, or never.
            self._close(event)
            return
        if state[w.S_PHASE] == w.OUTSIDE:
            self._begin(event)
        place = int(state[w.S_EVENTS])
        self._rows[place] = 0
        self._rows[place, w.R_AT] = state[w.S_AT]
        self._rows[place, w.R_TYPE], self._rows[place, w.R_SLOT] = EventType.QUERY, -1
        self._rows[place, w.R_TRANSACTION] = state[w.S_TRANSACTIONS]
        state[w.S_EVENTS] += 1
        self.statements.append(
            LoggedStatement(statement, query, place, int(state[w.S_TRANSACTIONS]), self._place.fault_position)
        )
        self._tables.redefine(query, self._end_of(event))
        if inside:
            return
        if statement.rows_follow:
            state[w.S_PHASE] = w.INSIDE
        else:
            self._close(event)

    def _close(self, event: bytes) -> None:
        header = parse_header(event)
        w.close_transaction(self._state, self._transactions, self._end_of(event), header.timestamp_s, header.server_id)

    def _end_of(self, event: bytes) -> int:
        return self._place.pos + len(event)
