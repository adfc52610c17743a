"""State that a commit leaves in real servers: made by `python -m tests.state_fixtures.server_state OUT --checkout DIR`.

Flows of that commit are run against MySQL, Kafka and ZooKeeper, and killed in the middle of a batch; then the servers
are stopped, and what they hold is packed: Kafka's and ZooKeeper's folders, MySQL's log with its identity, the rows of
its tables, the segment store and the records. `KeptServers` brings them up again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from databus.sandbox import Sandbox
from databus.sandbox.accounts import ROOT
from databus.sandbox.connections import airflow_connections
from databus.sandbox.launch import make_ready
from databus.sandbox.progress import log_progress
from databus.sandbox.servers.catalog import server_named
from tests.ports import ports_from
from tests.state_fixtures.left_flow import SNAPSHOT

SERVERS = ("zookeeper", "kafka", "mysql")
ARCHIVE = "servers.tar.xz"
PORTS_FROM = 24_400
TABLES = {
    "orders": "id INT PRIMARY KEY, customer VARCHAR(20), amount DECIMAL(8,2)",
    "items": "id INT PRIMARY KEY, kind ENUM('a','b'), note TEXT",
    "people": "id INT PRIMARY KEY, name VARCHAR(20)",
}
PEOPLE = 60
_LEFT_OUT = (".lock", ".log.deleted", "snapshot.checkpoint")


def sql_of(sandbox: Sandbox) -> pymysql.connections.Connection[Any]:
    """Connect to the sandbox's MySQL as root."""
    host, port = sandbox.address("mysql").split(":")
    return pymysql.connect(host=host, port=int(port), user=ROOT.user, password="", autocommit=True, charset="utf8mb4")


@dataclass
class Changes:
    """Changes made to the tables, as a consumer has to see them.

    Attributes:
        made: table.id → [op, row after] of each change that reaches the topic, in order.
        held: number of rows that the check holds back.
    """

    connection: Any
    made: dict[str, list[list[Any]]] = field(default_factory=dict)
    held: int = 0

    def put(self, table: str, op: str, **row: Any) -> None:
        """Make a change, and note it."""
        names, values = ", ".join(row), list(row.values())
        sets = ", ".join(f"{name} = %s" for name in row)
        where = f"WHERE id = {row['id']}"
        statement = {
            "c": f"INSERT INTO kept_shop.{table} ({names}) VALUES ({', '.join(['%s'] * len(row))})",
            "u": f"UPDATE kept_shop.{table} SET {sets} {where}",
            "d": f"DELETE FROM kept_shop.{table} {where}",
        }[op]
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values if op != "d" else None)
        if op != "d" and table == "orders" and row["customer"] is None:
            self.held += 1
        else:
            after = None if op == "d" else {name: str(value) for name, value in row.items()}
            self.made.setdefault(f"{table}.{row['id']}", []).append([op, after])

    def round(self, number: int) -> None:
        """Make the changes of a round: rows of both tables, of which one is held back, then updates and deletes."""
        first = number * 100
        for n in range(first, first + 10):
            self.put("orders", "c", id=n, customer=None if n == first + 3 else f"Ünal {n}", amount=f"{n}.50")
        for n in range(first, first + 4):
            self.put("items", "c", id=n, kind="ab"[n % 2], note="x" * (n % 7))
        self.put("orders", "u", id=first + 3, customer="known now", amount="1.00")
        self.put("orders", "u", id=first + 1, customer="changed", amount="-2.25")
        self.put("orders", "d", id=first + 2)
        self.put("items", "d", id=first)


class Commit:
    """Runs flows by the databus of a checkout."""

    def __init__(self, checkout: Path, sandbox: Sandbox, home: Path):
        self._checkout, self._sandbox, self._home = checkout, sandbox, home

    def run(self, flow: str, start: str, until: str = "", batches: int | None = None) -> None:
        """Run a window of a flow; with `until` it is killed.

        Raises:
            RuntimeError: it ended otherwise.
        """
        wanted = {
            "flow": flow, "start": start, "until": until, "batches": batches,
            "segments": str(self._home / "segments"), "records": f"sqlite:///{self._home / 'records.db'}",
        }  # fmt: skip
        folders = f"{self._checkout / 'include'}:{self._checkout}"
        environment = {**os.environ, **airflow_connections(self._sandbox.status()), "PYTHONPATH": folders}
        program = Path(__file__).with_name("left_flow.py")
        done = subprocess.run(
            [sys.executable, str(program)], input=json.dumps(wanted), env=environment, cwd=self._home,
            capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        if done.returncode != (-signal.SIGKILL if until else 0):
            raise RuntimeError(f"{flow} ended with {done.returncode}:\n{done.stderr[-4000:]}")


def leave(checkout: Path, home: Path, *, snapshot: bool) -> dict[str, Any]:
    """Run flows against servers below `home`, kill them, stop the servers; return what a consumer has to see."""
    sandbox = Sandbox(home, ports_from=ports_from(PORTS_FROM))
    try:
        sandbox.up(SERVERS)
        commit = Commit(checkout, sandbox, home)
        with closing(sql_of(sandbox)) as connection:
            facts = _leave(commit, connection, snapshot=snapshot)
    finally:
        sandbox.down()
    return facts


def _leave(commit: Commit, connection: Any, *, snapshot: bool) -> dict[str, Any]:
    changes = Changes(connection)
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE kept_shop CHARACTER SET utf8mb4")
        for table, columns in TABLES.items():
            cursor.execute(f"CREATE TABLE kept_shop.{table} ({columns})")
        cursor.executemany(
            "INSERT INTO kept_shop.people VALUES (%s, %s)", [(n, f"person {n}") for n in range(1, PEOPLE + 1)]
        )
        cursor.execute("SHOW MASTER STATUS")
        start = "{}:{}".format(*cursor.fetchone()[:2])
    flows = {"kept_half": "half", "kept_planned": "plan"}
    changes.round(1)
    for flow in flows:
        commit.run(flow, start)
    changes.round(2)
    for flow, until in flows.items():
        commit.run(flow, start, until)
    if snapshot:
        flows[SNAPSHOT] = "half"
        commit.run(SNAPSHOT, "", batches=1)
        commit.run(SNAPSHOT, "", "half")
    changes.round(3)
    return {
        "flows": flows, "start": start, "changes": changes.made, "held": changes.held, "tables": _rows(connection),
    }  # fmt: skip


def _rows(connection: Any) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT * FROM kept_shop.{table} ORDER BY id")
            found[table] = [[None if value is None else str(value) for value in row] for row in cursor.fetchall()]
    return found


def _files(home: Path, mysql: Path) -> Iterator[tuple[Path, str]]:
    """Give each file that is kept, and its name in the archive."""
    for name in ("kafka", "zookeeper"):
        data = home / name / "data"
        yield from ((file, f"{name}/{file.relative_to(data)}") for file in sorted(data.rglob("*")))
    yield from ((file, f"mysql/{file.name}") for file in sorted(mysql.glob("mysql-bin.*")))
    yield mysql / "auto.cnf", "mysql/auto.cnf"
    segments = home / "segments"
    yield from ((file, f"segments/{file.relative_to(segments)}") for file in sorted(segments.rglob("*")))
    yield home / "records.db", "records.db"


def pack(home: Path, facts: Mapping[str, Any], archive: Path) -> None:
    """Write the archive; empty folders are kept, since Kafka's are partitions."""
    mysql = Sandbox(home)._stored("mysql").data_folder
    said = home / "facts.json"
    said.write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = 0
        return member

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for file, name in (*_files(home, mysql), (said, "facts.json")):
            if not name.endswith(_LEFT_OUT):
                packed.add(file, name, recursive=False, filter=plain)


class KeptServers:
    """Servers that hold what a commit left; a context manager.

    Attributes:
        sandbox: the servers, up.
        home: their folder; `segments` and `records.db` lie in it.
        facts: what `leave` returned.
    """

    def __init__(self, archive: Path, home: Path):
        self.home = home
        self.sandbox = Sandbox(home, ports_from=ports_from(PORTS_FROM))
        kept = home / "kept"
        with tarfile.open(archive, "r:xz") as packed:
            packed.extractall(kept, filter="data")
        self.facts: dict[str, Any] = json.loads((kept / "facts.json").read_text(encoding="utf-8"))

    def __enter__(self) -> KeptServers:
        kept = self.home / "kept"
        for name in ("kafka", "zookeeper"):
            (self.home / name).mkdir()
            (kept / name).rename(self.home / name / "data")
        for name in ("segments", "records.db"):
            (kept / name).rename(self.home / name)
        self._put_log(kept / "mysql")
        self.sandbox.up(SERVERS)
        self._put_rows()
        return self

    def __exit__(self, *_: object) -> None:
        self.sandbox.destroy()

    def _put_log(self, log: Path) -> None:
        """Make MySQL's data folder, and put the kept log and the server's identity into it before it starts."""
        server = server_named("mysql")
        stored = self.sandbox._reserve(server, None)
        self.sandbox._put(stored)
        make_ready(server, self.sandbox._context(server, stored, log_progress))
        owner = stored.data_folder.stat()
        for file in log.iterdir():
            target = stored.data_folder / file.name
            target.write_bytes(file.read_bytes())
            os.chown(target, owner.st_uid, owner.st_gid)

    def _put_rows(self) -> None:
        """Give the tables the rows that the log led to, without a trace in the log."""
        with closing(sql_of(self.sandbox)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SQL_LOG_BIN = 0")
            cursor.execute("CREATE DATABASE kept_shop CHARACTER SET utf8mb4")
            for table, columns in TABLES.items():
                cursor.execute(f"CREATE TABLE kept_shop.{table} ({columns})")
                for row in self.facts["tables"][table]:
                    cursor.execute(f"INSERT INTO kept_shop.{table} VALUES ({', '.join(['%s'] * len(row))})", row)


def main() -> None:
    """Make the archive of a commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the archive")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[2], help="whose databus runs")
    parser.add_argument("--without-snapshot", action="store_true", help="of a commit that has no snapshots")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="databus-state-") as folder:
        home = Path(folder) / "home"
        facts = leave(given.checkout.absolute(), home, snapshot=not given.without_snapshot)
        given.out.mkdir(parents=True, exist_ok=True)
        pack(home, facts, given.out / ARCHIVE)
        Sandbox(home).destroy()


if __name__ == "__main__":
    main()
