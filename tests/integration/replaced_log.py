"""A table on a server whose log is replaced, with a flow of it into a topic and an index; verbs that look at a log."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.backfill import Aim, Mode
from databus.demo.consumers import index_documents
from databus.ops.backfill.run import BackfillRequest
from databus.ops.backfill.run import preview as preview_backfill
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.preview import CheckpointMove
from databus.ops.checkpoint.targets import Target
from databus.ops.health.lag import measure
from databus.ops.runs.preview import preview
from databus.ops.services import open_services
from databus.runtime.context import Services
from databus.sandbox import Sandbox
from tests.integration.commands import Commands
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import OneProcessWorld

ADA = Attribution("ada", "RESET MASTER on the old primary")

NEW_LOG = Target(new_log=True)

_NUMBERS = itertools.count(1)


class Table:
    """A table on a server whose log is replaced, and a flow of it into a topic and an index."""

    def __init__(self, world: OneProcessWorld, databases: Sandbox, flavor: str):
        self.world, self.flavor = world, flavor
        self.name = f"lr{os.getpid()}_{next(_NUMBERS)}"
        host, port = databases.address(flavor).split(":")
        at = {"conn_type": "mysql", "host": host, "port": int(port), "login": "root"}
        world.environment[f"AIRFLOW_CONN_{self.name.upper()}"] = json.dumps(at)
        self.connection = _connected(host, int(port))
        self.sql(f"CREATE DATABASE {self.name}", f"USE {self.name}", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        self.replace_log()
        self.flow = Flow(
            name=self.name,
            source=MysqlBinlog(conn_id=self.name, tables=(f"{self.name}.t",), start="latest"),
            sinks=(
                Kafka(conn_id="kafka_east", topic=self.name, partitions=2, slots=2),
                Elasticsearch(conn_id="opensearch_default", index=self.name, name="es"),
            ),
            batching=Batching(max_rows=1000, max_wait=timedelta(seconds=0.2)),
        )
        self.run()

    def sql(self, *statements: str) -> Any:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def insert(self, first: int, last: int, value: str = "old") -> None:
        for key in range(first, last):
            self.sql(f"INSERT INTO t VALUES ({key}, RPAD('{value}', 150, '.'))")

    def replace_log(self) -> None:
        """Begin the log anew, in a later second than that in which the one before was begun."""
        begun = self.sql("SELECT UNIX_TIMESTAMP()")[0][0]
        while self.sql("SELECT UNIX_TIMESTAMP()")[0][0] <= begun:
            time.sleep(0.05)
        self.sql("RESET MASTER")

    def run(self) -> Any:
        return self.world.run(self.flow)

    def services(self) -> Any:
        return open_services(self.flow, self.world.connections, self.world.settings)

    def offset(self) -> BinlogOffset:
        offset = self.world.checkpoint(self.flow).offset
        assert isinstance(offset, BinlogOffset)
        return offset

    def go_on(self) -> CheckpointMove:
        with self.services() as services:
            return mediation.execute(self.flow, services, "skip", NEW_LOG, ADA)[0]

    def commands(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
        lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({self.flow.to_json()!r})")
        (folder / f"{self.name}.py").write_text("\n".join(lines))
        for name, value in self.world.environment.items():
            monkeypatch.setenv(name, value)
        return Commands(self.world, folder, monkeypatch)

    def assert_documents_are_the_table(self) -> dict[str, str]:
        """Compare every document with the table, and return its rows."""
        rows = {str(key): value for key, value in self.sql("SELECT id, v FROM t")}
        found = index_documents(self.world.sandbox.address("opensearch"), self.name)
        assert {key: document["v"] for key, document in found.items()} == rows
        return rows

    def assert_sinks_hold_the_table(self) -> None:
        """Compare every document, and the last record of every key, with the table; event ids do not come twice."""
        rows = self.assert_documents_are_the_table()
        last: dict[bytes, str | None] = {}
        ids: list[str] = []
        for message in consume(self.world.sandbox.address("kafka"), self.name):
            value = message.value()
            after = json.loads(value)["after"] if value is not None else None
            last[message.key()] = after["v"] if after else None
            ids += [event_id(message)] if value is not None else []
        assert sorted(value for value in last.values() if value is not None) == sorted(rows.values())
        assert len(ids) == len(set(ids))


def _connected(host: str, port: int) -> Any:
    import pymysql

    return pymysql.connect(host=host, port=port, user="root", autocommit=True, charset="utf8mb4")


def verbs(table: Table, services: Services, former: BinlogOffset) -> dict[str, Callable[[], Any]]:
    """What looks at a log or moves a flow in it."""
    flow = table.flow

    def move(action: Any, target: Target) -> Callable[[], Any]:
        return lambda: mediation.execute(flow, services, action, target, ADA)

    def backfill(start: str, end: str) -> Callable[[], Any]:
        wanted = BackfillRequest(start, end, Aim(Mode.REPLAY, "again"))
        return lambda: preview_backfill(flow, services, wanted, "ada")

    first = f"{former.file}:4"
    return {
        "run": table.run,
        "lag": lambda: measure(flow, services),
        "plan": lambda: preview(flow, services),
        "rewind to a place": move("rewind", Target(first)),
        "rewind to the beginning": move("rewind", Target("earliest")),
        "rewind to a time": move("rewind", Target("2024-01-31T12:00:00")),
        "rewind by GTID": move("rewind", Target(f"gtid:{former.gtids}")),
        "rewind by batches": move("rewind", Target(batches=1)),
        "rewind to an offset": move("rewind", Target(json.dumps(former.to_json()))),
        "skip to a place": move("skip", Target(first)),
        "skip to the head": move("skip", Target("latest")),
        "skip past a gap": move("skip", Target(past_gap=True)),
        "restore": move("restore", Target(entry=1)),
        "backfill": backfill(first, f"{former.file}:{former.pos}"),
    }
