"""Definition statements: which tables each makes, drops, renames or alters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from databus.binlog.log.statements.identifiers import lowered
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.log.statements.tokens import without_settings
from databus.binlog.schema_history.definition import TableName
from databus.binlog.schema_history.sql_tokens import SqlToken, TokenReader, UndecidedError, items, tokens_of

EVERY_TABLE = TableName("", "")
"""Stands for any table there is."""


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE.

    Attributes:
        name: the new table.
        body: tokens inside the parentheses.
        options: tokens after them.
        like: the table it copies; None when it has a body.
        if_absent: IF NOT EXISTS.
    """

    name: TableName
    body: tuple[SqlToken, ...] = ()
    options: tuple[SqlToken, ...] = ()
    like: TableName | None = None
    if_absent: bool = False


@dataclass(frozen=True)
class DropTables:
    """DROP TABLE."""

    names: tuple[TableName, ...]


@dataclass(frozen=True)
class RenameTables:
    """RENAME TABLE.

    Attributes:
        pairs: old and new names, renamed one after the other.
        if_exists: tables that are not there are passed over.
    """

    pairs: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False


@dataclass(frozen=True)
class AlterTable:
    """ALTER TABLE: its changes, split at commas."""

    name: TableName
    changes: tuple[tuple[SqlToken, ...], ...]


@dataclass(frozen=True)
class Database:
    """CREATE, ALTER or DROP DATABASE.

    Attributes:
        name: database name.
        verb: "CREATE", "ALTER" or "DROP".
        options: tokens after the name.
    """

    name: str
    verb: str
    options: tuple[SqlToken, ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A statement that may do anything to a table.

    Attributes:
        name: the table, or EVERY_TABLE.
        why: what could not be read.
    """

    name: TableName
    why: str


Action = CreateTable | DropTables | RenameTables | AlterTable | Database | Unreadable

_HARMLESS = {
    *("TRUNCATE", "GRANT", "REVOKE", "SET", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "FLUSH", "KILL", "RESET"),
    *("INSTALL", "UNINSTALL", "PURGE", "LOCK", "UNLOCK", "COMMENT", "BACKUP", "SHUTDOWN", "CACHE", "DELETE"),
}


def action_of(query: QueryEvent, flavor: str, *, fold: bool = False) -> Action | None:
    """Return what a statement is about; None when it changes no table's definition.

    Args:
        query: the statement.
        flavor: "mysql" or "mariadb".
        fold: names are stored in lower case (lower_case_table_names=1).
    """
    found = _action_of(query, flavor)
    return _folded(found) if fold and found is not None else found


def _folded(action: Action) -> Action:
    def low(name: TableName) -> TableName:
        return TableName(lowered(name.database), lowered(name.table))

    if isinstance(action, DropTables):
        return DropTables(tuple(map(low, action.names)))
    if isinstance(action, RenameTables):
        return replace(action, pairs=tuple((low(old), low(new)) for old, new in action.pairs))
    if isinstance(action, Database):
        return replace(action, name=lowered(action.name))
    if isinstance(action, CreateTable) and action.like is not None:
        return replace(action, name=low(action.name), like=low(action.like))
    return replace(action, name=low(action.name))


def _action_of(query: QueryEvent, flavor: str) -> Action | None:
    try:
        statement = without_settings(query.statement, query.sql_mode)
        reader = TokenReader(tokens_of(statement, flavor, query.sql_mode, strict=False))
        verb = reader.next().word
        if verb in ("CREATE", "ALTER", "DROP"):
            return {"CREATE": _create, "ALTER": _alter, "DROP": _drop}[verb](reader, query.database)
        if verb == "RENAME":
            return _rename(reader, query.database)
        if verb in _HARMLESS:
            return None
        return Unreadable(EVERY_TABLE, f"the statement {verb or query.statement[:20]!r}")
    except UndecidedError as error:
        return Unreadable(EVERY_TABLE, str(error))


def touched(action: Action | None) -> frozenset[TableName]:
    """Return the tables that an action may change; an empty table name stands for a whole database."""
    if isinstance(action, DropTables):
        return frozenset(action.names)
    if isinstance(action, RenameTables):
        return frozenset(name for pair in action.pairs for name in pair)
    if isinstance(action, AlterTable):
        return frozenset({action.name, *renamed_to(action)})
    if isinstance(action, Database):
        return frozenset({TableName(action.name, "")})
    return frozenset() if action is None else frozenset({action.name})


def renamed_to(action: AlterTable) -> list[TableName]:
    """Return the new name that an ALTER TABLE gives its table, if any."""
    for change in action.changes:
        reader = TokenReader(list(change))
        if reader.take("RENAME") and reader.peek().word not in ("COLUMN", "INDEX", "KEY"):
            _ = reader.take("TO") or reader.take("AS") or reader.take_sign("=")
            return [TableName(*reader.qualified(action.name.database))]
    return []


def _create(reader: TokenReader, database: str) -> Action | None:
    while reader.peek().word in ("OR", "REPLACE"):
        reader.next()
    if reader.peek().word in ("DATABASE", "SCHEMA"):
        return _database(reader, "CREATE", database)
    kind = reader.next().word
    if kind not in ("TABLE", "SEQUENCE"):
        return None  # also CREATE TEMPORARY TABLE
    if_absent = _absent(reader)
    name = TableName(*reader.qualified(database))
    if kind == "SEQUENCE":
        return Unreadable(name, "CREATE SEQUENCE")
    return _create_table(reader, name, database, if_absent=if_absent)


def _create_table(reader: TokenReader, name: TableName, database: str, *, if_absent: bool) -> Action:
    if reader.take("LIKE"):
        return CreateTable(name, like=TableName(*reader.qualified(database)), if_absent=if_absent)
    if reader.peek().text != "(":
        return Unreadable(name, "CREATE TABLE without a list of columns")
    body = TokenReader(reader.group())
    if body.take("LIKE"):
        return CreateTable(name, like=TableName(*body.qualified(database)), if_absent=if_absent)
    return CreateTable(name, tuple(body.tokens), tuple(reader.tokens[reader.at :]), None, if_absent)


def _absent(reader: TokenReader) -> bool:
    return reader.take("IF", "NOT", "EXISTS")


def _alter(reader: TokenReader, database: str) -> Action | None:
    while reader.peek().word in ("ONLINE", "OFFLINE", "IGNORE"):
        reader.next()
    if reader.peek().word in ("DATABASE", "SCHEMA"):
        return _database(reader, "ALTER", database)
    kind = reader.next().word
    if kind not in ("TABLE", "SEQUENCE"):
        return None
    reader.take("IF", "EXISTS")
    name = TableName(*reader.qualified(database))
    if kind == "SEQUENCE":
        return Unreadable(name, "ALTER SEQUENCE")
    _skip_waiting(reader)
    return AlterTable(name, tuple(tuple(change) for change in items(reader.tokens[reader.at :])))


def _drop(reader: TokenReader, database: str) -> Action | None:
    if reader.peek().word in ("DATABASE", "SCHEMA"):
        return _database(reader, "DROP", database)
    if reader.take("INDEX"):
        reader.take("IF", "EXISTS")
        index = reader.next()
        if not reader.take("ON"):
            return Unreadable(EVERY_TABLE, "DROP INDEX without a table")
        name = TableName(*reader.qualified(database))
        return AlterTable(name, ((SqlToken("DROP", "DROP"), SqlToken("INDEX", "INDEX"), index),))
    if not (reader.take("TABLE") or reader.take("TABLES") or reader.take("SEQUENCE")):
        return None
    reader.take("IF", "EXISTS")
    names = [TableName(*reader.qualified(database))]
    while reader.take_sign(","):
        names.append(TableName(*reader.qualified(database)))
    return DropTables(tuple(names))


def _rename(reader: TokenReader, database: str) -> Action | None:
    if not (reader.take("TABLE") or reader.take("TABLES")):
        return None
    if_exists = reader.take("IF", "EXISTS")
    pairs = []
    while True:
        old = TableName(*reader.qualified(database))
        _skip_waiting(reader)
        if not reader.take("TO"):
            return Unreadable(EVERY_TABLE, "RENAME TABLE without TO")
        pairs.append((old, TableName(*reader.qualified(database))))
        if not reader.take_sign(","):
            return RenameTables(tuple(pairs), if_exists)


def _database(reader: TokenReader, verb: str, default: str) -> Database:
    reader.next()
    _ = _absent(reader) or reader.take("IF", "EXISTS")
    named = reader.peek().name and reader.peek().word not in ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT")
    name = reader.identifier() if named else default
    return Database(name, verb, tuple(reader.tokens[reader.at :]))


def _skip_waiting(reader: TokenReader) -> None:
    if reader.take("WAIT"):
        reader.next()
    reader.take("NOWAIT")
