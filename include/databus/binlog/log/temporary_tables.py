"""Temporary tables with a captured table's name: what their session logs under it reads as if of the captured one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.walk import LoggedStatement, RowsByStatement


def hiding_captured(
    statements: Iterable[LoggedStatement],
    capture: Callable[[str, str], bool],
    exists: Callable[[str, str], bool],
) -> Iterator[RowsByStatement]:
    """Yield the statements by which a temporary table is known to stand before a captured table that there is.

    Servers log none on temporary tables by row. MariaDB gives a TRUNCATE of one no mark of its own, so what makes the
    table is all that tells.

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
