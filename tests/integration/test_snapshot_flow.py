"""Flows that begin with the rows that are there, under writes and through kills: each row once, none missing."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog, SnapshotOptions
from databus.core.flow_specs import FlowContext
from databus.demo.consumers import topic_records
from databus.ops import snapshots
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import looked
from databus.ops.health.lag import measure
from databus.ops.services import open_services
from databus.sandbox.accounts import ROOT
from databus.sources.mysql.snapshot import snapshot_reader
from tests.beside import beside
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROWS = 5_000


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    sandbox = started("zookeeper", "kafka", "mysql", "mariadb")
    return OneProcessWorld(sandbox, tmp_path_factory.mktemp("snapshot_world"))


class Table:
    """A table with rows from before the flow, on one kind of server, and who changes it."""

    def __init__(self, world: OneProcessWorld, flavor: str, rows: int = ROWS):
        self.world, self.flavor = world, flavor
        self.name = f"snap_{flavor}_{os.getpid()}_{random.randrange(1 << 30)}"
        self.sql = self.connect()
        self._random = random.Random(7)
        self.run(
            f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4",
            f"CREATE TABLE {self.name}.t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, name VARCHAR(40), at DATETIME(6))",
        )
        with self.sql.cursor() as cursor:
            values = [(2 * n, 0, f"row {n}") for n in range(rows)]
            cursor.executemany(f"INSERT INTO {self.name}.t (id, v, name) VALUES (%s, %s, %s)", values)

    def connect(self) -> pymysql.connections.Connection[Any]:
        host, port = self.world.sandbox.address(self.flavor).split(":")
        return pymysql.connect(host=host, port=int(port), user=ROOT.user, password="", autocommit=True)

    def run(self, *statements: str) -> None:
        with self.sql.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def flow(self, snapshot: Any = None, snapshots: SnapshotOptions | None = None, **options: Any) -> Flow:
        begins = {} if snapshot is None else {"snapshot": snapshot}
        return Flow(
            name=self.name,
            source=MysqlBinlog(
                conn_id=f"{self.flavor}_shop", tables=(f"{self.name}.*",), snapshot_options=snapshots, **begins
            ),
            sinks=(Kafka(conn_id="kafka_east", topic=self.name, slots=2),),
            batching=Batching(max_wait=timedelta(seconds=0.2), **options),
        )

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Change rows, keys among them, until the block ends."""
        with closing(self.connect()) as own, own.cursor() as cursor, beside(lambda _: self._change(cursor)):
            yield

    def _change(self, cursor: Any) -> None:
        table, chance = f"{self.name}.t", self._random.random()
        one, other = (self._random.randrange(2 * ROWS + 200) for _ in range(2))
        cursor.execute("BEGIN")
        if chance < 0.5:
            cursor.execute(f"UPDATE {table} SET v = v + 1 WHERE id = {one}")
        elif chance < 0.7:
            cursor.execute(f"INSERT IGNORE INTO {table} (id, v) VALUES ({one}, 1)")
        elif chance < 0.85:
            cursor.execute(f"UPDATE IGNORE {table} SET id = {other}, v = v + 1 WHERE id = {one}")
        else:
            cursor.execute(f"DELETE FROM {table} WHERE id = {one}")
        cursor.execute("COMMIT")

    def stands(self) -> dict[int, int]:
        with self.sql.cursor() as cursor:
            cursor.execute(f"SELECT id, v FROM {self.name}.t")
            return dict(cursor.fetchall())

    def arrived(self) -> tuple[dict[int, int], Counter[str], Counter[str]]:
        """Return what the records add up to, how often each event id came, and operations."""
        state: dict[int, int] = {}
        ids: Counter[str] = Counter()
        ops: Counter[str] = Counter()
        for key, value in topic_records(self.world.sandbox.address("kafka"), self.name):
            if value is None:
                continue
            record = json.loads(value, parse_float=Decimal)
            ids[record["source"]["event_id"]] += 1
            ops[record["op"]] += 1
            number = json.loads(key or b"")["id"]
            if record["op"] == "d":
                state.pop(number, None)
            else:
                if record["op"] == "r":  # a row that changed before it was read says what its last change said
                    assert state.get(number, record["after"]["v"]) == record["after"]["v"]
                state[number] = record["after"]["v"]
        return state, ids, ops

    def assert_arrived(self) -> Counter[str]:
        state, ids, ops = self.arrived()
        assert state == self.stands()
        assert max(ids.values()) == 1
        return ops


def test_rows_from_before_the_flow_come_once(world: OneProcessWorld, flavor: str) -> None:
    table = Table(world, flavor)
    flow = table.flow()
    world.run(flow)
    ops = table.assert_arrived()
    assert ops == {"r": ROWS}
    with open_services(flow, world.connections, world.settings) as services:
        snapshot = services.store.snapshot(flow.name)
    assert snapshot is not None
    assert snapshot.finished_at is not None
    assert sum(each.rows for each in snapshot.tables) == ROWS


def test_rows_change_while_they_are_read(world: OneProcessWorld, flavor: str) -> None:
    table = Table(world, flavor)
    flow = table.flow(max_rows=700)
    with table.changed():
        world.run(flow, max_batches=12)
    world.run(flow)
    ops = table.assert_arrived()
    assert 0 < ops["r"] <= ROWS
    assert ops["u"]
    with open_services(flow, world.connections, world.settings) as services:
        snapshot = services.store.snapshot(flow.name)
    assert snapshot is not None
    assert snapshot.finished_at is not None
    assert sum(each.rows for each in snapshot.tables) == ops["r"]
    assert sum(each.superseded for each in snapshot.tables) > 0


def test_rows_alone_and_what_was_logged_since_once_they_are_read_again(world: OneProcessWorld, flavor: str) -> None:
    table = Table(world, flavor)
    flow = table.flow("only")
    assert world.run(flow).batches
    assert table.assert_arrived() == {"r": ROWS}
    table.run(f"UPDATE {table.name}.t SET v = 7 WHERE id = 2", f"DELETE FROM {table.name}.t WHERE id = 4")
    standing = world.checkpoint(flow)
    told = world.run(flow)
    assert (told.batches, told.lag_bytes, told.headroom) == (0, 0, None)
    assert world.checkpoint(flow) == standing
    with open_services(flow, world.connections, world.settings) as services:
        found = measure(flow, services)
        assert found.lag is not None
        assert found.lag.caught_up
        source = flow.source.open(services.connections, FlowContext(flow.name, services.settings))
        at = standing.offset.to_json()
        place = looked(flow, services, source, standing, f"{at['file']}:{at['pos']}")  # as of any flow
        assert place.to_json()["pos"] == at["pos"]
        source.close()
        snapshots.begin(flow, services, snapshots.proposed(flow, services), Attribution("ada", "a new consumer"))
    world.run(flow)
    ops = table.assert_arrived()
    assert (ops["u"], ops["d"]) == (1, 1)
    assert ops["r"] == 2 * ROWS - 2


def test_views_side_by_side_while_rows_change(
    world: OneProcessWorld, flavor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, views, wrote = Table(world, flavor), set[int](), snapshot_reader._read

    def read(view: Any, *more: Any) -> Any:
        views.add(id(view))
        time.sleep(0.01)  # the views are of different moments, and the next ones are open while rows are delivered
        return wrote(view, *more)

    monkeypatch.setattr(snapshot_reader, "_read", read)
    flow = table.flow(snapshots=SnapshotOptions(threads=3), max_rows=700)
    with table.changed():
        world.run(flow, max_batches=4)
        world.run(flow, max_batches=4)  # what the first one had read ahead is read anew
    world.run(flow)
    ops = table.assert_arrived()
    assert ops["r"]
    assert ops["u"]
    assert len(views) > 6
    with open_services(flow, world.connections, world.settings) as services:
        snapshot = services.store.snapshot(flow.name)
    assert snapshot is not None
    assert snapshot.finished_at is not None
    assert sum(each.superseded for each in snapshot.tables) > 0
    assert not list(Path(world.settings.segment_store).glob(f"{flow.name}/*/chunks/*"))
