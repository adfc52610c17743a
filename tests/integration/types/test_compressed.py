"""MariaDB's COMPRESSED columns against SELECT: packed, stored as it is, empty, NULL, with and without zlib's header."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.values.column_types import ColumnType
from databus.sandbox import Sandbox
from tests.integration.test_decode_real import Server

pytestmark = pytest.mark.integration

COLUMNS = {
    "v10": "VARCHAR(10) COMPRESSED CHARACTER SET utf8mb4",
    "v300": "VARCHAR(300) COMPRESSED CHARACTER SET latin1",
    "v255": "VARCHAR(255) COMPRESSED CHARACTER SET latin1",
    "v254": "VARCHAR(254) COMPRESSED CHARACTER SET latin1",
    "v5000": "VARCHAR(5000) COMPRESSED CHARACTER SET ucs2",
    "b500": "VARBINARY(500) COMPRESSED",
    "tt": "TINYTEXT COMPRESSED CHARACTER SET utf8mb4",
    "t": "TEXT COMPRESSED CHARACTER SET gbk",
    "mt": "MEDIUMTEXT COMPRESSED CHARACTER SET utf8mb4",
    "lb": "LONGBLOB COMPRESSED",
    "plain": "VARCHAR(20)",
}
LIMIT = {"v10": 10, "v300": 300, "v255": 255, "v254": 254, "v5000": 5000, "b500": 500, "tt": 60, "t": 9000, "plain": 20}


@pytest.fixture
def server(type_servers: Sandbox) -> Iterator[Server]:
    server = Server("mariadb", type_servers.address("mariadb"))
    server.run("CREATE DATABASE IF NOT EXISTS cells CHARACTER SET utf8mb4")
    yield server
    server.connection.close()


def value(name: str, r: random.Random) -> str | bytes | None:
    """A value of any length, repetitive (it is packed) or not (it is stored as it is)."""
    length = r.choice([0, 1, 5, 99, 100, 101, 3000, 70_000, r.randrange(400)])
    length = min(length, LIMIT.get(name, 200_000))
    if r.random() < 0.1:
        return None
    if name in ("b500", "lb"):
        return bytes(length) if r.random() < 0.5 else r.randbytes(length)
    alphabet = "a" if r.random() < 0.5 else "abcdefghijklmnopqrstuvwxyz0123456789 中"[: 36 if name[0] == "v" else 38]
    return "".join(r.choice(alphabet) for _ in range(length))


def test_every_form_is_what_select_gives(server: Server) -> None:
    r = random.Random(11)
    server.run("DROP TABLE IF EXISTS cells.packed")
    body = ",".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    server.run(f"CREATE TABLE cells.packed (id INT PRIMARY KEY, {body})")
    server.new_log()
    marks = ",".join(["%s"] * (1 + len(COLUMNS)))
    for key in range(240):
        if key % 60 == 0:
            wrap, level = ("ON", 9) if key == 60 else ("OFF", 0 if key == 120 else 6)
            server.run(f"SET SESSION column_compression_zlib_wrap={wrap}, column_compression_zlib_level={level}")
            server.run(f"SET SESSION column_compression_threshold={0 if key == 180 else 100}")
        server.run(f"INSERT INTO cells.packed VALUES ({marks})", [key, *(value(name, r) for name in COLUMNS)])
    server.run("UPDATE cells.packed SET t = '', lb = NULL, v10 = 'x' WHERE id < 20")
    events = server.decode_log()
    (schema,) = [t for t in events.table_maps if t.table == "packed"]
    kinds = {c.name: c.type for c in schema.columns}
    assert kinds["v10"] is ColumnType.VARCHAR_COMPRESSED
    assert kinds["t"] is ColumnType.BLOB_COMPRESSED
    found: dict[int, dict[str, Any]] = {}
    for batch in events:
        assert isinstance(batch, TableBatch)
        assert not batch.exceptions
        images = batch.images.to_pylist()
        for row in batch.after_row.tolist():
            found[images[row]["id"]] = images[row]
    shown = server.run(
        "SELECT id, " + ",".join(f"HEX({c if 'b' in c else f'CONVERT({c} USING utf8mb4)'})" for c in COLUMNS)
        + " FROM cells.packed"
    )  # fmt: skip
    for row in shown:
        for name, text in zip(COLUMNS, row[1:], strict=True):
            ours = found[int(row[0])][name]
            ours = ours.encode() if isinstance(ours, str) else ours
            assert ours == (None if text is None else bytes.fromhex(text.decode() if isinstance(text, bytes) else text))
    types = dict(
        server.run("SELECT column_name, column_type FROM information_schema.columns WHERE table_name='packed'")
    )
    for column in schema.columns[1:]:
        assert str(types[column.name]).split(" /*")[0] == column.source_type
