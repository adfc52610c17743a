"""The library's reader on real servers: their files and their dumps give the rows that SELECT gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from databus.binlog import LogReader, read_file, read_server
from databus.core.errors import OffsetInvalidError, SourceAccessError
from databus.sandbox import Sandbox
from tests.integration.statements import run_sql
from tests.ports import ports_from

pytestmark = pytest.mark.integration


class Server:
    """A server, and one database of its own in it."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.host, port = address.split(":")
        self.port = int(port)
        self.connection = pymysql.connect(host=self.host, port=self.port, user="root", autocommit=True)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return run_sql(self.connection, *statements)

    def files(self) -> list[Path]:
        ((_, base),) = self.sql("SHOW VARIABLES LIKE 'log_bin_basename'")
        return [Path(base).with_name(row[0]) for row in self.sql("SHOW BINARY LOGS")]

    def head(self) -> str:
        file, position = self.sql("SHOW MASTER STATUS")[0][:2]
        return f"{file}:{position}"

    def read(self, start: str, **options: Any) -> LogReader:
        return read_server(self.host, port=self.port, user="root", start=start, tables=["reader.*"], **options)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("reader"), ports_from=ports_from(27_400))
    try:
        sandbox.up(["mysql", "mariadb"])
        yield sandbox
    finally:
        sandbox.destroy()


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def server(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Server]:
    server = Server(request.param, sandbox.address(request.param))
    server.sql(
        "CREATE DATABASE reader CHARACTER SET utf8mb4",
        "CREATE TABLE reader.t (id INT PRIMARY KEY, v VARCHAR(200), d DECIMAL(10,2))",
        "INSERT INTO reader.t VALUES (1, 'a', 1.5), (2, 'b', NULL)",
        "UPDATE reader.t SET v = 'ä' WHERE id = 1",
        "FLUSH BINARY LOGS",
        "BEGIN",
        *(f"INSERT INTO reader.t VALUES ({n}, REPEAT('x', 200), {n})" for n in range(10, 500)),
        "COMMIT",
        "DELETE FROM reader.t WHERE id = 2",
    )
    taken_back_and_prepared(server)
    compressed(server)
    yield server
    server.connection.close()


def taken_back_and_prepared(server: Server) -> None:
    """A savepoint that is rolled back to, and an XA transaction that is committed behind another one."""
    server.sql(
        "BEGIN",
        "INSERT INTO reader.t VALUES (600, 'stays', 1)",
        "SAVEPOINT s",
        *(f"INSERT INTO reader.t VALUES ({n}, REPEAT('y', 200), {n})" for n in range(601, 640)),
        "ROLLBACK TO s",
        "UPDATE reader.t SET v = 'stayed' WHERE id = 600",
        "COMMIT",
        "XA START 'later'",
        *(f"INSERT INTO reader.t VALUES ({n}, REPEAT('z', 200), {n})" for n in range(700, 760)),
        "XA END 'later'",
        "XA PREPARE 'later'",
    )
    with pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True) as other:
        other.cursor().execute("INSERT INTO reader.t VALUES (800, 'between', 1)")
    server.sql("XA COMMIT 'later'")


def compressed(server: Server) -> None:
    """Transactions that the server compresses."""
    if server.name == "mysql":
        server.sql("SET SESSION binlog_transaction_compression = ON")
    else:
        server.sql("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    server.sql(
        "BEGIN",
        *(f"INSERT INTO reader.t VALUES ({n}, REPEAT('c', 200), {n})" for n in range(1000, 1100)),
        "COMMIT",
        "UPDATE reader.t SET v = 'again' WHERE id BETWEEN 1000 AND 1050",
    )
    if server.name == "mysql":
        server.sql("SET SESSION binlog_transaction_compression = OFF")
    else:
        server.sql("SET GLOBAL log_bin_compress = OFF")


def replayed(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The table that the rows leave, in the order of its key."""
    state: dict[int, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["file"], row["position"], row["ordinal"])):
        if row["before"] is not None:
            del state[row["before"]["id"]]
        if row["after"] is not None:
            state[row["after"]["id"]] = row["after"]
    return [tuple(state[key].values()) for key in sorted(state)]


def rows_of(log: LogReader) -> list[dict[str, Any]]:
    with log:
        return list(itertools.chain.from_iterable(batch.to_pylist() for batch in log))


@pytest.mark.parametrize("piece_bytes", [500, 4096, 16 << 20])
def test_files_and_dump_give_what_select_gives(server: Server, piece_bytes: int) -> None:
    dumped = rows_of(server.read("earliest", piece_bytes=piece_bytes))
    assert replayed(dumped) == server.sql("SELECT * FROM reader.t ORDER BY id")
    wanted = {"tables": ["reader.*"], "piece_bytes": piece_bytes}
    read = [row for path in server.files() for row in rows_of(read_file(path, **wanted))]
    assert read == dumped
    assert {row["statement"][:6] for row in dumped if row["op"] == "m"} == {"CREATE"}
    late = {row["position"] for row in dumped if row["after"] and 700 <= row["after"]["id"] < 760}
    (between,) = (row["position"] for row in dumped if row["after"] and row["after"]["id"] == 800)
    assert len(late) == 1
    assert late.pop() > between
    with read_file(server.files()[-1]) as log:
        list(log)
        kinds = {"mysql": "TRANSACTION_PAYLOAD (40)", "mariadb": "WRITE_ROWS_COMPRESSED_V1 (166)"}
        assert log.event_counts[kinds[server.name]] > 0


def test_reading_goes_on_where_it_ended(server: Server) -> None:
    for _ in range(10):
        with server.read("earliest") as log:
            list(log)
        if f"{log.file}:{log.position}" == server.head():
            break
        # MariaDB writes its checkpoint some time behind what was committed.
    assert f"{log.file}:{log.position}" == server.head()
    server.sql("INSERT INTO reader.t VALUES (7001, 'later', 0)")
    (row,) = rows_of(server.read(f"{log.file}:{log.position}"))
    assert (row["op"], row["after"]["id"]) == ("c", 7001)
    assert rows_of(server.read("latest")) == []
    (last,) = (r for r in rows_of(server.read("earliest")) if r["after"] and r["after"]["id"] == 7001)
    gtids = last["gtid"] if server.name == "mariadb" else server.sql("SELECT @@gtid_executed")[0][0].replace("\n", "")
    server.sql("INSERT INTO reader.t VALUES (7002, 'after the GTID', 0)")
    assert [row["after"]["id"] for row in rows_of(server.read(f"gtid:{gtids}"))] == [7002]


def test_following_waits_for_what_comes(server: Server) -> None:
    with server.read("latest", follow=True) as log:
        rows = iter(log)
        for number in (8001, 8002):
            server.sql(f"INSERT INTO reader.t VALUES ({number}, 'live', 0)")
            assert next(rows)["after"].to_pylist()[0]["id"] == number


def test_wrong_places_and_logins_are_named(server: Server) -> None:
    with pytest.raises(OffsetInvalidError, match="names no place"):
        server.read("yesterday")
    file, position = server.head().split(":")
    with pytest.raises(OffsetInvalidError, match="start of"):
        rows_of(server.read(f"{file}:{int(position) - 20}"))
    with pytest.raises(SourceAccessError):
        read_server(server.host, port=server.port, user="nobody", password="secret")
