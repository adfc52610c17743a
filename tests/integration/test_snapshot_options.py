"""Options of snapshots and tables added to a flow, on real servers: each row that is meant comes once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from databus import Flow, SnapshotOptions
from databus.binlog.log.capture import TableCapture
from databus.core.errors.source import SnapshotRefusedError
from databus.core.state.snapshot import CaptureScope, Snapshot
from databus.core.state.snapshot_progress import progress_of
from databus.demo.consumers import topic_records
from databus.ops.services import open_services
from databus.ops.snapshots import load_of
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.added_tables import added_tables
from databus.sources.mysql.snapshot.server_load import ServerLoad
from tests.integration.binlog_shop import Shop
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.replicated_pair import Pair
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROWS = 600


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    sandbox = started("zookeeper", "kafka", "mysql", "mariadb")
    return OneProcessWorld(sandbox, tmp_path_factory.mktemp("snapshot_options"))


@pytest.fixture
def table(world: OneProcessWorld, flavor: str) -> Table:
    """A table t of some hundred rows, and one beside it, u, of fifty."""
    made = Table(world, flavor, ROWS)
    made.run(f"CREATE TABLE {made.name}.u (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)")
    made.run(f"INSERT INTO {made.name}.u SELECT id, v FROM {made.name}.t WHERE id < 100")
    return made


def reading(table: Table, *patterns: str, exclude: tuple[str, ...] = (), **options: Any) -> Flow:
    """The flow of some of the tables."""
    flow = table.flow(max_rows=200)
    source = flow.source.model_copy(
        update={
            "tables": tuple(f"{table.name}.{pattern}" for pattern in patterns),
            "exclude_tables": tuple(f"{table.name}.{pattern}" for pattern in exclude),
            **options,
        }
    )
    return flow.model_copy(update={"source": source})


def came(table: Table) -> tuple[Counter[str], dict[tuple[str, int], int]]:
    """Count the records as table.op, and return what they add up to, each event once."""
    ops, state, ids = Counter[str](), dict[tuple[str, int], int](), Counter[str]()
    for _, value in topic_records(table.world.sandbox.address("kafka"), table.name):
        record = json.loads(value or b"{}")
        if not record:
            continue
        name = record["source"]["table"]
        ops[f"{name}.{record['op']}"] += 1
        ids[record["source"]["event_id"]] += 1
        if record["op"] == "d":
            state.pop((name, record["before"]["id"]), None)
        else:
            state[name, record["after"]["id"]] = record["after"]["v"]
    assert max(ids.values()) == 1
    return ops, state


def stands(table: Table, *names: str) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    with table.sql.cursor() as cursor:
        for name in names:
            cursor.execute(f"SELECT id, v FROM {table.name}.{name}")
            found |= {(name, row): v for row, v in cursor.fetchall()}
    return found


def stored(table: Table, flow: Flow) -> Snapshot:
    with open_services(flow, table.world.connections, table.world.settings) as services:
        found = services.store.snapshot(flow.name)
    assert found is not None
    return found


def test_rows_order_size_and_rate_are_as_the_flow_says(table: Table, world: OneProcessWorld) -> None:
    options = SnapshotOptions(
        where={f"{table.name}.t": "id < 800"}, first=(f"{table.name}.u",), chunk_rows=40, max_rows_per_second=150
    )
    flow = reading(table, "*", snapshot_options=options)
    world.run(flow)
    ops, state = came(table)
    assert ops == {"t.r": 400, "u.r": 50}
    assert max(row for name, row in state if name == "t") == 798
    snapshot = stored(table, flow)
    assert [(each.table.rpartition(".")[2], each.where) for each in snapshot.tables] == [("u", ""), ("t", "id < 800")]
    assert [each.chunks for each in snapshot.tables] >= [2, 10]
    assert snapshot.finished_at is not None
    assert (snapshot.finished_at - snapshot.begun_at).total_seconds() >= 450 / 150 - 2


def test_a_table_that_is_added_is_read_by_itself(table: Table, world: OneProcessWorld) -> None:
    first = reading(table, "*", exclude=("u", "w"))
    world.run(first)
    table.run(f"UPDATE {table.name}.u SET v = v + 1 WHERE id < 20")
    world.run(first)  # passes it, and captures nothing of it
    table.run(f"UPDATE {table.name}.u SET v = v + 1 WHERE id >= 80")  # is in the log that the chunks are compared with
    changed = reading(table, "*", exclude=("w",))
    with table.changed():
        world.run(changed, max_batches=3)
    world.run(changed)
    snapshot = stored(table, changed)
    assert (snapshot.number, snapshot.cause, snapshot.unfinished) == (2, "added", False)
    assert [each.table for each in snapshot.tables] == [f"{table.name}.u"]
    ops, state = came(table)
    assert (ops["u.r"] + snapshot.tables[0].superseded, ops["u.u"]) == (50, 10)
    assert state == stands(table, "t", "u")

    table.run(f"CREATE TABLE {table.name}.later (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)")
    table.run(f"INSERT INTO {table.name}.later VALUES (1, 1), (2, 2)")
    world.run(changed)
    ops, state = came(table)
    assert (ops["later.c"], ops["later.r"], stored(table, changed)) == (2, 0, snapshot)  # the log has all its rows
    assert state == stands(table, "t", "u", "later")

    table.run(f"CREATE TABLE {table.name}.w (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)")
    table.run(f"INSERT INTO {table.name}.w VALUES (1, 1)")
    world.run(changed)
    world.run(reading(table, "*", snapshot="never"))
    world.run(reading(table, "*"))
    ops, _ = came(table)
    assert (ops["w.r"], stored(table, changed)) == (0, snapshot)


def test_a_table_that_is_added_while_a_snapshot_is_unfinished_is_its_last(table: Table, world: OneProcessWorld) -> None:
    world.run(reading(table, "t"), max_batches=1)
    changed = reading(table, "t", "u", snapshot_options=SnapshotOptions(chunk_rows=30))
    with table.changed():
        world.run(changed, max_batches=4)
    world.run(changed)
    snapshot = stored(table, changed)
    assert (snapshot.number, snapshot.cause, snapshot.unfinished) == (1, "initial", False)
    assert [each.table.rpartition(".")[2] for each in snapshot.tables] == ["t", "u"]
    ops, state = came(table)
    assert ops["u.r"] == 50
    assert state == stands(table, "t", "u")


def test_an_added_table_that_the_account_does_not_see_is_refused_by_name(shop: Shop, tmp_path: Path) -> None:
    monitor = "REPLICATION CLIENT" if shop.flavor == "mysql" else "BINLOG MONITOR"
    shop.sql(
        *(f"CREATE TABLE {shop.name}.{table} (id INT PRIMARY KEY, v INT)" for table in "abc"),
        f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{shop.name}'@'%'",
        f"GRANT SELECT ON {shop.name}.c TO '{shop.name}'@'%'",
    )
    own = {"login": shop.name, "password": SecretStr("secret")}
    server = MysqlServer(shop.connection.model_copy(update=own))
    before, capture = CaptureScope((f"{shop.name}.a",)), TableCapture(tuple(f"{shop.name}.{t}" for t in "abc"))
    try:
        with pytest.raises(SnapshotRefusedError, match=f"SELECT on {shop.name}.b") as refused:
            added_tables(server, capture, before, None)
        assert refused.value.code == "source_access_denied"
        shop.sql(refused.value.hint.partition(";")[0])
        found = added_tables(server, capture, before, None)
    finally:
        server.close()
    assert [table.table for table in found] == [f"{shop.name}.b", f"{shop.name}.c"]


def test_chunks_wait_while_the_server_is_busy_and_the_stream_goes_on(table: Table, world: OneProcessWorld) -> None:
    with table.sql.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_running'")
        bound = int(cursor.fetchall()[0][1]) + 4
    flow = reading(table, "t", snapshot_options=SnapshotOptions(pause_above_threads_running=bound))
    sessions = [table.connect() for _ in range(bound + 1)]
    numbers = [session.thread_id() for session in sessions]

    def sleep(session: Any) -> None:
        with suppress(Exception), session.cursor() as cursor:
            cursor.execute("SELECT SLEEP(120)")

    threads = [threading.Thread(target=sleep, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    try:
        world.run(flow, max_batches=1, max_seconds=2)
        table.run(f"INSERT INTO {table.name}.t (id, v) VALUES (1, 1)")
        world.run(flow, max_seconds=3)
        assert came(table)[0] == {"t.c": 1}
        held = stored(table, flow)
        assert (held.unfinished, [each.chunks for each in held.tables]) == (True, [0])
        with open_services(flow, world.connections, world.settings) as services:
            load = load_of(flow, services, held)
        assert load.startswith("Threads_running ")
        assert load.endswith(f" > {bound}")
        assert progress_of(held, datetime.now(UTC), waits=load).text.endswith(f", waits: {load}")
    finally:
        table.run(*(f"KILL {number}" for number in numbers))
        for thread in threads:
            thread.join(30)
    world.run(flow)
    assert came(table)[0] == {"t.c": 1, "t.r": ROWS + 1}
    assert not stored(table, flow).unfinished


def test_the_lag_of_a_replica_is_told(pair_of: Callable[[str], Pair], flavor: str) -> None:
    pair = pair_of(flavor)
    pair.reset()
    pair.link()
    word = "REPLICA" if flavor == "mysql" else "SLAVE"
    replica = pair.replica.connection
    options = SnapshotOptions(pause_above_replica_lag=timedelta(seconds=1), replicas=(replica.conn_id,))
    times = count(0, 100)
    load = ServerLoad(
        MysqlServer(pair.source.connection), {replica.conn_id: replica}, options, lambda: float(next(times))
    )
    pair.source.sql("CREATE DATABASE lagging", "CREATE TABLE lagging.t (id INT PRIMARY KEY)")
    locking = pair.replica.session()
    try:
        assert eventually(load, "") == ""
        with locking.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
        pair.source.sql("INSERT INTO lagging.t VALUES (1)")
        assert eventually(load, " s behind > 1 s").startswith(f"replica {replica.conn_id} is ")
        with locking.cursor() as cursor:
            cursor.execute("UNLOCK TABLES")
        assert eventually(load, "") == ""
        pair.replica.sql(f"STOP {word}")
        assert eventually(load, "does not replicate") == f"replica {replica.conn_id} does not replicate"
    finally:
        locking.close()
        load.close()
        pair.replica.sql(f"STOP {word}", f"RESET {word} ALL")
        pair.source.sql("DROP DATABASE lagging")
    away = {replica.conn_id: replica.model_copy(update={"port": 1})}
    gone = ServerLoad(MysqlServer(pair.source.connection), away, options)
    assert f"the lag of replica {replica.conn_id} is not known" in gone.excess()


def eventually(load: ServerLoad, wanted: str) -> str:
    """Return what is said of the load once it ends in a text, "" for nothing; what is said then after half a minute."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        said = load.excess()
        if said == wanted or (wanted and said.endswith(wanted)):
            return said
        time.sleep(0.2)
    return load.excess()
