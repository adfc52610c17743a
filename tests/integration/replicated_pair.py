"""A source and a replica of one flavor, real servers replicating by GTID, each with log files of its own names."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from databus.core.connections import Connection
from databus.sandbox import Sandbox, SandboxOptions
from tests.integration.statements import run_sql
from tests.ports import ports_from

DEADLINE_S = 30.0


class Server:
    """One server of one flavor, and SQL on it."""

    def __init__(self, flavor: str, sandbox: Sandbox):
        self.flavor, self.sandbox = flavor, sandbox
        host, port = sandbox.address(flavor).split(":")
        self.connection = Connection(conn_id="shop", conn_type="mysql", host=host, port=int(port), login="root")
        self._sql: pymysql.connections.Connection[Any] | None = None

    def session(self) -> pymysql.connections.Connection[Any]:
        return pymysql.connect(
            host=self.connection.host, port=self.connection.port or 0, user="root", autocommit=True, charset="utf8mb4"
        )

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        if self._sql is None:
            self._sql = self.session()
        return run_sql(self._sql, *statements)

    def close(self) -> None:
        if self._sql is not None:
            self._sql.close()
            self._sql = None


@dataclasses.dataclass
class Pair:
    source: Server
    replica: Server

    def reset(self) -> None:
        """Let both begin with an empty log and no GTIDs, whatever tests before have left."""
        word = "REPLICA" if self.source.flavor == "mysql" else "SLAVE"
        self.replica.sql(f"STOP {word}", f"RESET {word} ALL")
        for server in (self.source, self.replica):
            server.sql("RESET MASTER")
            if server.flavor == "mariadb":
                server.sql("SET GLOBAL gtid_slave_pos = ''")

    def link(self) -> None:
        """Make the replica follow the source by GTID, from where both are now."""
        port = self.source.connection.port
        if self.source.flavor == "mysql":
            self.replica.sql(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='root', "
                "SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1",
                "START REPLICA",
            )
        else:
            self.replica.sql(
                f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', "
                "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1",
                "START SLAVE",
            )

    def replica_has(self, gtids: str) -> None:
        """Wait until the replica has applied these transactions."""
        if self.source.flavor == "mysql":
            assert self.replica.sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', 30)") == [(0,)]
        else:
            assert self.replica.sql(f"SELECT MASTER_GTID_WAIT('{gtids}', 30)") == [(0,)]

    def promote(self) -> None:
        """Let the replica finish its relay log, and make it a primary."""
        old = self.source.flavor == "mysql"
        status = "SHOW REPLICA STATUS" if old else "SHOW SLAVE STATUS"
        word = "REPLICA" if old else "SLAVE"
        self.replica.sql(f"STOP {word} IO_THREAD")
        deadline, last = time.monotonic() + DEADLINE_S, ()
        while time.monotonic() < deadline:  # the same place twice: nothing is left in the relay log
            session = self.replica.session()
            with session, session.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(status)
                row = cursor.fetchone()
            assert row is not None
            state = str(row.get("Replica_SQL_Running_State") or row.get("Slave_SQL_Running_State"))
            now = (row["Relay_Log_File"], row["Relay_Log_Pos"])
            if "read all relay log" in state and now == last:
                break
            last = now
            time.sleep(0.1)
        self.replica.sql(f"STOP {word}", f"RESET {word} ALL")


@contextmanager
def replicated_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Sandbox]]:
    """Run a MySQL and a MariaDB in one sandbox, and in another those that are to be their replicas."""
    first = Sandbox(tmp_path_factory.mktemp("source"), ports_from=ports_from(28_000), options=SandboxOptions())
    own = {"log-bin": "promoted-bin"}
    options = SandboxOptions(
        sql_options={"mysql": {**own, "server-id": "2002"}, "mariadb": {**own, "server-id": "1002"}}
    )
    second = Sandbox(tmp_path_factory.mktemp("replica"), ports_from=ports_from(28_100), options=options)
    try:
        first.up(("mysql", "mariadb"))
        second.up(("mysql", "mariadb"))
        yield first, second
    finally:
        first.destroy()
        second.destroy()
