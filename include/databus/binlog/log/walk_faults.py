"""Errors for what stops a walk over events: faults of framing and order, and statements that cannot be followed."""

from __future__ import annotations

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.kernels import walk as w
from databus.binlog.log.events import type_name
from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.log.walk import RowsByStatement
from databus.core.errors.root import DatabusError
from databus.core.errors.source import DecodeError
from databus.core.positions.offsets import PreparedTransaction
from databus.core.state.backfill import piece_of

_SHOWN = 80
"""Characters of a statement in a message."""

_DELIVERED = "What came before it is delivered"

_UNHIDE = (
    f"{_DELIVERED}. Give temporary tables names of their own, or log by row (binlog_format=ROW for every session). See "
    "in mysqlbinlog what that thread_id logs under the name: a TRUNCATE behind the place below would empty the sinks. "
    "Go on there, or behind the last such TRUNCATE: "
)

_FAULTS = {
    w.BAD_SIZE: "has the impossible size of {size} bytes",
    w.BAD_CRC: "does not match its CRC32: the log was damaged at rest or on the way",
    w.BAD_POSITION: "does not lie where its own header says: bytes are missing or were added before it",
    w.UNBOUND_ROWS: "holds rows of a table that no TABLE_MAP event before it describes",
    w.NESTED: "begins a transaction inside another one",
    w.NO_TRANSACTION: "lies outside any transaction",
    w.TOO_SHORT: "is too short for its type",
    w.NOT_BETWEEN: "lies inside a transaction, where no server writes it",
    w.NOT_FLAGGED: "is not marked as ignorable, as servers mark it",
}

_STATEMENTS = {
    StatementKind.XA: (
        "this form or place of an XA statement is not known",
        "Compare with mysqlbinlog at this position; the log is damaged, or of a newer server.",
    ),
    StatementKind.ROWS: (
        "changes rows by statement",
        "Set binlog_format=ROW for every session (SHOW VARIABLES LIKE 'binlog_format') and start after it.",
    ),
    StatementKind.ROLLBACK_TO: (
        "rolls back to a savepoint that the transaction has not set",
        "Compare with mysqlbinlog at this position: which rows stay cannot be determined.",
    ),
}
_MISPLACED = (
    "does not fit the state of the transaction around it",
    "The log is damaged, or a segment was cut inside a transaction.",
)


def walk_fault(status: int, event_type: int, size_bytes: int, where: str) -> DecodeError:
    """Return the error for an event that cannot stand where it stands.

    Args:
        status: the kernel's reason, one of `kernels.walk`.
        event_type: type byte.
        size_bytes: size that its header states.
        where: "file:position" of the event.
    """
    return DecodeError(f"{where}: event {type_name(event_type)} {_FAULTS[status].format(size=size_bytes)}")


def refuse_statement(kind: StatementKind, sql: str, where: str) -> DecodeError:
    """Return the error for a statement that cannot be followed."""
    shown = sql if len(sql) <= _SHOWN else sql[: _SHOWN - 3] + "..."
    what, hint = _STATEMENTS.get(kind, _MISPLACED)
    return DecodeError(f"{where}: event QUERY (2), statement {shown!r}: {what}", hint=hint)


def rows_by_statement(found: RowsByStatement, log: Transactions, flow: str) -> DecodeError:
    """Return the error for a transaction that a range cannot pass: what it does to rows is in no row event.

    Args:
        found: its statement.
        log: transactions, among which is that of the statement.
        flow: whose range it is, for what is to be done; "" for none.
    """
    place = CommitPlace.of(log, found.transaction)
    message = f"{_refused(found, log.file)} ({_named(place)})"
    return _passable(message, place, flow, hides=bool(found.hidden))


def prepared_by_statement(
    found: RowsByStatement, prepared: PreparedTransaction, commit: CommitPlace, flow: str
) -> DecodeError:
    """Return the error for an XA COMMIT that a range cannot pass: no row event shows what it commits.

    Args:
        found: a statement of the prepared transaction.
        prepared: where that lies.
        commit: where it is committed.
        flow: as of `rows_by_statement`.
    """
    return _passable(
        f"{commit.file}:{commit.start_pos}: XA COMMIT {prepared.xid} commits what is logged by statement: "
        f"{_refused(found, prepared.file)} ({_named(commit)})",
        commit,
        flow,
        hides=bool(found.hidden),
    )


def nothing_delivered(error: DatabusError) -> DatabusError:
    """Return the error of a range that is refused whole: its rows in front of the statement are not delivered."""
    error.hint = error.hint.replace(
        _DELIVERED,
        "Of this range, which was planned before or which a failover left, nothing is delivered, nor what lies in "
        "front of the statement: a skip gives that up as well",
    )
    return error


def _refused(found: RowsByStatement, file: str) -> str:
    """Return what is wrong with a statement that a range cannot pass."""
    changes = refuse_statement(StatementKind.ROWS, found.sql, f"{file}:{found.pos}").message
    if not found.hidden:
        return changes
    head = changes.removesuffix(_STATEMENTS[StatementKind.ROWS][0])
    return (
        f"{head}is of a temporary table with the name of {found.hidden}: what thread_id {found.thread} logs under that "
        "name up to its DROP TEMPORARY TABLE, TRUNCATE above all, reads as if of the captured table"
    )


def _passable(message: str, place: CommitPlace, flow: str, *, hides: bool) -> DecodeError:
    unhides = hides and piece_of(flow) is None
    error = DecodeError(message, hint=f"{_UNHIDE}{_skip(place, flow)}" if unhides else _way_on(place, flow))
    error.behind = f"{place.file}:{place.end_pos}"
    return error


def _named(place: CommitPlace) -> str:
    name = f"transaction {place.gtid}, " if place.gtid else ""
    return f"{name}{place.file}:{place.start_pos} to {place.file}:{place.end_pos}"


def _way_on(place: CommitPlace, flow: str) -> str:
    """Return what is to be done; a backfill's piece has a range of its own, and is moved by backfills alone."""
    piece = piece_of(flow)
    if piece is not None:
        return (
            "`--past-statements` passes such a transaction, but not one that lies in a plan in flight or reaches past "
            "the end of the range, as this one does. Replay two ranges beside the live outputs, one that ends at "
            f"{place.file}:{place.start_pos} and one that begins at {place.file}:{place.end_pos} (`databus backfill "
            f"{piece[0]} --from … --to … --mode replay --suffix …`); whether it wrote a table of the flow, its text "
            "alone shows: set the sinks right if it did."
        )
    return (
        f"{_DELIVERED}; whether it wrote a table of the flow, its text alone shows. Set "
        "binlog_format=ROW for every session (SHOW VARIABLES LIKE 'binlog_format'), set the sinks right if it did, "
        f"then go on behind it: {_skip(place, flow)}"
    )


def _skip(place: CommitPlace, flow: str) -> str:
    return f"`databus checkpoint skip {flow or 'FLOW'} {place.file}:{place.end_pos} --reason … --execute`."
