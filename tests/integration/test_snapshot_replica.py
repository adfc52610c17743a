"""Snapshots that are read from a replica of the source: on real servers, while it lags, lies, and rows change."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Flow, Kafka, MysqlBinlog, SnapshotOptions
from databus.core.connections import Connection
from databus.core.errors.source import SnapshotRefusedError
from databus.core.findings import Level
from databus.core.flow_specs import FlowContext
from databus.core.settings import Settings
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.demo.consumers import topic_records
from databus.ops.decode.row_lines import plain_rows
from databus.ops.services import open_services
from databus.sources.mysql.replica_rules import REPLICA_SETTINGS, REPLICA_STATUS, replica_faults
from databus.sources.mysql.server import MysqlServer, ask_known
from databus.sources.mysql.snapshot import chunk_planning, snapshot_reader
from databus.sources.mysql.snapshot.server_load import ServerLoad
from databus.sources.mysql.snapshot.views import replica_view
from databus.sources.mysql.snapshot.views.consistent_view import ConsistentView
from databus.sources.mysql.snapshot.views.view_session import ViewSession
from databus.sources.mysql.source import MysqlBinlogSource
from tests.beside import beside
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.replicated_pair import Pair, Server

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NAME = "replicated"
SNAPSHOT = Snapshot(1, "request", datetime(2024, 1, 31, tzinfo=UTC), (TableProgress(f"{NAME}.t"),))
ROWS, CHUNK = 400, 50


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka"), tmp_path_factory.mktemp("snapshot_replica"))


@pytest.fixture
def pair(pair_of: Callable[[str], Pair], flavor: str) -> Iterator[Pair]:
    """A source with a table of three rows, and its replica, which has them."""
    pair = pair_of(flavor)
    pair.reset()
    pair.link()
    pair.source.sql(
        f"CREATE DATABASE {NAME}",
        f"CREATE TABLE {NAME}.t (id INT PRIMARY KEY, v INT NOT NULL)",
        f"INSERT INTO {NAME}.t VALUES (1, 0), (2, 0), (3, 0)",
    )
    pair.replica_has(executed(pair.source))
    yield pair
    pair.replica.sql(f"STOP {word(pair)}", f"DROP DATABASE IF EXISTS {NAME}")
    pair.source.sql(f"DROP DATABASE {NAME}")
    pair.reset()


def word(pair: Pair) -> str:
    return "REPLICA" if pair.source.flavor == "mysql" else "SLAVE"


def executed(server: Server) -> str:
    variable = {"mysql": "gtid_executed", "mariadb": "gtid_binlog_pos"}[server.flavor]
    return str(server.sql(f"SELECT @@GLOBAL.{variable}")[0][0])


class Reading:
    """A source of the pair whose rows are read from the replica."""

    def __init__(self, pair: Pair, folder: Path):
        self._found = {
            "shop": pair.source.connection,
            "replica": pair.replica.connection.model_copy(update={"conn_id": "replica"}),
        }
        spec = MysqlBinlog(
            conn_id="shop", tables=(f"{NAME}.*",), snapshot_options=SnapshotOptions(read_from="replica"),
            snapshot="never", start="latest",
        )  # fmt: skip
        opened = spec.open(self, FlowContext("reading", Settings("test", str(folder / "segments"), "")))
        assert isinstance(opened, MysqlBinlogSource)
        self.source = opened

    def get(self, conn_id: str) -> Connection:
        return self._found[conn_id]

    def standing(self) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Channels and settings of the replica, as a view's session is told of them."""
        at = self._found["replica"]
        session = ViewSession(at, self.source._server.flavor, self.source.latest_offset(), 1.0, replica=True)
        try:
            shown = ask_known(session.server.query_named, REPLICA_STATUS[session.flavor])[1]
            return shown, session.server.variables(*REPLICA_SETTINGS)
        finally:
            session.server.close()

    def rows(self) -> list[tuple[str, int, int]] | None:
        """Read the table beside the head of the log; return op, id and v of each row, None where none can be read."""
        planned = self.source.plan_chunks(self.source.latest_offset(), SNAPSHOT, Batching())
        if planned is None:
            return None
        found = [
            (row["op"], row["after"]["id"], row["after"]["v"])
            for split in self.source.splits(planned[0], 1)
            for batch in split.read()
            for row in plain_rows(batch)
        ]
        self.source.release(planned[0])
        return found


@pytest.fixture
def reading(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    monkeypatch.setattr(snapshot_reader, "REPLICA_WAIT_S", 0.5)
    monkeypatch.setattr(chunk_planning, "PAUSE_S", 0.0)
    made = Reading(pair, tmp_path)
    yield made
    made.source.close()


def test_a_view_of_a_replica_covers_the_checkpoint_and_the_log_covers_the_view(
    pair: Pair, reading: Reading, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert [f.message for f in reading.source.snapshot_findings() if f.level is Level.ERROR] == []
    source = MysqlServer(pair.source.connection)
    by_now = ServerLoad(source, {"shop": pair.source.connection}, SnapshotOptions(read_from="shop"))
    assert by_now.excess() == ""  # as behind a failover to the replica: it replicates from nobody
    by_now.close()
    source.close()
    pair.replica.sql(f"STOP {word(pair)} SQL_THREAD")
    pair.source.sql(f"UPDATE {NAME}.t SET v = 1 WHERE id = 1")
    assert reading.rows() is None
    assert "the replica has not executed the checkpoint" in caplog.text
    assert reading.source.snapshot_load() == "replica replica does not replicate"
    pair.replica.sql(f"START {word(pair)} SQL_THREAD")
    pair.replica_has(executed(pair.source))
    assert reading.rows() == [("r", 1, 1), ("r", 2, 0), ("r", 3, 0)]

    # What the replica shows beyond the checkpoint is in the batch's range of the source's log.
    opened = ConsistentView._open

    def changed_before(view: ConsistentView, session: Any) -> None:
        pair.source.sql(f"UPDATE {NAME}.t SET v = 2 WHERE id = 2")
        pair.replica_has(executed(pair.source))
        opened(view, session)

    ended = replica_view.require_nothing_of_its_own

    def changed_behind(*servers: Any) -> None:
        pair.source.sql(f"UPDATE {NAME}.t SET v = 3 WHERE id = 3")
        ended(*servers)

    with monkeypatch.context() as patched:
        patched.setattr(ConsistentView, "_open", changed_before)
        patched.setattr(snapshot_reader, "require_nothing_of_its_own", changed_behind)
        assert reading.rows() == [("r", 1, 1), ("u", 2, 2), ("u", 3, 3)]


def test_a_replica_that_holds_something_else_is_not_read(
    pair: Pair, reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    replica = pair.replica
    replica.sql("SET SESSION sql_log_bin = 0", f"ALTER TABLE {NAME}.t ADD COLUMN extra INT")
    assert reading.rows() is None
    assert f"{NAME}.t is defined otherwise at the replica" in caplog.text
    replica.sql(f"DROP TABLE {NAME}.t")
    assert reading.rows() is None  # not "gone": the source has it
    replica.sql(
        f"CREATE TABLE {NAME}.t (id INT PRIMARY KEY, v INT NOT NULL)",
        f"INSERT INTO {NAME}.t VALUES (1, 0), (2, 0), (3, 0)",
        "SET SESSION sql_log_bin = 1",
    )
    assert reading.rows() == [("r", 1, 0), ("r", 2, 0), ("r", 3, 0)]

    def filtered(names: str) -> None:
        replica.sql(f"STOP {word(pair)}" + (" SQL_THREAD" if replica.flavor == "mysql" else ""))
        if replica.flavor == "mysql":
            replica.sql(f"CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = ({names})")
        else:
            replica.sql(f"SET GLOBAL replicate_ignore_db = '{names}'")
        replica.sql(f"START {word(pair)}")

    # Writes without a log, and a server in between: both as the servers themselves tell it.
    shown, settings = reading.standing()
    assert replica_faults(replica.flavor, settings, shown, reading.source._server.identity) == []
    (between,) = replica_faults(replica.flavor, settings, shown, "7")
    assert between.lasts
    assert reading.source._server.identity in between.message
    (unlogged,) = replica_faults(replica.flavor, {**settings, "log_bin": "OFF"}, shown, "")
    assert unlogged.what == "log_bin"

    filtered("elsewhere")
    try:
        with pytest.raises(SnapshotRefusedError, match="replicate_ignore_db=elsewhere"):
            reading.rows()
    finally:
        filtered("")
    assert reading.rows() is not None
    replica.sql(f"INSERT INTO {NAME}.t VALUES (4, 0)")
    with pytest.raises(SnapshotRefusedError, match="the replica has transactions that"):
        reading.rows()


def test_a_flow_is_right_while_its_replica_lags(pair: Pair, flavor: str, world: OneProcessWorld) -> None:
    topic = f"replica{os.getpid()}_{flavor}"
    for server, conn_id in ((pair.source, topic), (pair.replica, f"{topic}_replica")):
        at = server.connection
        found = {"conn_type": "mysql", "host": at.host, "port": at.port, "login": at.login}
        world.environment[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(found)
    pair.source.sql(f"INSERT INTO {NAME}.t VALUES " + ", ".join(f"({number}, 0)" for number in range(4, ROWS)))
    flow = Flow(
        name=topic,
        source=MysqlBinlog(
            conn_id=topic, tables=(f"{NAME}.*",),
            snapshot_options=SnapshotOptions(chunk_rows=CHUNK, read_from=f"{topic}_replica"),
        ),
        sinks=(Kafka(conn_id="kafka_east", topic=topic),),
        batching=Batching(max_rows=CHUNK, max_wait=timedelta(seconds=0.2)),
    )  # fmt: skip
    with _changed(pair.source), _held_up(pair.replica):
        done, runs = False, 0
        while not done and runs < 40:
            world.run(flow, max_batches=2)
            runs += 1
            with open_services(flow, world.connections, world.settings) as services:
                stored = services.store.snapshot(flow.name)
            done = stored is not None and not stored.unfinished
    assert done
    world.run(flow)

    state: dict[int, int] = {}
    newest: dict[int, int] = {}
    read: set[int] = set()
    for key, value in topic_records(world.sandbox.address("kafka"), topic):
        if value is None:
            continue
        record, number = json.loads(value), json.loads(key or b"")["id"]
        if record["op"] == "d":
            state.pop(number, None)
            continue
        v = record["after"]["v"]
        if record["op"] == "r":
            assert number not in read
            read.add(number)
        assert v >= newest.get(number, 0)
        assert record["op"] != "r" or state.get(number, v) == v
        newest[number] = state[number] = v
    assert state == dict(pair.source.sql(f"SELECT id, v FROM {NAME}.t"))
    assert len(read) > ROWS / 2


@contextmanager
def _changed(source: Server) -> Iterator[None]:
    """Change rows and move their keys, each change with a number of its own, until the block ends."""
    chance, numbers = random.Random(7), itertools.count(1)
    with closing(source.session()) as session, session.cursor() as cursor:

        def write(_stop: threading.Event) -> None:
            one, other = chance.randrange(ROWS), chance.randrange(2 * ROWS)
            changed = f"UPDATE IGNORE {NAME}.t SET v = {next(numbers)}"
            moved = f", id = {other}" if chance.random() < 0.3 else ""
            cursor.execute(f"{changed}{moved} WHERE id = {one}")

        with beside(write):
            yield


@contextmanager
def _held_up(replica: Server) -> Iterator[None]:
    """Let the replica execute nothing for a moment, again and again, until the block ends."""
    with closing(replica.session()) as session, session.cursor() as cursor:

        def hold(stop: threading.Event) -> None:
            if stop.wait(0.2):
                return
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            time.sleep(0.3)
            cursor.execute("UNLOCK TABLES")

        with beside(hold):
            yield
