"""Interpretation of definition statements: what each makes of its tables; what is not exact becomes unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from databus.binlog.log.statements.identifiers import lowered
from databus.binlog.log.statements.statements import QueryEvent
from databus.binlog.schema_history.actions import (
    EVERY_TABLE,
    Action,
    AlterTable,
    CreateTable,
    Database,
    DropTables,
    RenameTables,
    Unreadable,
    action_of,
    renamed_to,
)
from databus.binlog.schema_history.alter import alter, finished, key_columns
from databus.binlog.schema_history.declared_columns import charset_option, read_column
from databus.binlog.schema_history.definition import LogPosition, TableDefinition, TableName
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.sql_tokens import SqlToken, TokenReader, UndecidedError, items, tokens_of

_ITEM_WORDS = {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "PERIOD"}
_SHOWN_CHARACTERS = 300

State = Callable[[TableName], Entry | None]


@dataclass(frozen=True)
class _Statement:
    """State of a statement whose effects are being entered.

    Attributes:
        new: takes the new entries.
        state: returns what holds for a table, new entries included.
        unknown: enters that a table's state cannot be determined, and why.
        place: where the statement ends.
        flavor: "mysql" or "mariadb".
    """

    new: dict[TableName, Entry]
    state: State
    unknown: Callable[[TableName, str], None]
    place: LogPosition
    flavor: str


def interpret(
    query: QueryEvent, history: SchemaHistory, place: LogPosition, where: str, flavor: str, *, fold: bool = False
) -> dict[TableName, Entry]:
    """Return the new entries of the tables that a statement touches.

    Args:
        query: the statement.
        history: what held before it.
        place: where the statement ends.
        where: its "file:pos", for messages.
        flavor: "mysql" or "mariadb".
        fold: names are stored in lower case (lower_case_table_names=1).
    """
    new: dict[TableName, Entry] = {}

    def state(name: TableName) -> Entry | None:
        return new.get(name) or history.at(name, place)

    def unknown(name: TableName, why: str) -> None:
        text = " ".join(query.statement.split())
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
        before = state(name)
        known = f"; before it the table was {before.definition}" if before and before.definition else ""
        new[name] = Entry(place, None, f"the statement at {where} cannot be followed ({why}): {shown}{known}")

    at = _Statement(new, state, unknown, place, flavor)
    action = action_of(query, flavor, fold=fold)
    try:
        if action is not None and not isinstance(action, Unreadable | DropTables | RenameTables):
            tokens_of(query.statement, flavor, query.sql_mode)
    except UndecidedError as error:
        action = Unreadable(_main_table(action), str(error))
    if isinstance(action, Unreadable):
        names = [n for n in history.tables if n.table] if action.name == EVERY_TABLE else [action.name]
        for name in names:
            unknown(name, action.why)
    elif isinstance(action, DropTables):
        new.update(dict.fromkeys(action.names, Entry(place)))
    elif isinstance(action, RenameTables):
        for old, fresh in action.pairs:
            if not (action.if_exists and _is_absent(state, old)):
                _rename(new, state, old, fresh, place)
    elif isinstance(action, Database):
        new.update(_database(action, history, place))
    elif isinstance(action, CreateTable):
        _create(action, at)
    elif isinstance(action, AlterTable):
        _alter(action, at)
        for fresh in renamed_to(action):
            to = TableName(lowered(fresh.database), lowered(fresh.table)) if fold else fresh
            _rename(new, state, action.name, to, place)
    doubted = query.of_session and isinstance(action, AlterTable | RenameTables)
    return _doubted(new, at, history) if doubted else new


def _doubted(new: dict[TableName, Entry], at: _Statement, history: SchemaHistory) -> dict[TableName, Entry]:
    """Return instead what is known where the statement may be of temporary tables: nothing of what it would change."""
    held = {name: history.at(name, at.place) for name in new}
    changed = [name for name, was in held.items() if was is None or was.definition != new[name].definition]
    new.clear()
    for name in changed:
        at.unknown(name, "it may be of a temporary table of that name")
    return new


def _main_table(action: Action | None) -> TableName:
    return action.name if isinstance(action, CreateTable | AlterTable) else EVERY_TABLE


def _is_absent(state: State, name: TableName) -> bool:
    """Return whether there is no such table: it was dropped, or its database was seen without it."""
    found = state(name)
    if found is not None:
        return found.definition is None and not found.unknown
    database = state(TableName(name.database, ""))
    return database is not None and database.definition is not None


def _rename(new: dict[TableName, Entry], state: State, old: TableName, fresh: TableName, place: LogPosition) -> None:
    before = state(old)
    if before is None:
        new[fresh] = Entry(place, None, f"it was renamed from {old}, which was never seen")
    elif before.definition is None:
        new[fresh] = Entry(place, None, before.unknown or f"it was renamed from {old}, which was not there")
    else:
        new[fresh] = Entry(place, replace(before.definition, database=fresh.database, table=fresh.table))
    new[old] = Entry(place)


def _database(action: Database, history: SchemaHistory, place: LogPosition) -> dict[TableName, Entry]:
    itself = TableName(action.name, "")
    if action.verb == "DROP":
        return dict.fromkeys((*history.names(action.name, place), itself), Entry(place))
    try:
        charset = _charset(TokenReader(list(action.options)))
    except UndecidedError:
        charset = ""
    before = history.at(itself, place)
    if action.verb == "CREATE" and before is not None and before.definition is not None:
        return {}  # IF NOT EXISTS
    if action.verb == "ALTER" and not charset and before is not None:
        return {itself: replace(before, place=place)}
    return {itself: Entry(place, TableDefinition(action.name, "", (), (), charset))}


def _create(action: CreateTable, at: _Statement) -> None:
    new, state, unknown, place = at.new, at.state, at.unknown, at.place
    before = state(action.name)
    if action.if_absent and not _is_absent(state, action.name):
        if before is None or before.unknown:
            unknown(action.name, "IF NOT EXISTS of a table of which it cannot be determined whether it was there")
        return
    if action.like is not None:
        model = state(action.like)
        if model is None or model.definition is None:
            unknown(action.name, f"{action.like} is not known: {model.unknown if model else 'it was never seen'}")
        else:
            new[action.name] = Entry(
                place, replace(model.definition, database=action.name.database, table=action.name.table)
            )
        return
    database = state(TableName(action.name.database, ""))
    default = database.definition.charset if database and database.definition else ""
    try:
        new[action.name] = Entry(place, create_table(action, default, at.flavor))
    except UndecidedError as error:
        unknown(action.name, str(error))


def _alter(action: AlterTable, at: _Statement) -> None:
    new, unknown, place = at.new, at.unknown, at.place
    before = at.state(action.name)
    if before is not None and before.definition is not None:
        try:
            new[action.name] = Entry(place, alter(before.definition, action.changes, at.flavor))
        except UndecidedError as error:
            unknown(action.name, str(error))
    else:
        unknown(action.name, before.unknown if before and before.unknown else "the table was never seen")


def create_table(action: CreateTable, database_charset: str, flavor: str) -> TableDefinition:
    """Return the table that CREATE TABLE makes.

    Args:
        action: the statement.
        database_charset: default character set of its database; "" where it cannot be determined.
        flavor: "mysql" or "mariadb".

    Raises:
        UndecidedError: something in it is not understood.
    """
    options = TokenReader(list(action.options))
    versioned, charset = False, ""
    while not options.done:
        if (found := charset_option(options)) is not None:
            charset = found or charset
        elif options.take("WITH", "SYSTEM", "VERSIONING"):
            versioned = True
        elif options.peek().word in ("SELECT", "AS", "IGNORE", "REPLACE", "VALUES", "WITH", "TABLE"):
            raise UndecidedError("CREATE TABLE … SELECT")
        elif options.peek().word == "PARTITION":
            break
        elif options.peek().text == "(":
            options.group()
        else:
            options.next()
    table = TableDefinition(action.name.database, action.name.table, (), (), charset or database_charset, versioned)
    columns, key = [], []
    for part in items(list(action.body)):
        kind = _item(part)
        if kind == "PRIMARY":
            key = key_columns(TokenReader(part))
        elif kind == "":
            read = read_column(part, table.charset, flavor)
            columns.append(read.column)
            key = [read.column.name] if read.primary else key
    return finished(table, columns, key)


def _item(part: list[SqlToken]) -> str:
    """Return "" for a column, "PRIMARY" for the primary key, another word for what adds no column."""
    if not part:
        raise UndecidedError("an empty definition")
    reader = TokenReader(part)
    if reader.take("CONSTRAINT") and reader.peek().word not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        reader.next()
    word = reader.peek().word
    if word == "PRIMARY" or (word in _ITEM_WORDS and not (word == "PERIOD" and reader.peek(1).word != "FOR")):
        return word
    return ""


def _charset(reader: TokenReader) -> str:
    charset = ""
    while not reader.done:
        found = charset_option(reader)
        if found is None:
            reader.next()
        else:
            charset = found or charset
    return charset
