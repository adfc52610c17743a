"""The tables of a flow as its server defines them now: asked for all at once, and never more than that."""

from __future__ import annotations

from databus.binlog.log.capture import TableCapture, is_name
from databus.binlog.schema_history.definition import TableName
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.core.tables.wanted import TablesNow
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.tables.information_schema import DeclaredTable, MysqlColumns
from databus.sources.mysql.tables.visibility import MysqlSight

_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def tables_now(server: MysqlServer, capture: TableCapture) -> TablesNow:
    """Return what information_schema shows of a flow's tables.

    Raises:
        SourceUnavailableError, SourceAccessError: the server cannot be asked.
    """
    sight = MysqlSight.of(server.query("SHOW GRANTS"))
    columns = MysqlColumns(server)
    visible = columns.table_names()
    captured = sorted((n for n in visible if capture(n.database, n.table)), key=str)
    declared = columns.declared(sorted({name.database for name in captured}))
    unmatched = tuple(p for p in capture.include if not _any_of(TableCapture((p,), capture.exclude), captured))
    tables = tuple(_schema(number, name, declared.get(name)) for number, name in enumerate(captured))
    keys_told = all(table.primary_key for table in tables) or not _hides_keys(server)
    return TablesNow(
        server.place,
        tables,
        tuple(sorted(map(str, visible))),
        unmatched,
        frozenset(
            table.full_name
            for table in tables
            if not table.columns or not sight.shows(table.database, table.table) or not (table.primary_key or keys_told)
        ),
        sight.tells,
    )


def tables_gone(server: MysqlServer, capture: TableCapture) -> tuple[str, ...]:
    """Return the names and patterns of a flow that nothing matches which information_schema shows; one query.

    Raises:
        SourceUnavailableError, SourceAccessError: the server cannot be asked.
    """
    columns = MysqlColumns(server)
    if all(map(is_name, capture.include)):
        there = columns.names_among(sorted({name.partition(".")[2] for name in capture.include}))
    else:
        databases = {pattern.partition(".")[0] for pattern in capture.include}
        told = all(map(is_name, databases))  # "re:" and wildcards may mean any
        there = columns.table_names(sorted(databases) if told else ())
    return tuple(p for p in capture.include if not _any_of(TableCapture((p,), capture.exclude), there))


def _any_of(capture: TableCapture, names: list[TableName]) -> bool:
    return any(capture(name.database, name.table) for name in names)


def _hides_keys(server: MysqlServer) -> bool:
    """Return whether keys that the server made itself (sql_generate_invisible_primary_key) are not shown."""
    name = "show_gipk_in_create_table_and_information_schema"
    return server.variables(name).get(name, "ON").upper() in ("OFF", "0")


def _schema(number: int, name: TableName, declared: DeclaredTable | None) -> TableSchema:
    found = declared or DeclaredTable()
    columns = tuple(
        ColumnSchema(column, kind, "binary" if kind.partition("(")[0] in _BYTES else "string")
        for column, kind in found.columns
    )
    return TableSchema(number, name.database, name.table, columns, tuple(found.key))
