"""Server with tables to be read in chunks, and walks over them in consistent views."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from databus.binlog.schema_history.definition import TableDefinition, TableName
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.sandbox import Sandbox
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.chunk_bounds import Chunk, next_chunk
from databus.sources.mysql.snapshot.chunk_key import ChunkKey, chunk_key
from databus.sources.mysql.snapshot.cursor import Cursor
from databus.sources.mysql.tables.information_schema import MysqlColumns
from tests.integration.chunk_tables import KeyKind

SIZE = 7
DATABASE = "chu`nks"
PLACE = "`chu``nks`"


class ChunkServer:
    """Server with tables to be read in chunks.

    Attributes:
        flavor: "mysql" or "mariadb".
        sql: runs a statement of a writer, who takes everything.
    """

    def __init__(self, flavor: str, address: str):
        host, port = address.split(":")
        self.flavor = flavor
        self.connection = Connection(conn_id="chunks", conn_type="mysql", host=host, port=int(port), login="root")
        self._writer = ServerConnection(self.connection)
        self.sql = self._writer.query
        self.sql("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        self.sql(f"DROP DATABASE IF EXISTS {PLACE}")
        self.sql(f"CREATE DATABASE {PLACE} CHARACTER SET utf8mb4")
        self.sql(f"USE {PLACE}")

    def make(self, kind: KeyKind, name: str = "t") -> TableDefinition:
        """Make a table with rows; each has a number in `n`."""
        self.sql(f"DROP TABLE IF EXISTS `{name}`")
        self.sql(f"CREATE TABLE `{name}` ({kind.columns}, n INT NOT NULL, v INT, {kind.key}) {kind.options}")
        values = ", ".join(f"({row}, {n}, 0)" for n, row in enumerate(kind.rows))
        self.sql(f"INSERT IGNORE INTO `{name}` VALUES {values}")
        return self.definition(name)

    def definition(self, name: str = "t") -> TableDefinition:
        server = MysqlServer(self.connection)
        try:
            return MysqlColumns(server).definitions([DATABASE])[TableName(DATABASE, name)]
        finally:
            server.close()

    @contextmanager
    def reader(self) -> Iterator[ServerConnection]:
        """Open a connection like that of a view."""
        opened = ServerConnection(self.connection)
        opened.query("SET SESSION time_zone = '+00:00', character_set_results = NULL, sql_mode = 'ALLOW_INVALID_DATES'")
        opened.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        try:
            yield opened
        finally:
            opened.close()

    def close(self) -> None:
        self.sql(f"DROP DATABASE {PLACE}")
        self._writer.close()


def begin(opened: ServerConnection) -> None:
    """Open a new consistent view in place of the one before."""
    opened.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


def found_key(opened: ServerConnection, definition: TableDefinition, after: Cursor = ()) -> ChunkKey:
    key = chunk_key(opened.query, definition, after)
    assert key is not None
    return key


def stored(cursor: Cursor) -> Cursor:
    """Return a cursor as ZooKeeper gives it back."""
    return tuple(json.loads(json.dumps(list(cursor))))


def numbers(opened: ServerConnection, key: ChunkKey, condition: str, table: str = "t") -> list[int]:
    """Return the numbers of the rows that meet a condition, in the key's order."""
    place = f"{PLACE}.`{table}`"
    return [row[0] for row in opened.query(f"SELECT n FROM {place} WHERE {condition} {key.ordered()}")]


def walk(
    opened: ServerConnection, definition: TableDefinition, size: int = SIZE, where: str = ""
) -> Iterator[tuple[ChunkKey, Chunk]]:
    """Walk a table in the view that is open."""
    cursor: Cursor = ()
    key = found_key(opened, definition)
    for _ in range(300):
        chunk = next_chunk(opened.query, definition, key, cursor, size, where)
        if chunk is None:
            return
        yield key, chunk
        if not chunk.upto:
            return
        assert stored(chunk.upto) != cursor
        cursor = stored(chunk.upto)
    pytest.fail("the walk does not end")


def chunk_server(databases: Sandbox, flavor: str) -> Iterator[ChunkServer]:
    """Give a server of a flavour, whose tables go with it."""
    made = ChunkServer(flavor, databases.address(flavor))
    yield made
    made.close()
