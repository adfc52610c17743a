"""Statements of the transactions that a walk met: those that ended, and those of the open one, which wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.statements.scope import as_logged, subjects_of
from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.walk import LoggedStatement, RowsByStatement, Walk
from databus.core.tables.unlogged import UnloggedChange, head_of

_RENAMES = re.compile(
    r"RENAME|CHANGE|ALTER\b.*\bDROP(?!\s+(PARTITION|INDEX|KEY|PRIMARY|FOREIGN|CONSTRAINT|CHECK)\b)",
    re.IGNORECASE | re.DOTALL,
)


class WalkedStatements:
    """Statements of one walk, by the transaction that they are in; lasts from stretch to stretch.

    Attributes:
        moved: whether one was met by which captured tables, or all of their database, may have come or gone.
    """

    def __init__(self, capture: TableCapture, exists: Callable[[str, str], bool], *, passes: bool):
        """Begin before the first stretch.

        Args:
            capture: tables of the flow.
            exists: whether there is a table of a captured name.
            passes: whether those by which a temporary table hides a captured one are reported.
        """
        self._capture, self._exists, self._passes = capture, exists, passes
        self.moved = False
        self._open: list[LoggedStatement] = []
        self._open_by_statement: list[RowsByStatement] = []

    def ended_by_statement(self, walk: Walk) -> list[RowsByStatement]:
        """Return the statements that change rows of the transactions that ended; those of the open one wait."""
        ended = len(walk.transactions)
        found = [*self._open_by_statement, *walk.by_statement, *self.hiding(walk)]
        self._open_by_statement = [replace(s, transaction=0) for s in found if s.transaction >= ended]
        return [s for s in found if s.transaction < ended]

    def ended(self, walk: Walk) -> tuple[list[LoggedStatement], list[LoggedStatement]]:
        """Return the statements of the transactions that ended; those of the open one wait.

        Returns:
            Those that concern the flow, and those that rename or drop other tables or columns of these.
        """
        ended = len(walk.transactions)
        found = [*self._open, *(as_logged(self._capture, logged) for logged in walk.statements)]
        self._open = [replace(s, transaction=0) for s in found if s.transaction >= ended]
        done = [s for s in found if s.transaction < ended]
        concerning = [s for s in done if self._concerns(s)]
        self.moved = self.moved or any(s.statement.moves for s in concerning)
        return concerning, [s for s in done if _renames_or_drops(s) and not self._concerns(s)]

    def unlogged(self, logged: LoggedStatement, ended: Transactions) -> Iterator[tuple[int, UnloggedChange]]:
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

    def hiding(self, walk: Walk) -> Iterator[RowsByStatement]:
        """Yield the statements by which temporary tables hide captured ones, where they are passed."""
        if self._passes:
            statements = (as_logged(self._capture, logged) for logged in walk.statements)
            yield from hiding_captured(statements, self._capture, self._exists)

    def _concerns(self, logged: LoggedStatement) -> bool:
        """Return whether a statement is delivered to the flow."""
        return bool(subjects_of(self._capture, logged))


def _renames_or_drops(logged: LoggedStatement) -> bool:
    """Return whether a statement may rename or drop tables or columns of tables; whoever reads it looks."""
    statement = logged.statement
    if statement.kind is not StatementKind.DEFINITION or not any(name.table for name in statement.objects):
        return False
    return statement.empties or _RENAMES.search(logged.query.statement) is not None


def hiding_captured(
    statements: Iterable[LoggedStatement],
    capture: Callable[[str, str], bool],
    exists: Callable[[str, str], bool],
) -> Iterator[RowsByStatement]:
    """Yield the statements by which a temporary table is known to stand before a captured table that there is.

    Servers log none on temporary tables by row. MariaDB gives a TRUNCATE of one no mark of its own, so what makes the
    table is all that shows it.

    Args:
        statements: with the names that their tables have in row events.
        capture: which tables are captured; a pattern means tables that there may never have been.
        exists: whether there is such a table beside temporary ones; asked of captured names alone.
    """
    for logged in statements:
        statement, query = logged.statement, logged.query
        empties = statement.kind is StatementKind.TRUNCATE and query.of_session and query.temporary
        if not statement.temporary and not empties:
            continue
        name = statement.database or query.database, statement.table
        if capture(*name) and exists(*name):
            at = logged.pos, logged.transaction
            yield RowsByStatement(query.statement, *at, hidden=".".join(name), thread=query.thread)
