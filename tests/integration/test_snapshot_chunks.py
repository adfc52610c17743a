"""Chunks of tables on real servers: every row once, whatever its key is, and as many rows read as a chunk has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from databus.binlog.server.wire import ServerConnection
from databus.core.errors import SnapshotKeyChangedError
from databus.sandbox import Sandbox
from databus.sources.mysql.snapshot.chunk_bounds import (
    next_chunk,
    rows_estimated,
    whole_table,
)
from databus.sources.mysql.snapshot.chunk_key import chunk_key
from tests.integration.chunk_server import (
    PLACE,
    SIZE,
    ChunkServer,
    begin,
    chunk_server,
    found_key,
    numbers,
    stored,
    walk,
)
from tests.integration.chunk_tables import KINDS, KeyKind

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def server(databases: Sandbox, request: pytest.FixtureRequest) -> Iterator[ChunkServer]:
    yield from chunk_server(databases, request.param)


def kinds_of(server: ChunkServer, name: str) -> KeyKind:
    kind = KINDS[name]
    if kind.only not in ("", server.flavor):
        pytest.skip(f"of {kind.only} only")
    return kind


@pytest.mark.parametrize("name", KINDS)
def test_chunks_have_every_row_once_in_the_servers_order(server: ChunkServer, name: str) -> None:
    definition = server.make(kinds_of(server, name))
    with server.reader() as opened:
        begin(opened)
        expected = numbers(opened, found_key(opened, definition), "TRUE")
        assert len(expected) > (8 if name == "enum" else 40)
        chunks = [(chunk, numbers(opened, key, chunk.condition)) for key, chunk in walk(opened, definition)]
        assert [n for _, rows in chunks for n in rows] == expected
        assert [len(rows) for _, rows in chunks[:-1]] == [SIZE] * (len(chunks) - 1)
        assert 1 <= len(chunks[-1][1]) <= SIZE
        assert [chunk.last for chunk, _ in chunks] == [False] * (len(chunks) - 1) + [True]


@pytest.mark.parametrize("name", KINDS)
def test_a_row_is_a_bound(server: ChunkServer, name: str) -> None:
    definition = server.make(kinds_of(server, name))
    with server.reader() as opened:
        begin(opened)
        key = found_key(opened, definition)
        asked = []
        for values in opened.query(f"SELECT {key.asked} FROM {PLACE}.t"):
            cursor = key.cursor(values)
            equal = " AND ".join(column.equals(lit) for column, lit in zip(key.columns, cursor[1:], strict=True))
            conditions = (equal, key.behind(cursor), key.up_to(cursor))
            asked.append("SELECT " + ", ".join(f"(SELECT COUNT(*) FROM {PLACE}.t WHERE {c})" for c in conditions))
        counts = opened.query(" UNION ALL ".join(asked))
        assert {row[0] for row in counts} == {1}
        assert sorted(row[2] for row in counts) == list(range(1, len(counts) + 1))
        assert {row[1] + row[2] for row in counts} == {len(counts)}


@pytest.mark.parametrize("name", KINDS)
def test_rows_come_and_go_between_chunks(server: ChunkServer, name: str) -> None:
    kind = kinds_of(server, name)
    definition = server.make(kind)
    r, cursor, found, chunks = random.Random(name), (), [], 0
    texts: list[tuple[Any, ...]] = []
    with server.reader() as opened:
        begin(opened)
        key = found_key(opened, definition)
        expected = [n for n in numbers(opened, key, "TRUE") if not n % 2]
        while True:
            begin(opened)
            chunk = next_chunk(opened.query, definition, key, cursor, SIZE)
            if chunk is None:
                break
            rows = opened.query(f"SELECT n, {key.asked} FROM {PLACE}.t WHERE {chunk.condition}")
            assert 1 <= len(rows) <= SIZE
            found += [row[0] for row in rows]
            texts += [row[1:] for row in rows]
            cursor, chunks = stored(chunk.upto), chunks + 1
            assert chunks < 100
            some = [n for n in r.choices(range(len(kind.rows)), k=20) if n % 2]
            server.sql(f"DELETE FROM t WHERE n IN ({', '.join(map(str, some))}) AND n % 2")
            back = [n for n in r.choices(range(len(kind.rows)), k=20) if n % 2]
            server.sql(f"INSERT IGNORE INTO t VALUES {', '.join(f'({kind.rows[n]}, {n}, 1)' for n in back)}")
    assert sorted(n for n in found if not n % 2) == sorted(expected)
    assert len(set(texts)) == len(texts)


LARGE = {
    "mixed": (
        "a INT NOT NULL, b VARCHAR(20) NOT NULL, c DECIMAL(20,3) NOT NULL",
        "PRIMARY KEY (a, b, c)",
        "i % 7, CONCAT('k', i % 50), i * 1000 + j",
    ),
    "skewed": (
        "a INT NOT NULL, b DATETIME(6) NOT NULL, c BINARY(8) NOT NULL",
        "PRIMARY KEY (a, b, c)",
        "1, '2020-01-01' + INTERVAL (i % 3) DAY, LPAD(i * 1000 + j, 8, '0')",
    ),
    "enum first": (
        "a ENUM('z','y','x','w') NOT NULL, b BIGINT UNSIGNED NOT NULL, c INT NOT NULL",
        "PRIMARY KEY (a, b, c)",
        "i % 4 + 1, 18446744073709000000 + i * 1000 + j, 0",
    ),
    "enum and set within": (
        "a INT NOT NULL, b ENUM('z','y','x','w') NOT NULL, c SET('p','q') NOT NULL, d INT NOT NULL",
        "PRIMARY KEY (a, b, c, d)",
        "1, i % 5, i % 4, i * 1000 + j",
    ),
    "secondary": (
        "a DOUBLE NOT NULL, b CHAR(10) NOT NULL, c TIMESTAMP NOT NULL, p INT AUTO_INCREMENT, KEY (p)",
        "UNIQUE (c, a, b)",
        "i / 3, CONCAT('Ä', j), '2020-01-01', NULL",
    ),
    "descending": (
        "a FLOAT NOT NULL, b INT NOT NULL, c TIME(3) NOT NULL",
        "PRIMARY KEY (a DESC, b, c DESC)",
        "(i % 9) / 10, i * 1000 + j, SEC_TO_TIME(j)",
    ),
}


def entries_read(opened: ServerConnection) -> int:
    return sum(int(row[1]) for row in opened.query("SHOW SESSION STATUS LIKE 'Handler_read%'"))


@pytest.fixture(scope="module")
def thousand(server: ChunkServer) -> str:
    """Table of the numbers from 0 to 319 in `i`."""
    server.sql("CREATE TABLE thousand (i INT PRIMARY KEY)")
    server.sql(f"INSERT INTO thousand VALUES {', '.join(f'({i})' for i in range(320))}")
    return "thousand"


@pytest.mark.parametrize("name", LARGE)
def test_a_chunk_reads_its_own_rows_of_a_large_table(server: ChunkServer, thousand: str, name: str) -> None:
    columns, key_text, values = LARGE[name]
    server.sql("DROP TABLE IF EXISTS large")
    server.sql(f"CREATE TABLE large ({columns}, v VARCHAR(99), {key_text})")
    pairs = f"(SELECT p.i AS i, q.i AS j FROM {thousand} p, {thousand} q)"
    server.sql(f"INSERT INTO large SELECT {values}, REPEAT('x', 50) FROM {pairs} AS r")
    server.sql("ANALYZE TABLE large")
    definition, size, cursor, rows_read = server.definition("large"), 5000, (), 0
    with server.reader() as opened:
        begin(opened)
        key = found_key(opened, definition)
        for at in range(30):
            opened.query("FLUSH STATUS")
            chunk = next_chunk(opened.query, definition, key, cursor, size)
            assert entries_read(opened) <= 2 * size + 50
            if chunk is None:
                break
            cursor = stored(chunk.upto)
            for forced in ("", chunk.forced) if key.index == "PRIMARY" else (chunk.forced,):
                opened.query("FLUSH STATUS")
                (row,) = opened.query(f"SELECT COUNT(v) FROM {PLACE}.large {forced} WHERE {chunk.condition}")
                assert entries_read(opened) <= 2 * size + 50, chunk.condition
                if not at % 5:
                    plan = opened.query(f"EXPLAIN SELECT * FROM {PLACE}.large {forced} WHERE {chunk.condition}")
                    assert "range" in plan[0]
            assert row[0] == size or chunk.last
            rows_read += row[0]
    assert rows_read == 320 * 320


def test_a_table_is_empty_or_becomes_so(server: ChunkServer) -> None:
    definition = server.make(KeyKind("k INT NOT NULL", "PRIMARY KEY (k)", tuple(map(str, range(14)))))
    with server.reader() as opened:
        begin(opened)
        chunks = [chunk for _, chunk in walk(opened, definition)]
        assert [chunk.last for chunk in chunks] == [False, True]  # 14 is twice 7
        key, cursor = found_key(opened, definition), stored(chunks[1].upto)
        assert next_chunk(opened.query, definition, key, cursor, SIZE) is None
        server.sql("DELETE FROM t WHERE k > 6")
        begin(opened)
        assert next_chunk(opened.query, definition, key, stored(chunks[0].upto), SIZE) is None
        server.sql("INSERT INTO t VALUES (100, 100, 0)")
        begin(opened)
        chunk = next_chunk(opened.query, definition, key, stored(chunks[0].upto), SIZE)
        assert chunk is not None
        assert chunk.last
        assert numbers(opened, key, chunk.condition) == [100]
        server.sql("INSERT INTO t VALUES (101, 101, 0)")  # behind the last chunk's bound
        begin(opened)
        assert numbers(opened, key, chunk.condition) == [100]
        server.sql("DELETE FROM t")
        begin(opened)
        assert list(walk(opened, definition)) == []
        assert rows_estimated(opened.query, definition) == 0


KEYLESS = {
    "none": "k INT NOT NULL, n INT, KEY (k)",
    "nullable": "k INT NULL UNIQUE, n INT",
    "a prefix": "k VARCHAR(20) NOT NULL, n INT, UNIQUE (k(5))",
    "text": "k TEXT NOT NULL, n INT, UNIQUE (k(50))",
}


@pytest.mark.parametrize("name", [*KEYLESS, "an expression", "by hash", "spaces"])
def test_a_table_without_a_usable_key_is_read_in_one_go(server: ChunkServer, name: str) -> None:
    mine = {
        "mysql": {"an expression": "k INT NOT NULL, n INT, UNIQUE ((k + 1))"},
        "mariadb": {
            "by hash": "k TEXT NOT NULL UNIQUE, n INT",
            "spaces": "k CHAR(9) COLLATE utf8mb4_nopad_bin NOT NULL UNIQUE, n INT",
        },
    }
    columns = {**KEYLESS, **mine[server.flavor]}.get(name)
    if columns is None:
        pytest.skip("of the other server")
    server.sql("DROP TABLE IF EXISTS t")
    server.sql(f"CREATE TABLE t ({columns})")
    server.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    definition = server.definition()
    with server.reader() as opened:
        begin(opened)
        assert chunk_key(opened.query, definition) is None
        chunk = whole_table(definition)
        assert (chunk.last, chunk.upto, chunk.forced) == (True, (), "")
        assert len(opened.query(f"SELECT n FROM {PLACE}.t WHERE {chunk.condition}")) == 3


@pytest.mark.parametrize(
    ("columns", "index"),
    [
        ("a INT NOT NULL UNIQUE, b CHAR(9) PRIMARY KEY", "PRIMARY"),
        ("a CHAR(9) NOT NULL, b BIGINT NOT NULL, c INT NOT NULL, UNIQUE x (a), UNIQUE y (b), UNIQUE z (c)", "z"),
        ("a INT NOT NULL, b BIGINT NOT NULL, c INT NOT NULL, UNIQUE x (a, c, b), UNIQUE y (b, c)", "y"),
        ("a INT NULL UNIQUE, b CHAR(200) NOT NULL, c INT, KEY (c), UNIQUE (b(3)), UNIQUE `od``d` (b)", "od`d"),
        ("a CHAR(9) NOT NULL, b INT NOT NULL, UNIQUE x (a), UNIQUE y (b) UNSEEN", "x"),
        ("`od``d %s` INT NOT NULL PRIMARY KEY, b INT", "PRIMARY"),
    ],
)
def test_the_primary_key_is_preferred_then_the_narrowest(server: ChunkServer, columns: str, index: str) -> None:
    server.sql("DROP TABLE IF EXISTS `o``dd`")
    unseen = {"mysql": "INVISIBLE", "mariadb": "IGNORED"}[server.flavor]
    server.sql(f"CREATE TABLE `o``dd` ({columns.replace('UNSEEN', unseen)})")
    rows = (", ".join([str(n)] * (3 if " c INT" in columns else 2)) for n in (1, 2))
    server.sql(f"INSERT INTO `o``dd` VALUES {', '.join(f'({row})' for row in rows)}")
    definition = server.definition("o`dd")
    with server.reader() as opened:
        begin(opened)
        chunks = list(walk(opened, definition, 1))
        assert [key.index for key, _ in chunks] == [index, index]
        for _, chunk in chunks:
            assert len(opened.query(f"SELECT * FROM {PLACE}.`o``dd` {chunk.forced} WHERE {chunk.condition}")) == 1


def test_a_cursor_is_of_one_order(server: ChunkServer) -> None:
    definition = server.make(
        KeyKind("k VARCHAR(9) NOT NULL, b INT NOT NULL", "PRIMARY KEY (k)", tuple(f"'a{k}', {k}" for k in range(20)))
    )
    with server.reader() as opened:
        _, chunk = next(walk(opened, definition))
        for change, continues in (
            ("ADD x INT, RENAME INDEX b TO c", True),
            ("MODIFY k VARCHAR(30) NOT NULL", True),
            ("MODIFY k VARCHAR(30) COLLATE utf8mb4_bin NOT NULL", False),
            ("MODIFY k VARCHAR(9) NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (b)", False),
            ("DROP PRIMARY KEY, ADD PRIMARY KEY (k, b)", False),
            ("ADD UNIQUE again (k)", True),
            ("DROP PRIMARY KEY, ADD PRIMARY KEY (k)", True),
        ):
            if change.startswith("ADD x"):
                server.sql("ALTER TABLE t ADD UNIQUE b (b)")
            server.sql(f"ALTER TABLE t {change}")
            definition = server.definition()
            key = found_key(opened, definition, chunk.upto)
            assert key.continues(chunk.upto) is continues, change
            if continues:
                assert next_chunk(opened.query, definition, key, chunk.upto, SIZE) is not None
            else:
                with pytest.raises(SnapshotKeyChangedError, match="has changed"):
                    next_chunk(opened.query, definition, key, chunk.upto, SIZE)
