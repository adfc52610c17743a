"""A log that was replaced under a flow: every verb says so, and the flow goes on with the new one without old rows."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.binlog.segments.kept_segments import KeptSegments
from databus.core.errors import (
    CheckpointUnavailableError,
    ConfigError,
    OffsetPurgedError,
    SinkError,
    SourceDivergedError,
)
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset, Ordering
from databus.core.positions.replaced_logs import REPLACED
from databus.core.state.backfill import Aim, Mode
from databus.core.state.ledger import SpanState
from databus.core.trace import log_of
from databus.demo.consumers import index_documents
from databus.ops.backfill.run import BackfillRequest
from databus.ops.backfill.run import preview as preview_backfill
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.preview import CheckpointMove
from databus.ops.checkpoint.targets import Target
from databus.ops.health.lag import measure
from databus.ops.health.preflight import preflight
from databus.ops.ledger.verify import verify
from databus.ops.runs.preview import preview
from databus.ops.services import open_services
from databus.ops.trace.follow import trace
from databus.ops.trace.query import recognise
from databus.runtime import batch as batch_module
from databus.runtime.context import Services
from databus.sandbox import Sandbox
from databus.sources.mysql.source import MysqlBinlogSource
from tests.integration.binlog_shop import Shop
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import OneProcessWorld

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
ADA = Attribution("ada", "RESET MASTER on the old primary")
NEW_LOG = Target(new_log=True)
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "opensearch"), tmp_path_factory.mktemp("log_replaced"))


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


@pytest.fixture
def table(world: OneProcessWorld, databases: Sandbox, flavor: str) -> Iterator[Table]:
    made = Table(world, databases, flavor)
    yield made
    made.sql(f"DROP DATABASE {made.name}")
    made.connection.close()


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


@pytest.mark.parametrize("longer", [False, True], ids=["a shorter log", "a longer log"])
def test_a_log_that_was_replaced_is_named_by_every_verb_and_gone_on_with_knowingly(table: Table, longer: bool) -> None:
    table.insert(0, 60)
    table.run()
    former = table.offset()
    with table.services() as services, pytest.raises(ConfigError, match="none has replaced it"):
        mediation.preview(table.flow, services, "skip", NEW_LOG)
    table.replace_log()
    table.sql(
        "UPDATE t SET v = 'new' WHERE id < 10", "DELETE FROM t WHERE id = 20", "INSERT INTO t VALUES (500, 'new')"
    )
    if longer:
        table.insert(600, 700, "new")
    with table.services() as services:
        for verb, call in verbs(table, services, former).items():
            with pytest.raises(SourceDivergedError, match="the log was replaced") as caught:
                call()
            assert f"skip {table.name} --new-log" in caught.value.hint, verb
        told = [f for f in preflight(table.flow, services) if f.level is Level.ERROR]
        assert {f.code for f in told} == {"source_diverged"}
        looked = mediation.preview(table.flow, services, "skip", NEW_LOG)
        assert table.offset() == former
        assert not services.store.gaps(table.name)
    moved = table.go_on()
    assert (moved.back, moved.new_log, moved.end) == (False, True, looked.end)
    on_it = table.offset()
    assert (on_it.timeline, on_it.generation, on_it.pos) == (former.timeline + 1, 1, 4)
    table.run()
    table.assert_sinks_hold_the_table()
    with table.services() as services:
        (gap,) = services.store.gaps(table.name)
        assert (gap.start, gap.end, gap.cause, gap.who) == (former, on_it, REPLACED, ADA.who)
        found = verify(table.flow, services, None)
        assert [str(problem) for problem in found.problems] == []
        ledger = found.state.ledger
        moved_rows = SpanState.DISPATCHED
        assert list(dict.fromkeys(s.state for s in ledger.spans if s.tables or s.cause)) == [moved_rows, SpanState.GAP]
        assert ledger.spans[-1].state is moved_rows
        assert (ledger.replayed, ledger.tables[f"{table.name}.t"].read) == (0, 72 + (100 if longer else 0))
        # Places of the former log are refused by name, those of the new one are places as ever.
        for target in (Target(entry=1), Target(json.dumps(former.to_json()))):
            with pytest.raises(SourceDivergedError, match="of a log that was replaced since"):
                mediation.preview(table.flow, services, "restore", target)
        mediation.execute(table.flow, services, "rewind", Target(batches=1), ADA)
        assert table.offset().generation == 1
    table.run()
    table.insert(900, 905, "new")
    table.run()
    table.assert_documents_are_the_table()


def test_a_log_that_is_replaced_again_and_again_by_the_command(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = table.commands(tmp_path, monkeypatch)
    asked = ("checkpoint", "skip", table.name, "--new-log")
    table.insert(0, 20)
    for number in (1, 2):
        table.sql(f"UPDATE t SET v = 'before {number}'")
        table.run()
        table.replace_log()
        table.sql(f"UPDATE t SET v = 'after {number}' WHERE id > 10", f"DELETE FROM t WHERE id = {number}")
        seen = _ids(command("peek", table.name, "--from", "earliest", "-n", "99").stdout)
        shown = command.json(*asked)
        assert (shown["done"], shown["direction"], shown["bytes"]) == (False, "forward", None)
        assert "versions above all earlier ones" in shown["new_log"]
        assert command(*asked, "--reason", "reset", "--execute").exit_code == 0
        assert (table.offset().timeline, table.offset().generation) == (number, number)
        first = table.offset()
        table.run()
        table.assert_sinks_hold_the_table()
        _assert_peeked_as_moved(table, command, first, seen)


def _ids(lines: str) -> list[str]:
    return [json.loads(line)["event_id"] for line in lines.splitlines()]


def _assert_peeked_as_moved(table: Table, command: Commands, first: BinlogOffset, seen: list[str]) -> None:
    """Changes that are looked at have the ids under which the topic holds them, however their place is named."""
    topic = {event_id(message) for message in consume(table.world.sandbox.address("kafka"), table.name)}
    assert len(seen) == len(topic & set(seen))
    assert all(one.startswith(f"log{first.generation}/") for one in seen)
    for place in ("earliest", "2024-01-31T12:00:00", str(first), json.dumps(first.to_json())):
        assert _ids(command("peek", table.name, "--from", place, "-n", "99").stdout) == seen, place
    former = json.dumps(replace(first, generation=first.generation - 1).to_json())
    with pytest.raises(SourceDivergedError, match="of a log that was replaced since"):
        command("peek", table.name, "--from", former)


@pytest.mark.parametrize("flavor", ["mysql"])
@pytest.mark.parametrize("ended", [False, True], ids=["the batch is closed", "a run ends the batch first"])
def test_a_way_onto_the_new_log_that_is_cut_off_is_taken_again(
    table: Table, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """A batch stands half written when the log is replaced; the move is cut off before the checkpoint is written."""
    table.insert(0, 20)
    table.run()
    before = table.offset()
    table.insert(20, 40)
    with monkeypatch.context() as killed:
        killed.setattr(batch_module, "commit", _fail)
        with pytest.raises(SinkError, match="killed here"):
            table.run()
    table.replace_log()
    table.sql("UPDATE t SET v = 'new' WHERE id IN (5, 25)", "DELETE FROM t WHERE id IN (6, 26)")
    if ended:
        with pytest.raises(SourceDivergedError, match="the log was replaced"):
            table.run()
        assert table.offset().compare(before) is Ordering.AFTER
        before = table.offset()
    with table.services() as services:
        with monkeypatch.context() as cut:
            cut.setattr(services.store, "amend", _cut_off)
            with pytest.raises(CheckpointUnavailableError):
                mediation.execute(table.flow, services, "skip", NEW_LOG, ADA)
        assert services.store.load(table.name).offset == before  # type: ignore[union-attr]
        move, _ = mediation.execute(table.flow, services, "skip", NEW_LOG, ADA)
        assert (move.pending is None) is ended
        assert len(services.store.gaps(table.name)) == 1
    table.run()
    table.assert_sinks_hold_the_table()
    with table.services() as services:
        assert [str(problem) for problem in verify(table.flow, services, None).problems] == []


def test_what_the_former_log_still_held_is_mended_by_the_tables(table: Table) -> None:
    table.insert(0, 20)
    table.run()
    table.sql("UPDATE t SET v = 'lost' WHERE id < 5")
    table.insert(20, 25, "lost")
    table.replace_log()
    table.sql("UPDATE t SET v = 'new' WHERE id = 7")
    with table.services() as services:
        mediation.execute(table.flow, services, "skip", NEW_LOG, ADA, repair=True)
        assert [gap.decision for gap in services.store.gaps(table.name)] == ["being mended by snapshot 1"]
    table.run()
    table.assert_sinks_hold_the_table()
    with table.services() as services:
        (gap,) = services.store.gaps(table.name)
        assert (gap.cause, gap.decision) == (REPLACED, "mended by snapshot 1")
        assert [str(problem) for problem in verify(table.flow, services, None).problems] == []


def _deletes(sql: Callable[..., Any]) -> None:
    """Let the server begin a new file and delete those before it."""
    sql("FLUSH BINARY LOGS")
    newest, deadline = sql("SHOW BINARY LOGS")[-1][0], time.monotonic() + 20
    while sql("SHOW BINARY LOGS")[0][0] != newest:
        assert time.monotonic() < deadline, newest
        sql(f"PURGE BINARY LOGS TO '{newest}'")  # MariaDB keeps a file until its engines passed a checkpoint


@pytest.mark.parametrize("told", [True, False], ids=["GTIDs show it", "nothing shows it"])
def test_a_replaced_log_that_has_deleted_the_flows_file_is_not_taken_for_a_purged_one(table: Table, told: bool) -> None:
    table.insert(0, 20)
    table.run()
    former = table.offset()
    table.replace_log()
    table.insert(100, 110, "new")
    if told:
        _deletes(table.sql)
    table.insert(200, 240, "new")
    if not told:
        _deletes(table.sql)
    table.sql("DELETE FROM t WHERE id = 3", "UPDATE t SET v = 'newer'")
    with table.services() as services:
        past_gap = verbs(table, services, former)["skip past a gap"]
        if told:
            for call in (table.run, past_gap, lambda: measure(table.flow, services)):
                with pytest.raises(SourceDivergedError, match="the log was replaced") as caught:
                    call()
                assert "--new-log" in caught.value.hint
        else:
            with pytest.raises(OffsetPurgedError, match="was deleted from the server") as purged:
                table.run()
            assert "--new-log instead of --past-gap" in purged.value.hint
        assert table.offset() == former
    table.go_on()
    assert (table.offset().timeline, table.offset().generation) == (former.timeline + 1, 1)
    table.run()
    table.assert_sinks_hold_the_table()
    with table.services() as services:
        assert services.store.gaps(table.name)[-1].cause == REPLACED
    if told:
        _both_logs_are_traced(table, former)
    with table.services() as services:
        assert [str(problem) for problem in verify(table.flow, services, None).problems] == []


def _both_logs_are_traced(table: Table, former: BinlogOffset) -> None:
    """Both logs have a fifteenth transaction, which inserted another row in each."""

    def traced(text: str) -> list[tuple[int, str]]:
        where = table.world.connections, table.world.settings
        found = trace(recognise(text), [table.flow], where)
        assert all(any(seen.kind == "record" for seen in journey.sightings) for journey in found)
        return [(log_of(journey.change.event_id), str(journey.change.key)) for journey in found]

    here, before = (1, '{"id":204}'), (0, '{"id":14}')
    gtid = f"{former.server}:15" if former.flavor == "mysql" else f"0-{former.server}-15"
    assert traced(gtid) == [here, before]
    assert traced(f"log1/{gtid}:0:0") == [here, before]
    assert traced(f"{gtid}:0:0") == [before, here]


def test_a_purge_of_the_same_log_goes_on_being_told_as_one(shop: Shop) -> None:
    """GTIDs that are in no file of the log (set by hand), of several domains, of a domain that is deleted from it."""
    shop.sql("RESET MASTER")
    if shop.flavor == "mysql":
        shop.sql("SET GLOBAL gtid_purged = '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-50'")
    shop.sql(f"USE {shop.name}", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    if shop.flavor == "mariadb":
        shop.sql("SET gtid_domain_id = 7", "INSERT INTO t VALUES (7)", "SET gtid_domain_id = 9")
        shop.sql("INSERT INTO t VALUES (9)", "SET gtid_domain_id = 0")
    source = shop.open(start="latest")
    standing = source.start_offset()
    assert standing.gtids.count(",") == (1 if shop.flavor == "mysql" else 2)
    shop.sql("INSERT INTO t VALUES (2)")
    _deletes(shop.sql)
    looked = [_purge_told(shop, standing)]
    if shop.flavor == "mariadb":
        shop.sql("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (9)", "SET gtid_domain_id = 7", "INSERT INTO t VALUES (17)")
        looked.append(_purge_told(shop, standing))
    assert all("missing" in message for message in looked)


def test_another_flow_that_goes_on_leaves_what_is_kept_of_the_new_log(shop: Shop) -> None:
    """Also of a file that the server has deleted since."""
    shop.keep = "1d"
    shop.sql(f"USE {shop.name}", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    ahead, other = shop.open(flow=f"{shop.name}a"), shop.open(flow=f"{shop.name}b")
    kept = KeptSegments(str(shop.folder / "segments"), ahead.latest_offset().server)
    stands = _planned(ahead, shop.begin)
    assert kept.list()
    begun = shop.sql("SELECT UNIX_TIMESTAMP()")[0][0]
    shop.wait_for(lambda: shop.sql("SELECT UNIX_TIMESTAMP()")[0][0] > begun)
    shop.sql("RESET MASTER", "INSERT INTO t VALUES (2)")
    ahead.forget_former_log(stands)
    assert not kept.list()
    place = _planned(ahead, ahead.earliest_offset().on_new_log(stands))
    shop.sql("INSERT INTO t VALUES (3)")
    place = _planned(ahead, place)
    shop.sql("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4)")
    _planned(ahead, place)
    newest = shop.sql("SHOW BINARY LOGS")[-1][0]
    shop.purge_to(newest)
    of_new_log = kept.list()
    assert {segment.file == newest for segment in of_new_log} == {True, False}
    other.forget_former_log(stands)
    assert kept.list() == of_new_log
    for source in (ahead, other):
        source.close()


def _planned(source: MysqlBinlogSource, after: BinlogOffset) -> BinlogOffset:
    """Read on, and return where that ends."""
    planned = source.plan(after, Batching(max_wait=timedelta(seconds=5)))
    assert planned is not None
    assert isinstance(planned.range.end, BinlogOffset)
    return planned.range.end


def _purge_told(shop: Shop, standing: BinlogOffset) -> str:
    source = shop.open()
    try:
        assert source.log_replaced(standing) is None
        with pytest.raises(OffsetPurgedError) as caught:
            source.lag(standing)
        return caught.value.message
    finally:
        source.close()


def _fail(*_: Any, **__: Any) -> Any:
    raise SinkError("killed here")


def _cut_off(*_: Any, **__: Any) -> Any:
    raise CheckpointUnavailableError("cut off here")
