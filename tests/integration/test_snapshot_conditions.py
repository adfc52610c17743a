"""Chunks of a snapshot with a row condition, on real servers: rows that it leaves, what is refused, and estimates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databus.core.errors import SnapshotConditionError
from databus.sandbox import Sandbox
from databus.sources.mysql.snapshot.chunk_bounds import (
    bytes_of_row,
    next_chunk,
    rows_estimated,
    rows_of_chunk,
    whole_table,
)
from tests.integration.chunk_server import (
    DATABASE,
    PLACE,
    SIZE,
    ChunkServer,
    begin,
    chunk_server,
    found_key,
    numbers,
    walk,
)
from tests.integration.chunk_tables import KeyKind

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def server(databases: Sandbox, request: pytest.FixtureRequest) -> Iterator[ChunkServer]:
    yield from chunk_server(databases, request.param)


def test_a_condition_leaves_chunks_with_some_rows_and_with_none(server: ChunkServer) -> None:
    definition = server.make(
        KeyKind("k INT NOT NULL, s VARCHAR(9)", "PRIMARY KEY (k)", tuple(f"{k}, 'a{k}'" for k in range(70)))
    )
    with server.reader() as opened:
        begin(opened)
        for where, expected in (
            ("k < 3 OR k % 100 = 69", [0, 1, 2, 69]),
            ("s LIKE '%5' AND v = 0", list(range(5, 70, 10))),
            ("s = \"a5\" OR s = 'a#;--'", [5]),
            (f"EXISTS (SELECT 1 FROM {PLACE}.t AS other WHERE other.n = t.k + 60)", list(range(10))),
            ("FALSE", []),
        ):
            chunks = [numbers(opened, key, chunk.condition) for key, chunk in walk(opened, definition, SIZE, where)]
            assert [n for rows in chunks for n in rows] == expected
            assert len(chunks) == (1 if where == "FALSE" else 10)
            whole = whole_table(definition, where)
            assert (whole.last, whole.upto) == (True, ())
            assert numbers(opened, found_key(opened, definition), whole.condition) == expected


def test_few_rows_that_an_index_finds_are_one_chunk(server: ChunkServer) -> None:
    definition = server.make(
        KeyKind("k INT NOT NULL, s INT, KEY (s)", "PRIMARY KEY (k)", tuple(f"{k}, {k % 20}" for k in range(200)))
    )
    server.sql("ANALYZE TABLE t")
    with server.reader() as opened:
        begin(opened)
        key = found_key(opened, definition)
        for where, expected in (
            ("k IN (3, 150, 500)", [3, 150]),
            ("k = 7", [7]),
            ("k = 700", []),
            ("s = 3", list(range(3, 200, 20))),
        ):
            (chunk,) = [chunk for _, chunk in walk(opened, definition, 10, where)]
            assert (chunk.last, chunk.upto) == (True, ())
            assert numbers(opened, key, chunk.condition) == expected
        assert len([*walk(opened, definition, 10, "k > 100")]) == 20
        assert len([*walk(opened, definition, 10, "n = 3")]) == 20


REFUSED = (
    "k = 1; DROP TABLE t",
    "k = 1 -- x",
    "k = 1 # x",
    "k = 1 /* x */",
    "k = 1 /*! OR 1 */",
    "k = 1) OR (1 = 1",
    "(k = 1",
    "k = 'a",
    'k = "a',
    "k = `a",
    "k = ?",
    "nope = 1",
    "k = = 1",
    "COUNT(*) > 1",
    "k, n",
    "k = 1 LIMIT 1",
    "k = 1 ORDER BY k",
    "NOPE(k)",
    "k IN (SELECT n FROM t FOR UPDATE)",
    "k IN (SELECT n FROM t LOCK IN SHARE MODE)",
    "@x := 1",
    "k = 'a\\' OR ' OR 1'",
    "(SELECT 1 INTO @x)",
    "k = 1 UNION SELECT 1",
    "k = \\N",
    "k = 1\0",
)


@pytest.mark.parametrize("where", REFUSED)
def test_a_condition_that_is_none_is_refused_by_name(server: ChunkServer, where: str) -> None:
    definition = server.make(KeyKind("k INT NOT NULL", "PRIMARY KEY (k)", ("1", "2")))
    with server.reader() as opened:
        opened.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")  # a writer's: nothing but the check holds it
        key = found_key(opened, definition)
        with pytest.raises(SnapshotConditionError) as caught:
            next_chunk(opened.query, definition, key, (), 7, where)
        assert caught.value.code == "snapshot_condition"
        assert repr(where.strip()) in caught.value.message
        assert f"{DATABASE}.t" in caught.value.message
        assert "WHERE" in caught.value.hint
        with pytest.raises(SnapshotConditionError):
            rows_estimated(opened.query, definition, where)
    assert len(server.sql("SELECT k FROM t")) == 2


def test_estimates_are_the_servers(server: ChunkServer) -> None:
    definition = server.make(
        KeyKind(
            "k INT NOT NULL, s CHAR(200) DEFAULT 'x'",
            "PRIMARY KEY (k)",
            tuple(f"{k}, REPEAT('x', 200)" for k in range(2000)),
        )
    )
    server.sql("ANALYZE TABLE t")
    with server.reader() as opened:
        begin(opened)
        assert 1000 <= (rows_estimated(opened.query, definition) or 0) <= 4000
        assert 40 <= (rows_estimated(opened.query, definition, "k < 50") or 0) <= 60
        assert rows_estimated(opened.query, definition, "k = 5") == 1
        assert rows_estimated(opened.query, definition, "FALSE") == 0
        length = bytes_of_row(opened.query, definition)
        assert 100 <= (length or 0) <= 1000
    assert rows_of_chunk(250, 10_000, 1_000_000) == 4000
    assert rows_of_chunk(250, 100, 1_000_000) == 100
    assert rows_of_chunk(None, 100, 1_000_000) == rows_of_chunk(0, 100, 1_000_000) == 100
    assert rows_of_chunk(1 << 32, 100, 1_000_000) == 1
