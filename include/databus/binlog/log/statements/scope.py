"""Statement scope: those on a flow's tables and databases concern it, those on accounts never do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.statements.identifiers import lowered
from databus.binlog.log.statements.statements import ObjectName
from databus.binlog.log.walk import LoggedStatement


def as_logged(tables: Callable[[str, str], bool], logged: LoggedStatement) -> LoggedStatement:
    """Return a statement with the names that its tables have in row events."""
    if not (isinstance(tables, TableCapture) and tables.folds):
        return logged
    statement, query = logged.statement, logged.query
    folded = replace(
        statement,
        database=lowered(statement.database),
        table=lowered(statement.table),
        objects=tuple(ObjectName(lowered(name.database), lowered(name.table)) for name in statement.objects),
    )
    return replace(logged, statement=folded, query=replace(query, database=lowered(query.database)))


def subjects_of(tables: Callable[[str, str], bool], logged: LoggedStatement) -> list[tuple[str, str]]:
    """Return each database and table under which a statement is delivered, none when it is not.

    A DROP TABLE is delivered once for each captured table that it names; see `subject_of` for all others.

    Args:
        tables: which tables are captured.
        logged: the statement.
    """
    logged = as_logged(tables, logged)
    statement, default = logged.statement, logged.query.database
    if statement.empties and not statement.table and isinstance(tables, TableCapture):
        named = dict.fromkeys((name.database or default, name.table) for name in statement.objects)
        return [(database, table) for database, table in named if table and tables(database, table)]
    subject = subject_of(tables, logged)
    return [] if subject is None else [subject]


def subject_of(tables: Callable[[str, str], bool], logged: LoggedStatement) -> tuple[str, str] | None:
    """Return the database and table under which a statement is delivered, None when it is not.

    With a `TableCapture`, a statement is delivered when it names a captured table, or a database of which tables are
    captured. Accounts, grants, routines, views, events and triggers are neither, so their texts, which may hold
    passwords, go nowhere. Any other predicate, which comes from a reader of files, lets out all that names no table.

    Args:
        tables: which tables are captured.
        logged: the statement.

    Returns:
        The captured table, or the database with "" where the statement names several tables or none.
    """
    logged = as_logged(tables, logged)
    statement, default = logged.statement, logged.query.database
    own = statement.database or default, statement.table
    if not isinstance(tables, TableCapture):
        return own if not statement.table or tables(*own) else None
    if statement.table and tables(*own):
        return own
    for name in statement.objects:
        database = name.database or default
        if tables(database, name.table) if name.table else tables.has_database(database):
            return database, name.table if statement.table else ""
    return None
