"""Definitions that a reader of the log was given: CREATE TABLE statements, followed through the statements it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from databus.binlog.log.statements.statements import QueryEvent, StatementKind, classify
from databus.binlog.log.statements.tokens import split_statements
from databus.binlog.schema_history.attach import MismatchError, attach, lacks
from databus.binlog.schema_history.definition import LogPosition, TableName
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.schema_history.interpret import interpret
from databus.core.errors.config import ConfigError
from databus.core.errors.source import SchemaUnknownError
from databus.core.positions.offsets import BinlogOffset

if TYPE_CHECKING:
    from databus.binlog.decoding.decode import TableFilter
    from databus.binlog.log.tablemap import TableMap

_BEFORE_ALL = LogPosition(0, 0)
_WAY_OUT = (
    "Give the table's definition as it was where reading begins: what SHOW CREATE TABLE, or mysqldump --no-data, said "
    "then."
)


class GivenDefinitions:
    """Completes TABLE_MAPs by given definitions; they hold from where reading begins.

    Files are distinguished by name and ordered as they are first met, so a place read again gets the same answer.
    """

    def __init__(self, statements: Mapping[str, str], flavor: str, wanted: TableFilter):
        """Read the statements.

        Args:
            statements: `database.table` → its CREATE TABLE statement, as SHOW CREATE TABLE gives it.
            flavor: "mysql" or "mariadb".
            wanted: tables whose rows are read; others are left as they are.

        Raises:
            ConfigError: a statement is not the definition of its table, or not one that can be read.
        """
        self._flavor, self._wanted = flavor, wanted
        self._history = SchemaHistory(BinlogOffset("given.000000", 4, "", flavor), _BEFORE_ALL)
        self._files: dict[str, int] = {}
        for full_name, statement in statements.items():
            self._take(full_name, statement)

    def complete(self, table: TableMap, flavor: str, file: str, pos: int) -> TableMap:
        """Complete a table by what holds at a place; one of which nothing was given stays as it is.

        Raises:
            SchemaUnknownError: what was given is not the table that was logged, or cannot be followed to here.
        """
        if not self._wanted(table.database, table.table) or not lacks(table, flavor):
            return table
        entry = self._history.at(TableName(table.database, table.table), self._place(file, pos))
        if entry is None:
            return table
        try:
            if entry.definition is None:
                raise MismatchError(entry.unknown or "a statement has dropped or renamed it")
            return attach(table, entry.definition)
        except MismatchError as error:
            raise SchemaUnknownError(
                f"{file}:{pos}: rows of {table.full_name} leave open what its columns are, and the definition given "
                f"for it cannot be used: {error}",
                hint=_WAY_OUT,
            ) from None

    def follow(self, query: QueryEvent, file: str, end_pos: int) -> None:
        """Enter what a statement makes of the tables it touches."""
        place = self._place(file, end_pos)
        before = LogPosition(place.number, place.pos - 1)
        for name, entry in interpret(query, self._history, before, f"{file}:{end_pos}", self._flavor).items():
            self._history.add(name, replace(entry, place=place))

    def lose(self, file: str, why: str) -> None:
        """Forget what holds: statements before this file may not have been read."""
        place = self._place(file, 0)
        for name in list(self._history.tables):
            self._history.add(name, Entry(place, None, why))

    def _place(self, file: str, pos: int) -> LogPosition:
        return LogPosition(self._files.setdefault(file, len(self._files) + 1), pos)

    def _take(self, full_name: str, statement: str) -> None:
        database, _, table = full_name.partition(".")
        name = TableName(database, table)
        query = QueryEvent(database, statement)
        entry = interpret(query, self._history, _BEFORE_ALL, "given", self._flavor).get(name) if table else None
        if entry is None or entry.definition is None:
            why = entry.unknown if entry is not None else "it is no CREATE TABLE of this table"
            raise ConfigError(
                f"the definition given for {full_name} cannot be used: {why}: {' '.join(statement.split())[:200]}",
                hint='Give {"database.table": "CREATE TABLE …"}, as SHOW CREATE TABLE says.',
                code="definition_invalid",
            )
        self._history.add(name, entry)


def definitions_of(sql: str) -> dict[str, str]:
    """Return `database.table` → CREATE TABLE statement of a script as `mysqldump --no-data --databases` writes it.

    Databases are those of USE statements, or named with the table; other statements are left out.

    Raises:
        ConfigError: a table is defined without its database.
    """
    found: dict[str, str] = {}
    database = ""
    for statement in split_statements(sql):
        words = statement.split(None, 2)
        if words[0].upper() == "USE":
            database = words[1].strip("`")
            continue
        if words[0].upper() != "CREATE":
            continue
        what = classify(statement)
        if what.kind is not StatementKind.DEFINITION or not what.table:
            continue
        if not (what.database or database):
            raise ConfigError(
                f"table {what.table} is defined without its database",
                hint="Put a USE statement before it (mysqldump --databases does), or write database.table.",
                code="definition_invalid",
            )
        found[f"{what.database or database}.{what.table}"] = statement
    return found
