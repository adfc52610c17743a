"""Table definitions as information_schema gives them now: names, declared types, keys, system versioning."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from databus.binlog.schema_history.declared_types import type_of_text
from databus.binlog.schema_history.definition import ColumnDefinition, TableDefinition, TableName
from databus.binlog.schema_history.sql_tokens import UndecidedError
from databus.core.errors.source import SourceError, SourceUnavailableError
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.cursor import quoted

log = logging.getLogger(__name__)

_TABLE_TYPES = ("BASE TABLE", "SYSTEM VERSIONED", "SEQUENCE")
"""Kinds of tables that row events can be of: a sequence of MariaDB is a table of one row."""


@dataclass
class DeclaredTable:
    """Names alone: what can be determined of a table whatever its types are.

    Attributes:
        columns: name and declared type of each column, in table order.
        key: names of the key columns in key order, without the end of a row's life in system-versioned tables.
    """

    columns: list[tuple[str, str]] = field(default_factory=list)
    key: list[str] = field(default_factory=list)


class MysqlColumns:
    """Reads definitions of whole databases."""

    def __init__(self, server: MysqlServer):
        self._server = server

    def table_names(self, databases: Sequence[str] = ()) -> list[TableName]:
        """Return all tables that the account can see, of some databases or of all."""
        asked = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN %s"
        if databases:
            rows = self._server.query(f"{asked} AND TABLE_SCHEMA IN %s", _TABLE_TYPES, tuple(databases))
        else:
            rows = self._server.query(asked, _TABLE_TYPES)
        return [TableName(_text(d), _text(t)) for d, t in rows]

    def names_among(self, tables: Sequence[str]) -> list[TableName]:
        """Return the tables of these names, of any database, that the account can see."""
        rows = self._server.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "
            "WHERE TABLE_NAME IN %s AND TABLE_TYPE IN %s",
            tuple(tables),
            _TABLE_TYPES,
        )
        return [TableName(_text(d), _text(t)) for d, t in rows]

    def has(self, database: str, table: str) -> bool:
        """Return whether the account can see a table, its name compared as the server does."""
        rows = self._server.query(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND TABLE_TYPE IN %s",
            database,
            table,
            _TABLE_TYPES,
        )
        return bool(rows)

    def wait_for_definition_statements(self, tables: Iterable[TableName]) -> None:
        """Wait until no definition statement on these tables is under way.

        SHOW CREATE TABLE takes the lock that such a statement holds until it is both logged and visible.
        """
        for name in tables:
            try:
                self._server.query(f"SHOW CREATE TABLE {quoted(name.database)}.{quoted(name.table)}")
            except SourceUnavailableError:
                raise
            except SourceError as error:  # the table or the right to see it may be gone, or the table is broken
                log.debug("%s cannot be shown: %s", name, error)

    def declared(self, databases: Sequence[str]) -> Mapping[TableName, DeclaredTable]:
        """Return names of columns and keys of all tables of some databases, as far as the account can see them."""
        if not databases:
            return {}
        wanted = tuple(databases)
        keys, found = self._keys(wanted), dict[TableName, DeclaredTable]()
        for name, facts in self._columns(wanted).items():
            end = {_text(f[0]) for f in facts if _text(f[5]).upper() == "ROW END"}
            columns = [(_text(f[0]), _text(f[1]).lower()) for f in facts]
            found[name] = DeclaredTable(columns, [key for key in keys.get(name, ()) if key not in end])
        return found

    def definitions(self, databases: Sequence[str]) -> dict[TableName, TableDefinition]:
        """Return the tables of some databases; a table with a type that is not known here is left out.

        The database itself stands under an empty table name, for its default character set.
        """
        if not databases:
            return {}
        wanted = tuple(databases)
        return {**self._databases(wanted), **self._tables(wanted, "")}

    def definition(self, name: TableName) -> TableDefinition | None:
        """Return one table; None where it is gone, out of sight, or has a type that is not known here."""
        return self._tables((name.database,), name.table).get(name)

    def _tables(self, wanted: tuple[str, ...], table: str) -> dict[TableName, TableDefinition]:
        """Return the tables of some databases, those of one name alone unless it is ""."""
        found: dict[TableName, TableDefinition] = {}
        flavor = self._server.flavor
        keys = self._keys(wanted, table)
        columns = self._columns(wanted, table)
        for row in self._server.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION "  # noqa: S608 - a mark
            "FROM information_schema.TABLES "
            f"WHERE TABLE_SCHEMA IN %s AND TABLE_TYPE IN %s{_only(table)}",
            wanted,
            _TABLE_TYPES,
            *_values(table),
        ):
            database, named, kind, collation = map(_text, row)
            name = TableName(database, named)
            try:
                defined = tuple(_column(facts, flavor) for facts in columns.get(name, ()))
            except UndecidedError:
                continue
            end = next((c.name for c in defined if c.generated == "row end"), None)
            key = tuple(k for k in keys.get(name, ()) if k != end)
            versioned = kind == "SYSTEM VERSIONED"
            found[name] = TableDefinition(database, named, defined, key, charset_of_collation(collation), versioned)
        return found

    def _databases(self, wanted: tuple[str, ...]) -> dict[TableName, TableDefinition]:
        rows = self._server.query(
            "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN %s",
            wanted,
        )
        return {
            TableName(_text(d), ""): TableDefinition(_text(d), "", (), (), normal_charset(_text(charset)))
            for d, charset in rows
        }

    def _keys(self, wanted: tuple[str, ...], named: str = "") -> dict[TableName, list[str]]:
        keys: dict[TableName, list[str]] = {}
        for database, table, column in self._server.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME "  # noqa: S608 - a mark
            "FROM information_schema.STATISTICS "
            f"WHERE INDEX_NAME = 'PRIMARY' AND TABLE_SCHEMA IN %s{_only(named)} "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX",
            wanted,
            *_values(named),
        ):
            keys.setdefault(TableName(_text(database), _text(table)), []).append(_text(column))
        return keys

    def _columns(self, wanted: tuple[str, ...], named: str = "") -> dict[TableName, list[Sequence[Any]]]:
        columns: dict[TableName, list[Sequence[Any]]] = {}
        for row in self._server.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, "  # noqa: S608 - a mark
            "COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, EXTRA, "
            f"GENERATION_EXPRESSION FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN %s{_only(named)} "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
            wanted,
            *_values(named),
        ):
            columns.setdefault(TableName(_text(row[0]), _text(row[1])), []).append(row[2:])
        return columns


def normal_charset(name: str) -> str:
    """Return a character set under the name by which decoding knows it."""
    return "utf8mb3" if name.lower() == "utf8" else name.lower()


def charset_of_collation(collation: str) -> str:
    """Return the character set of a collation's name."""
    return normal_charset(collation.partition("_")[0])


def _column(facts: Sequence[Any], flavor: str) -> ColumnDefinition:
    name, kind, charset, nullable, extra, expression = map(_text, facts)
    extra = extra.upper()
    generated = ""
    if "GENERATED" in extra and "DEFAULT_GENERATED" not in extra:
        generated = "virtual" if "VIRTUAL" in extra else "stored"
        if expression.upper() in ("ROW START", "ROW END"):
            generated = expression.lower()
    return ColumnDefinition(
        name,
        type_of_text(kind, flavor),
        normal_charset(charset),
        nullable.upper() == "YES",
        "INVISIBLE" not in extra,
        generated,
    )


def _text(value: Any) -> str:
    return "" if value is None else value.decode() if isinstance(value, bytes) else str(value)


def _only(table: str) -> str:
    """Return the condition of one table's rows; "" for all tables."""
    return " AND TABLE_NAME = %s" if table else ""


def _values(table: str) -> tuple[str, ...]:
    return (table,) if table else ()
