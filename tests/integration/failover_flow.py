"""A flow without Spark that goes over to a replica, a program that writes meanwhile, and transactions by script."""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from databus.core.batching import Batching
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset, offset_from_json
from databus.core.settings import Settings
from databus.sources.mysql.source import MysqlBinlogSource
from databus.sources.mysql.spec import MysqlBinlog
from tests.contract.source_contract import IMPATIENT, Row, rows_of
from tests.integration.binlog_shop import Connections
from tests.integration.replicated_pair import DEADLINE_S, Pair, Server

_NUMBERS = itertools.count(1)


class Flow:
    """A flow without Spark: plans, reads, commits; its connection can be pointed elsewhere."""

    def __init__(self, name: str, folder: Path, server: Server):
        self.name, self.folder = name, folder
        self.connection = server.connection
        self.tables = (f"{name}.*",)
        self.rows: list[Row] = []
        self.checkpoint: BinlogOffset = self.open().latest_offset()

    def open(self) -> MysqlBinlogSource:
        spec = MysqlBinlog(conn_id="shop", tables=self.tables, snapshot="never")
        context = FlowContext(self.name, Settings("test", str(self.folder / "segments"), ""))
        source = spec.open(Connections(self.connection), context)
        assert isinstance(source, MysqlBinlogSource)
        return source

    def batch(self, limit: Batching = IMPATIENT) -> int:
        source = self.open()
        try:
            plan = source.plan(self.checkpoint, limit)
            if plan is None:
                return 0
            rows = rows_of(source, plan)
            assert sum(r["part"] == 0 and r["schema_id"] >= 0 for r in rows) == plan.rows
            self.rows += rows
            source.release(plan)
            assert isinstance(plan.range.end, BinlogOffset)
            stored = offset_from_json(plan.range.end.to_json())
            assert isinstance(stored, BinlogOffset)
            self.checkpoint = stored
            return 1
        finally:
            source.close()

    def drain(self, limit: Batching = IMPATIENT) -> None:
        while self.batch(limit):
            pass

    def folded(self) -> dict[int, dict[str, Any]]:
        """The state of the table `t` after all rows, as a keyed sink would hold it."""
        return fold(self.rows)

    def unique(self) -> None:
        ids = [r["event_id"] for r in self.rows]
        assert len(ids) == len(set(ids))


def fold(rows: Sequence[Row]) -> dict[int, dict[str, Any]]:
    from pyspark.sql.types import VariantVal

    state: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["op"] not in "cud":
            continue
        key = json.loads(row["key"])["id"]
        if row["op"] == "d":
            state.pop(key, None)
        else:
            state[key] = json.loads(VariantVal(row["after"]["value"], row["after"]["metadata"]).toJson())
    return state


def selected(server: Server, name: str) -> dict[int, dict[str, Any]]:
    return {int(i): {"id": i, "v": v, "n": n} for i, v, n in server.sql(f"SELECT id, v, n FROM {name}.t")}


class Writer:
    """Writes to a server until it is told to stop or the server dies; in MariaDB in two domains."""

    def __init__(self, server: Server, name: str, first: int):
        self.server, self.name, self.first = server, name, first
        self.stop = threading.Event()
        self.written = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            session = self.server.session()
            with session, session.cursor() as cursor:
                for i in itertools.count(self.first):
                    if self.stop.is_set():
                        return
                    if self.server.flavor == "mariadb":
                        cursor.execute(f"SET SESSION gtid_domain_id = {i % 2}")
                    cursor.execute("BEGIN")
                    cursor.execute(f"INSERT INTO {self.name}.t VALUES ({i}, 'v{i}', 0)")
                    cursor.execute(f"UPDATE {self.name}.t SET n = n + {i} WHERE id > {i - 6} AND id % 2 = {i % 2}")
                    cursor.execute(f"DELETE FROM {self.name}.t WHERE id = {i - 40}")
                    cursor.execute(f"UPDATE {self.name}.t SET id = -id WHERE id = {i - 10}")
                    cursor.execute("COMMIT")
                    self.written += 1
        except pymysql.MySQLError:
            return

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.written < count and time.monotonic() < deadline:
            time.sleep(0.005)
        assert self.written >= count

    def end(self) -> None:
        self.stop.set()
        self.thread.join(DEADLINE_S)


def create(server: Server, name: str) -> None:
    server.sql(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20), n BIGINT)")


def purge_all(server: Server) -> None:
    """Delete all log files but a new one."""
    server.sql("FLUSH BINARY LOGS")
    last = str(server.sql("SHOW BINARY LOGS")[-1][0])
    deadline = time.monotonic() + DEADLINE_S
    while str(server.sql("SHOW BINARY LOGS")[0][0]) != last:
        assert time.monotonic() < deadline
        server.sql(f"PURGE BINARY LOGS TO '{last}'")  # MariaDB keeps a file until its engines have passed a checkpoint


class Script:
    """Writes transactions with chosen GTIDs on the replica, as its applier would; `former` is a server that is gone."""

    def __init__(self, pair: Pair, name: str, folder: Path):
        self.server, self.name = pair.replica, name
        self.flavor = pair.replica.flavor
        create(self.server, name)
        self.flow = Flow(name, folder, self.server)
        self.origin = str(uuid.uuid4()) if self.flavor == "mysql" else str(next(_NUMBERS) + 5000)
        self.domain = 10 * next(_NUMBERS)
        self.begin = self.flow.checkpoint

    def applied(self, number: int, key: int, value: int, domain: int = 0) -> str:
        """A transaction of the former server."""
        change = f"REPLACE INTO {self.name}.t VALUES ({key}, 'x', {value})"
        if self.flavor == "mysql":
            gtid = f"{self.origin}:{number}"
            self.server.sql(f"SET GTID_NEXT = '{gtid}'", change, "SET GTID_NEXT = 'AUTOMATIC'")
            return gtid
        gtid = f"{self.domain + domain}-{self.origin}-{number}"
        place = {"gtid_domain_id": self.domain + domain, "server_id": self.origin, "gtid_seq_no": number}
        self.server.sql(*(f"SET SESSION {name} = {value}" for name, value in place.items()), change)
        return gtid

    def own(self, key: int, value: int) -> str:
        """A transaction that the server made itself."""
        session = self.server.session()
        with session, session.cursor() as cursor:
            if self.flavor == "mariadb":
                cursor.execute(f"SET SESSION gtid_domain_id = {self.domain}")
            cursor.execute(f"REPLACE INTO {self.name}.t VALUES ({key}, 'own', {value})")
        return self.flow.open().latest_offset().gtids

    def checkpoint(self, delivered: str) -> BinlogOffset:
        """What a flow has committed that had read these from the former server."""
        gtids = ",".join(filter(None, (self.begin.gtids, delivered)))
        return BinlogOffset("former-bin.000777", 4711, gtids, self.flavor, "the-former", 3)


def read_on(flow: Flow) -> list[str]:
    flow.drain()
    flow.unique()
    return [r["transaction"] for r in flow.rows]
