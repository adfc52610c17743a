"""Rows that a snapshot reads against the same rows decoded from the log: schema, Arrow types, every cell."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import INSERT, MAX_IMAGES, READ, TableBatch
from databus.binlog.log.tablemap import TableMap
from databus.binlog.schema_history.attach import attach, lacks
from databus.binlog.schema_history.definition import TableDefinition, TableName
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.core.tables.schemas import TableSchema
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.logged_table import logged_table
from databus.sources.mysql.snapshot.table_reader import read_table
from databus.sources.mysql.tables.information_schema import MysqlColumns
from tests.integration.test_decode_real import Server
from tests.integration.types.cells import Column, expression, families
from tests.integration.types.test_charsets import charsets, fill
from tests.integration.types.test_compressed import COLUMNS as COMPRESSED
from tests.integration.types.test_compressed import value as compressed_value
from tests.integration.types.zones import ZONES, load

pytestmark = pytest.mark.integration

ROWS = 60
Values = tuple[pa.Table, dict[tuple[str, int], Any]]


def connection_of(server: Server) -> Connection:
    mysql = server.connection
    return Connection(conn_id="shop", conn_type="mysql", host=mysql.host, port=mysql.port, login="root")


def definition_of(server: Server, table: str) -> TableDefinition:
    control = MysqlServer(connection_of(server))
    found = MysqlColumns(control).definitions(["cells"])[TableName("cells", table)]
    control.close()
    return found


def read(server: Server, table: TableMap, condition: str = "", most_images: int = MAX_IMAGES) -> list[TableBatch]:
    opened = ServerConnection(connection_of(server))
    batches = list(read_table(opened, table, condition, table.to_schema(0), most_images))
    assert opened.query("SELECT 1") == [(1,)]  # the connection is as good as before
    opened.close()
    return batches


def values_of(batches: Sequence[TableBatch]) -> Values:
    """Return the images of some batches as one table, and the exceptions by column and row."""
    kept, before = {}, 0
    for batch in batches:
        for number, found in batch.exceptions.items():
            kept |= {(batch.schema.columns[number].name, before + row): value for row, value in found.items()}
        before += batch.images.num_rows
    return pa.Table.from_batches([b.images for b in batches]), kept


def logged(server: Server, table: str, definition: TableDefinition) -> tuple[Values, TableSchema, TableMap]:
    """Decode what the newest log file holds of a table: nothing but inserts."""

    def complete(found: TableMap) -> TableMap:
        return attach(found, definition) if lacks(found, server.name) and found.table == table else found

    events = server.decode_log(complete=complete) if False else server.decode_log()
    batches = [b for b in events if isinstance(b, TableBatch) and b.schema.table == table]
    assert all((b.op == INSERT).all() for b in batches)
    (found,) = [t for t in events.table_maps if t.table == table]
    return values_of(batches), batches[0].schema, found


def differences(ours: Values, theirs: Values) -> list[Any]:
    """Return the first cells in which two tables differ, and where their exceptions do."""
    (read_rows, read_kept), (log_rows, log_kept) = ours, theirs
    assert read_rows.schema == log_rows.schema
    assert len(read_rows) == len(log_rows)
    found: list[Any] = []
    for name in log_rows.column_names:
        a, b = read_rows.column(name).combine_chunks(), log_rows.column(name).combine_chunks()
        if not a.equals(b):
            pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
            found += [(name, row, x, y) for row, (x, y) in enumerate(pairs) if x != y][:3] or [(name, "unequal")]
    found += [(key, read_kept.get(key), log_kept.get(key)) for key in read_kept.keys() ^ log_kept.keys()]
    return found + [(key, read_kept[key], log_kept[key]) for key in read_kept.keys() & log_kept.keys()
                    if read_kept[key] != log_kept[key]]  # fmt: skip


def check(server: Server, table: str) -> Values:
    """Compare a table, which holds what the newest log file holds, and return its rows."""
    definition = definition_of(server, table)
    theirs, schema, in_log = logged(server, table, definition)
    described = logged_table(definition, server.name)
    assert described.to_schema(schema.schema_id) == attach(in_log, definition).to_schema(schema.schema_id)
    batches = read(server, described)
    ours = values_of(batches)
    assert differences(ours, theirs)[:5] == []
    assert all((b.op == READ).all() and (b.before_row == -1).all() for b in batches)
    assert [n for b in batches for n in b.ordinal.tolist()] == list(range(len(theirs[0])))
    return ours


def create(server: Server, table: str, body: str, options: str = "") -> None:
    server.run(f"DROP TABLE IF EXISTS cells.{table}")
    server.run(f"CREATE TABLE cells.{table} (id INT PRIMARY KEY, {body}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC {options}")
    server.new_log()


def insert(server: Server, table: str, columns: Sequence[Column], r: random.Random) -> None:
    names = ",".join(f"`{c.name}`" for c in columns)
    for key in range(1, ROWS + 1):
        made = [("NULL", []) if key == 7 else expression(c, r, server.name) for c in columns]
        marks = ",".join(sql for sql, _ in made)
        server.run(
            f"INSERT INTO cells.{table} (id,{names}) VALUES ({key},{marks})", [v for _, some in made for v in some]
        )


@pytest.mark.parametrize("family", ["plain", "charsets", "large"])
def test_every_type_is_as_in_the_log(server: Server, family: str) -> None:
    seed = int(os.environ.get("DATABUS_TEST_SEED", random.SystemRandom().getrandbits(32)))
    r = random.Random(f"{seed}-{server.name}")
    load(server)
    server.run("SET NAMES utf8mb4")
    names = [str(row[0]) for row in server.run("SHOW CHARACTER SET") if row[0] != "binary"]
    columns = families(server.name, names)[family]
    create(server, family, ",".join(f"`{c.name}` {c.ddl}" for c in columns))
    server.run(f"SET SESSION time_zone='{r.choice(ZONES)}'")
    insert(server, family, columns, r)
    rows, _ = check(server, family)
    assert all(column.null_count for column in rows.columns[1:]), seed
