"""The decoder against `mariadb-binlog -vv`, a third oracle; where the tool itself is wrong is listed by column."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.sandbox import Sandbox
from tests.integration.test_decode_real import Server
from tests.integration.types.cells import Column, expression, families

pytestmark = pytest.mark.integration

ROWS = 120
KNOWN_WRONG = {
    "year_": "YEAR 0 is shown as 1900",
    "float_": "six digits of a FLOAT are shown",
    "float_any": "six digits of a FLOAT are shown",
}
"""Columns that the tool shows wrongly, and how."""

_UTF8_OR_BINARY = ("varchar_utf8", "varchar_long", "char_long", "varchar_utf8mb3", "binary_", "varbinary_")
"""Strings that the tool shows as they are; of other character sets it shows the stored bytes."""

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}

Show = Callable[[Any], bytes]


def quoted(data: bytes) -> bytes:
    """Return a string as the tool quotes it."""
    return b"'" + b"".join(b"\\x%02x" % b if b < 0x20 else bytes([b]) for b in data) + b"'"


def integer(bits: int) -> Show:
    """The tool does not know the sign: below zero it shows both readings."""

    def show(value: int) -> bytes:
        signed = value - (1 << bits) if value >= 1 << (bits - 1) else value
        return str(signed).encode() if signed >= 0 else b"%d (%d)" % (signed, signed + (1 << bits))

    return show


def bit_string(bits: int) -> Show:
    return lambda value: b"b'" + format(value, f"0{bits}b").encode() + b"'"


def instant(column: Column) -> Show:
    digits = int(column.name[3:])

    def show(value: Any) -> bytes:
        if isinstance(value, str):
            return b"0" + (b"." + b"0" * digits if digits else b"")
        return f"{int(value.timestamp())}".encode() + (
            f".{value.microsecond:06d}"[: digits + 1].encode() if digits else b""
        )

    return show


def string(column: Column) -> Show:
    binary = column.ddl.startswith("BINARY")  # shown without the zero bytes at its end
    return lambda v: quoted(v.encode() if isinstance(v, str) else v.rstrip(b"\0") if binary else v)


def moment(column: Column) -> Show:
    mark = ":" if column.ddl == "DATE" else "-"
    return lambda v: b"'" + column.show(v).replace("-", mark).encode() + b"'"


SHOWERS: dict[str, Callable[[Column], Show]] = {
    **{name: lambda _, bits=bits: integer(bits) for name, bits in INTEGERS.items()},  # type: ignore[misc]
    "BIT": lambda column: bit_string(int(column.ddl[4:-1])),
    **dict.fromkeys(("DATE", "DATETIME", "TIME"), moment),
    "TIMESTAMP": instant,
    **dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), string),
    **dict.fromkeys(("DECIMAL", "YEAR"), lambda column: lambda v: column.show(v).encode()),
    **dict.fromkeys(("FLOAT", "DOUBLE"), lambda _: lambda v: repr(float(v)).encode()),
}
"""SQL type → how the tool should show our value. ENUM and SET are left out: the tool shows their numbers."""


def comparable(column: Column) -> bool:
    kind = type_of(column)
    text = kind.endswith(("CHAR", "BINARY"))
    return kind in SHOWERS and (not text or column.name in _UTF8_OR_BINARY)


def type_of(column: Column) -> str:
    return column.ddl.split("(")[0].split()[0]


def same(column: Column, theirs: bytes, ours: bytes) -> bool:
    if column.ddl.startswith(("FLOAT", "DOUBLE")):
        return theirs == ours == b"NULL" or (b"NULL" not in (theirs, ours) and float(theirs) == float(ours))
    return theirs == ours


@pytest.fixture
def server(type_servers: Sandbox) -> Iterator[Server]:
    server = Server("mariadb", type_servers.address("mariadb"))
    server.run("CREATE DATABASE IF NOT EXISTS cells CHARACTER SET utf8mb4")
    yield server
    server.connection.close()


def values(output: bytes, columns: int) -> list[list[bytes]]:
    """Return the values of each row that the tool shows, without its remarks on their types."""
    lines = [line for line in output.split(b"\n") if line.startswith(b"###   @")]
    texts = [line.split(b"=", 1)[1].rsplit(b" /* ", 1)[0].rstrip() for line in lines]
    return [texts[start : start + columns] for start in range(0, len(texts), columns)]


def test_the_tool_shows_the_same(server: Server) -> None:
    r = random.Random(2026)
    columns = [c for c in families("mariadb", ["latin1"])["plain"] if comparable(c)]
    assert {type_of(c) for c in columns} == SHOWERS.keys()
    chosen = {c.name: SHOWERS[type_of(c)](c) for c in columns}
    body = ",".join(f"`{c.name}` {c.ddl}" for c in columns)
    server.run("DROP TABLE IF EXISTS cells.shown")
    server.run(f"CREATE TABLE cells.shown (id INT PRIMARY KEY, {body}) ROW_FORMAT=DYNAMIC")
    server.new_log()
    for key in range(ROWS):
        made = [expression(c, r, "mariadb") for c in columns]
        marks = ",".join(sql for sql, _ in made)
        server.run(f"INSERT INTO cells.shown VALUES ({key},{marks})", [v for _, some in made for v in some])
    ((_, base),) = server.run("SHOW VARIABLES LIKE 'log_bin_basename'")
    path = Path(base).with_name(server.run("SHOW BINARY LOGS")[-1][0])
    tool = shutil.which("mariadb-binlog")
    assert tool, "mariadb-binlog comes with the server's packages"
    run = subprocess.run([tool, "-vv", "--base64-output=DECODE-ROWS", str(path)], capture_output=True, check=True)
    theirs = values(run.stdout, len(columns) + 1)
    (batch,) = [x for x in server.decode_log() if isinstance(x, TableBatch)]
    assert len(theirs) == batch.images.num_rows == ROWS
    wrong: dict[str, Any] = {}
    for number, column in enumerate(columns, start=1):
        kept = batch.exceptions.get(number, {})
        for row, value in enumerate(batch.images.column(number).to_pylist()):
            full = kept.get(row, value)
            ours = b"NULL" if full is None else chosen[column.name](full)
            if not same(column, theirs[row][number], ours):
                wrong.setdefault(column.name, (row, ours, theirs[row][number]))
    assert {name: first for name, first in wrong.items() if name not in KNOWN_WRONG} == {}
    assert wrong.keys() == KNOWN_WRONG.keys()
