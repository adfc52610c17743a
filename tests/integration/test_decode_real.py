"""The decoder against real servers: every column type, compared cell by cell with what SELECT gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.converters import encoders

from databus.binlog.decoding.decode import DecodedEvents, decode_events
from databus.binlog.decoding.table_batch import DELETE, TableBatch, TableEvent
from databus.core.errors import DecodeError
from databus.sandbox import Sandbox
from tests.integration.decode_oracle import Column, canonical_json, columns_for, decoded
from tests.integration.kafka_target import wait_until

pytestmark = pytest.mark.integration

ROWS = 1500
Row = dict[str, str | None]


class Server:
    """A database server and its log files."""

    def __init__(self, name: str, address: str) -> None:
        host, port = address.split(":")
        self.name = name
        # Without converters every value comes as the text that the server sent.
        self.connection = pymysql.connect(
            host=host,
            port=int(port),
            user="root",
            password="",
            autocommit=True,
            charset="utf8mb4",
            conv=encoders,
            init_command="SET time_zone='+00:00', sql_mode='ALLOW_INVALID_DATES'",
        )

    def run(self, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    def new_log(self) -> None:
        """Begin a log file; on MariaDB also wait for the event by which a background thread closes the rotation."""
        self.run("FLUSH BINARY LOGS")
        file = self.run("SHOW BINARY LOGS")[-1][0]
        if self.name == "mariadb":
            closed = ("Binlog_checkpoint", file)
            wait_until(lambda: closed in {(e[2], e[5]) for e in self.events(file)}, f"the checkpoint event in {file}")

    def events(self, file: str) -> list[Any]:
        """Return (file, position, type, server id, end, info) of each event of a log file."""
        return self.run(f"SHOW BINLOG EVENTS IN '{file}'")

    def decode_log(self, **options: Any) -> DecodedEvents:
        """Decode the newest log file from its bytes on disk."""
        ((_, base),) = self.run("SHOW VARIABLES LIKE 'log_bin_basename'")
        name = self.run("SHOW BINARY LOGS")[-1][0]
        return decode_events(Path(base).with_name(name).read_bytes()[4:], file=name, **options)


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def server(request: pytest.FixtureRequest, databases: Sandbox) -> Iterator[Server]:
    server = Server(request.param, databases.address(request.param))
    server.run("CREATE DATABASE IF NOT EXISTS types CHARACTER SET utf8mb4")
    yield server
    server.connection.close()


@pytest.fixture
def seed() -> int:
    return random.SystemRandom().getrandbits(32)


def create(server: Server, table: str, columns: tuple[Column, ...]) -> None:
    body = ",".join(f"`{c.name}` {c.ddl}" for c in columns)
    server.run(f"DROP TABLE IF EXISTS types.{table}")
    server.run(f"CREATE TABLE types.{table} (id INT PRIMARY KEY, {body}) ENGINE=InnoDB ROW_FORMAT=DYNAMIC")


def parameters(columns: tuple[Column, ...], r: random.Random) -> tuple[list[str], list[Any]]:
    """Return an SQL expression and value per column, one in eight NULL."""
    markers, values = [], []
    for column in columns:
        value = None if r.random() < 0.125 else column.make(r)
        if column.ddl == "POINT" and value is not None:
            markers.append("ST_GeomFromText(%s)")
            value = f"POINT({value[0]!r} {value[1]!r})"
        elif column.ddl == "JSON" and value is not None and r.random() < 0.2:
            # Values that only the server can put into a document.
            markers.append(
                "JSON_ARRAY(CAST(%s AS DECIMAL(30,10)), CAST('2024-02-29' AS DATE), "
                "CAST('-11:12:13.5' AS TIME(2)), 1.5)"
            )
            value = "-123456789.0123456789"
        else:
            markers.append("%s")
        values.append(value)
    return markers, values


def write(server: Server, table: str, columns: tuple[Column, ...], r: random.Random) -> None:
    """Insert, update and delete random rows, in transactions of several statements."""
    names = ",".join(f"`{c.name}`" for c in columns)
    for start in range(0, ROWS, 50):
        server.run("BEGIN")
        for number in range(start, start + 50):
            markers, values = parameters(columns, r)
            server.run(f"INSERT INTO types.{table} (id,{names}) VALUES ({number},{','.join(markers)})", values)
        for _ in range(10):
            markers, values = parameters(columns, r)
            assignments = ",".join(f"`{c.name}`={m}" for c, m in zip(columns, markers, strict=True))
            server.run(f"UPDATE types.{table} SET {assignments} WHERE id={r.randrange(start + 50)}", values)
        server.run(f"DELETE FROM types.{table} WHERE id={r.randrange(start + 50)}")
        server.run("COMMIT")


def selected(server: Server, table: str, columns: tuple[Column, ...]) -> dict[int, Row]:
    expressions = ",".join(c.select.format(f"`{c.name}`") for c in columns)
    rows = server.run(f"SELECT id,{expressions} FROM types.{table}")
    names = [c.name for c in columns]
    return {int(row[0]): dict(zip(names, map(as_text, row[1:]), strict=True)) for row in rows}


def as_text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def normal(column: Column, value: str | None, server: str) -> str | None:
    """Bring the few types that have several right spellings to one."""
    if value is None:
        return None
    if column.ddl == "JSON" and server == "mysql":
        return canonical_json(value)
    if column.name in ("float_", "double_"):
        return repr(float(value))
    return value


def replay(events: DecodedEvents, columns: tuple[Column, ...]) -> tuple[dict[int, Row], int]:
    """Apply the decoded changes; each before-image must be the row as it stood."""
    rows: dict[int, Row] = {}
    cells = 0
    for batch in events:
        if not isinstance(batch, TableBatch):
            continue
        ids = batch.images.column("id").to_pylist()
        images = [decoded(batch, row, columns) for row in range(batch.images.num_rows)]
        cells += len(images) * len(columns)
        for before, after, op in zip(
            batch.before_row.tolist(), batch.after_row.tolist(), batch.op.tolist(), strict=True
        ):
            if before >= 0:
                assert rows[ids[before]] == images[before]
            if op == DELETE:
                del rows[ids[before]]
            else:
                rows[ids[after]] = images[after]
    return rows, cells


def test_every_cell_is_what_select_gives(server: Server, seed: int) -> None:
    columns = columns_for(server.name)
    create(server, "everything", columns)
    server.new_log()
    write(server, "everything", columns, random.Random(seed))
    found, cells = replay(server.decode_log(), columns)
    right = selected(server, "everything", columns)
    assert found.keys() == right.keys()
    # UUID and INET6 have no type of their own in the log: their bytes come as BINARY(16).
    comparable = [c for c in columns if c.name not in ("uuid_", "inet6_")]
    wrong = [
        (seed, c.name, number, found[number][c.name], right[number][c.name])
        for c in comparable
        for number in right
        if normal(c, found[number][c.name], server.name) != normal(c, right[number][c.name], server.name)
    ]
    assert wrong[:5] == []
    assert cells > ROWS * len(columns)


def test_types_and_keys_are_the_tables_own(server: Server) -> None:
    columns = columns_for(server.name)
    create(server, "named", columns)
    server.new_log()
    server.run("INSERT INTO types.named (id) VALUES (1)")
    (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    assert batch.schema.primary_key == ("id",)
    assert [c.name for c in batch.schema.columns] == ["id", *(c.name for c in columns)]
    shown = dict(
        server.run(
            "SELECT column_name, column_type FROM information_schema.columns "
            "WHERE table_schema='types' AND table_name='named'"
        )
    )
    for column in batch.schema.columns:
        theirs = str(shown[column.name])
        if server.name == "mariadb" and column.name in ("json_", "uuid_", "inet6_"):
            continue
        if column.type in ("geometry", "enum", "set"):
            assert theirs.startswith(("point", column.type))
            continue
        for name in ("tinyint", "smallint", "mediumint", "bigint", "int", "year"):
            if theirs.startswith(name + "("):  # display widths are not logged
                theirs = name + theirs[theirs.index(")") + 1 :]
        assert column.type == theirs


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_row_images_tell_absent_from_null(server: Server, image: str) -> None:
    server.run("DROP TABLE IF EXISTS types.image")
    server.run("CREATE TABLE types.image (id INT PRIMARY KEY, a INT, b TEXT, c INT)")
    server.new_log()
    server.run(f"SET SESSION binlog_row_image={image}")
    server.run("INSERT INTO types.image (id, a) VALUES (1, NULL)")
    server.run("UPDATE types.image SET c = 5 WHERE id = 1")
    server.run("DELETE FROM types.image WHERE id = 1")
    server.run("SET SESSION binlog_row_image=FULL")
    (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    names = batch.images.schema.names
    seen = [
        {n for n, there in zip(names, batch.presence_sets[batch.presence[row]].tolist(), strict=True) if there}
        for row in range(batch.images.num_rows)
    ]
    if image == "MINIMAL":
        assert seen[1:] == [{"id"}, {"c"}, {"id"}]
        assert {"id", "a"} <= seen[0]
    else:
        assert seen[1:] == [{"id", "a", "c"}] * 3
    assert batch.images.column("c").to_pylist()[2] == 5


def test_statements_come_at_their_place(server: Server) -> None:
    server.new_log()
    server.run("CREATE TABLE types.ddl (id INT PRIMARY KEY)")
    server.run("INSERT INTO types.ddl VALUES (1), (2)")
    server.run("ALTER TABLE types.ddl ADD name VARCHAR(10)")
    server.run("INSERT INTO types.ddl VALUES (3, 'x')")
    server.run("TRUNCATE types.ddl")
    server.run("CREATE TABLE types.copy AS SELECT 7 AS n")
    server.run("DROP TABLE types.ddl, types.copy")
    events = server.decode_log()
    statements = [(e.op, e.database, e.table) for e in events if isinstance(e, TableEvent)]
    assert statements[:4] == [
        ("m", "types", "ddl"),
        ("m", "types", "ddl"),
        ("t", "types", "ddl"),
        ("m", "types", "copy"),
    ]
    batches = [x for x in events if isinstance(x, TableBatch)]
    assert [(b.images.schema.names, len(b)) for b in batches] == [(["id"], 2), (["id", "name"], 1), (["n"], 1)]
    order = sorted(
        [(e.transaction, e.ordinal, e.op) for e in events if isinstance(e, TableEvent)]
        + [(int(t), int(o), "row") for b in batches for t, o in zip(b.transaction, b.ordinal, strict=True)]
    )
    assert [kind for _, _, kind in order][:8] == ["m", "row", "row", "m", "row", "t", "m", "row"]


def test_gtids_and_boundaries_are_the_servers_own(server: Server) -> None:
    server.run("DROP TABLE IF EXISTS types.g")
    server.run("CREATE TABLE types.g (id INT PRIMARY KEY)")
    server.new_log()
    ends, gtids = [], []
    for number in range(3):
        server.run(f"INSERT INTO types.g VALUES ({number})")
        ends.append(int(server.run("SHOW MASTER STATUS")[0][1]))
        if server.name == "mysql":
            gtids.append(str(server.run("SELECT @@gtid_executed")[0][0]))
        else:
            gtids.append(str(server.run("SELECT @@gtid_binlog_pos")[0][0]))
    found = server.decode_log().transactions
    assert found.end_pos.tolist() == ends
    for gtid, executed in zip(found.gtid.to_pylist(), gtids, strict=True):
        if server.name == "mysql":
            source, number = gtid.split(":")
            assert executed.replace("\n", "").startswith(source)
            assert executed.endswith(f"-{number}")
        else:
            assert gtid == executed


def test_checksums_can_be_off(server: Server) -> None:
    server.run("SET GLOBAL binlog_checksum=NONE")
    try:
        server.new_log()
        server.run("REPLACE INTO types.g VALUES (100)")
        (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
        assert batch.images.column("id").to_pylist() == [100]
    finally:
        server.run("SET GLOBAL binlog_checksum=CRC32")


def test_statement_logging_and_missing_metadata_are_refused(server: Server) -> None:
    server.run("CREATE TABLE IF NOT EXISTS types.r (id INT PRIMARY KEY)")
    cases = {
        "binlog_format=ROW": [
            "SET SESSION binlog_format=STATEMENT",
            "INSERT INTO types.r VALUES (1)",
            "SET SESSION binlog_format=ROW",
        ],
        "binlog_row_metadata=FULL": [
            "SET GLOBAL binlog_row_metadata=MINIMAL",
            "INSERT INTO types.r VALUES (3)",
            "SET GLOBAL binlog_row_metadata=FULL",
        ],
    }
    for words, statements in cases.items():
        server.new_log()
        for statement in statements:
            server.run(statement)
        with pytest.raises(DecodeError) as caught:
            list(server.decode_log())
        assert words in str(caught.value)
        assert server.run("SHOW BINARY LOGS")[-1][0] + ":" in caught.value.message
