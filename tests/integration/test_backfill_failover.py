"""Backfills of what lies before, across and behind a failover, on real pairs: exactly the range, or refused by name."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog
from databus.core.errors import (
    BackfillIncompleteError,
    OffsetInvalidError,
    OffsetPurgedError,
    SinkSettingError,
    SinkUnavailableError,
    SourceDivergedError,
)
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset
from databus.core.settings import Settings
from databus.core.state.backfill import Aim, Mode
from databus.demo.consumers import index_documents
from databus.ops.backfill.run import BackfillRequest, preview
from databus.ops.backfill.status import BackfillState, status
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.services import open_services
from databus.runtime.drain import Drain
from databus.sources.mysql.source import MysqlBinlogSource
from tests.integration.backfills import cut_off_twice, past_services, run_range
from tests.integration.binlog_shop import Connections
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld, run_locally
from tests.integration.replicated_pair import DEADLINE_S, Pair, Server

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


MISSING = Aim(Mode.MISSING)
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    servers = started("zookeeper", "kafka", "opensearch")
    return OneProcessWorld(servers, tmp_path_factory.mktemp("backfill_failover"))


class Moved:
    """A flow over a pair of servers whose rows are numbered as they were written."""

    def __init__(self, world: OneProcessWorld, pair: Pair, *, search: bool = False, max_rows: int = 1000):
        self.world, self.pair, self.server = world, pair, pair.source
        self.name = f"bfo{os.getpid()}_{next(_NUMBERS)}"
        self.conn_id = f"{self.name}_db"
        self.written = 0
        pair.reset()
        self.point_at(pair.source)
        kafka = Kafka(conn_id="kafka_east", topic=self.name)
        index = Elasticsearch(conn_id="opensearch_default", index=self.name)
        self.flow = Flow(
            name=self.name,
            # It begins before its table is made: the first place is where the log begins.
            source=MysqlBinlog(
                conn_id=self.conn_id, tables=(f"{self.name}.t",), start="earliest", on_missing_table="wait"
            ),
            sinks=(index if search else kafka,),
            batching=Batching(max_rows=max_rows, max_wait=timedelta(seconds=0.2)),
        )
        self.live()
        self.places = [self.place()]
        pair.source.sql(f"CREATE DATABASE {self.name}", f"CREATE TABLE {self.name}.t (id INT PRIMARY KEY, v INT)")
        pair.link()

    def point_at(self, server: Server) -> None:
        self.server, at = server, server.connection
        found = {"conn_type": "mysql", "host": at.host, "port": at.port, "login": at.login}
        self.world.environment[f"AIRFLOW_CONN_{self.conn_id.upper()}"] = json.dumps(found)

    def write(self, count: int, *, live: bool = True) -> set[int]:
        """Insert rows, each a transaction; remember the place behind them, of the live flow or the server's."""
        numbers = range(self.written + 1, self.written + count + 1)
        for number in numbers:
            self.server.sql(f"INSERT INTO {self.name}.t VALUES ({number}, 0)")
        self.written += count
        if live:
            self.live()
            self.places.append(self.place())
        return set(numbers)

    def live(self) -> None:
        run_locally(self.world, self.flow)

    def fail_over(self) -> None:
        variable = {"mysql": "gtid_executed", "mariadb": "gtid_binlog_pos"}[self.pair.source.flavor]
        self.pair.replica_has(str(self.pair.source.sql(f"SELECT @@GLOBAL.{variable}")[0][0]))
        self.pair.promote()
        self.pair.replica.sql("FLUSH BINARY LOGS")  # what follows the last place begins a file
        self.point_at(self.pair.replica)

    def place(self) -> BinlogOffset:
        offset = self.world.checkpoint(self.flow).offset
        assert isinstance(offset, BinlogOffset)
        return offset

    def word(self, number: int) -> str:
        """Return a remembered place as an operator writes it."""
        return json.dumps(self.places[number].to_json())

    def backfill(self, start: str, end: str, aim: Aim, **how: Any) -> BackfillState:
        return run_range(self.world, self.flow, start, end, aim, **how)

    def replay(self, start: int, end: int, suffix: str, **how: Any) -> BackfillState:
        return self.backfill(self.word(start), self.word(end), Aim(Mode.REPLAY, suffix), **how)

    def seen(self, suffix: str = "") -> Counter[int]:
        messages = consume(self.world.sandbox.address("kafka"), self.name + suffix)
        return Counter(json.loads(m.value())["after"]["id"] for m in messages if m.value() is not None)

    def documents(self, suffix: str = "") -> dict[int, int]:
        found = index_documents(self.world.sandbox.address("opensearch"), self.name + suffix)
        return {int(document["id"]): int(document["v"]) for document in found.values()}

    def states(self) -> list[BackfillState]:
        with past_services(self.world, self.flow) as services:
            return list(status(self.flow, services))


@pytest.fixture
def pair(flavor: str, pair_of: Callable[[str], Pair]) -> Pair:
    return pair_of(flavor)


def test_ranges_before_across_and_behind_a_failover(world: OneProcessWorld, pair: Pair) -> None:
    moved = Moved(world, pair)
    first = moved.write(3)
    time.sleep(1.1)
    since = datetime.now(UTC).isoformat()
    time.sleep(1.1)
    second = moved.write(4)
    time.sleep(1.1)
    until = datetime.now(UTC).isoformat()
    time.sleep(1.1)
    third = moved.write(2)
    by_time = Aim(Mode.REPLAY, ".time")
    done = moved.backfill(since, until, by_time)
    assert moved.seen(".time") == Counter(second)
    words, by_words = (str(moved.places[1]), str(moved.places[2])), Aim(Mode.REPLAY, ".words")
    worded = moved.backfill(*words, by_words)

    moved.fail_over()
    behind = moved.write(3)
    assert moved.place().timeline == 1
    fourth = moved.write(2)
    assert moved.replay(0, 1, ".first").rows.dispatched == 3  # from where nothing was executed: no GTIDs at all
    assert moved.seen(".first") == Counter(first)
    assert moved.replay(1, 2, ".second").done
    assert moved.seen(".second") == Counter(second)
    assert moved.replay(2, 3, ".third").done
    assert moved.seen(".third") == Counter(third)
    assert moved.replay(2, 4, ".across").done
    assert moved.seen(".across") == Counter(third | behind)
    assert moved.replay(4, 5, ".behind").done
    assert moved.seen(".behind") == Counter(fourth)
    # Times that were fixed on the former server: the same backfill, and the same changes once more under a name.
    assert moved.backfill(since, until, by_time).backfill == done.backfill
    assert moved.seen(".time") == Counter(second)
    moved.backfill(since, until, Aim(Mode.REPLAY, ".again", "again"))
    assert moved.seen(".again") == Counter(second)
    # What a GTID names is the same range, on whichever server it was found first.
    moved.backfill(*(f"gtid:{moved.places[number].gtids}" for number in (1, 2)), Aim(Mode.REPLAY, ".second"))
    assert moved.seen(".second") == Counter(second)
    assert moved.backfill(*words, by_words).backfill == worded.backfill
    assert moved.seen(".words") == Counter(second)
    with pytest.raises(SourceDivergedError, match="may be a place of server"):
        moved.backfill(*words, Aim(Mode.REPLAY, ".other"))


def test_a_failover_in_the_middle_of_a_backfill(
    world: OneProcessWorld, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Moved(world, pair, max_rows=3)
    moved.write(1)
    wanted = moved.write(20)
    drain = Drain()
    with monkeypatch.context() as patched:
        cut_off_twice(patched, drain)
        with pytest.raises(SinkUnavailableError):
            moved.replay(1, 2, ".replay")
        moved.fail_over()
        with pytest.raises(SourceDivergedError, match="take up the failover"):
            moved.replay(1, 2, ".replay")
        moved.live()
        moved.write(5)
        with pytest.raises(BackfillIncompleteError, match="is not done"):
            moved.replay(1, 2, ".replay", drain=drain)
    state = moved.replay(1, 2, ".replay")
    assert state.rows.dispatched == len(wanted)
    assert moved.seen(".replay") == Counter(wanted)


def test_missing_of_before_a_failover(world: OneProcessWorld, pair: Pair) -> None:
    moved = Moved(world, pair)
    moved.write(3)
    moved.write(5, live=False)
    with open_services(moved.flow, world.connections, world.settings) as services:
        mediation.execute(moved.flow, services, "skip", Target(place="latest"), Attribution("ada", "in a hurry"))
    moved.write(2)
    moved.fail_over()
    moved.write(4)
    state = moved.backfill("earliest", moved.word(-1), MISSING)
    assert (state.rows.dispatched, state.done) == (5, True)
    assert moved.seen() == Counter(range(1, 15))
    assert moved.backfill("earliest", moved.word(-1), MISSING).backfill == state.backfill
    assert moved.seen() == Counter(range(1, 15))


def test_refused_before_anything_moves_where_the_log_does_not_tell(world: OneProcessWorld, pair: Pair) -> None:
    moved = Moved(world, pair)
    moved.write(3)
    moved.write(3)
    moved.fail_over()
    moved.write(2)
    (last,) = moved.server.sql("SHOW BINARY LOGS")[-1:]
    moved.server.sql("FLUSH BINARY LOGS")
    deadline = time.monotonic() + DEADLINE_S
    while moved.server.sql("SHOW BINARY LOGS")[0][0] != last[0]:  # a file that a dump still reads stays
        assert time.monotonic() < deadline
        moved.server.sql(f"PURGE BINARY LOGS TO '{last[0]}'")
        time.sleep(0.1)
    for start, end in ((0, 2), (1, 3)):
        with pytest.raises((OffsetPurgedError, SourceDivergedError)) as refused:
            moved.replay(start, end, ".replay")
        assert str(pair.replica.connection.port) in refused.value.message
    assert moved.states() == []
    assert moved.seen(".replay") == Counter()
    without = [{**moved.places[number].to_json(), "gtids": "", "pos": 400 + number} for number in (1, 2)]
    with pytest.raises(SourceDivergedError, match=r"it has no GTIDs|begins at"):
        moved.backfill(*(json.dumps(place) for place in without), Aim(Mode.REPLAY, ".replay"))


def test_a_place_between_transactions_that_the_new_server_logged_in_another_order_is_refused(
    pair: Pair, tmp_path: Path
) -> None:
    pair.reset()
    name = f"bfo{os.getpid()}_{next(_NUMBERS)}"
    pair.source.sql(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    pair.link()
    executed = {"mysql": "gtid_executed", "mariadb": "gtid_binlog_pos"}[pair.source.flavor]

    def opened(server: Server) -> MysqlBinlogSource:
        context = FlowContext(name, Settings("test", str(tmp_path / "segments"), ""))
        spec = MysqlBinlog(conn_id="shop", tables=(f"{name}.*",), snapshot="never")
        source = spec.open(Connections(server.connection), context)
        assert isinstance(source, MysqlBinlogSource)
        return source

    def replicated() -> BinlogOffset:
        source = opened(pair.source)
        try:
            place = source.latest_offset()
        finally:
            source.close()
        pair.replica_has(place.gtids)
        return place

    pair.source.sql(f"INSERT INTO {name}.t VALUES (1)")
    before = replicated()
    if pair.replica.flavor == "mariadb":
        pair.replica.sql("SET SESSION gtid_domain_id = 77")
    pair.replica.sql(f"CREATE TABLE {name}.own (id INT PRIMARY KEY)")
    pair.source.sql(f"INSERT INTO {name}.t VALUES (2)")
    after = replicated()
    source = opened(pair.replica)
    try:
        assert pair.replica.sql(f"SELECT @@GLOBAL.{executed}")
        head = source.latest_offset()
        standing = BinlogOffset(head.file, head.pos, head.gtids, head.flavor, head.server, timeline=1)
        found = source.located(before, standing)
        assert isinstance(found, BinlogOffset)
        assert (found.same_gtids(before), found.timeline, found.server) == (True, 1, head.server)
        with pytest.raises((OffsetInvalidError, SourceDivergedError)):
            source.located(after, standing)
        assert source.located(standing, standing) is standing
    finally:
        source.close()
        pair.promote()


def test_older_rows_are_not_put_over_newer_documents(world: OneProcessWorld, pair: Pair) -> None:
    moved = Moved(world, pair, search=True)
    moved.write(2)
    moved.server.sql(f"UPDATE {moved.name}.t SET v = 1 WHERE id = 1")
    moved.write(1)
    assert moved.replay(1, 2, ".old").done
    moved.fail_over()
    moved.server.sql(f"UPDATE {moved.name}.t SET v = 2 WHERE id = 2")
    moved.write(1)
    moved.write(1)
    newest = {1: 1, 2: 2, 3: 0, 4: 0, 5: 0}
    assert moved.documents() == newest
    for start, end in ((0, 1), (1, 3)):
        with pytest.raises(SinkSettingError, match="would count as newer") as refused:
            moved.replay(start, end, "", consents=True)
        assert refused.value.code == "sink_order_lost"
    with pytest.raises(SinkSettingError, match="would count as newer"):
        moved.replay(0, 1, ".old")
    assert moved.documents() == newest
    assert moved.replay(3, 4, "", consents=True).done
    assert moved.replay(0, 4, ".new").done
    assert (moved.documents(), moved.documents(".new")) == (newest, newest)
    with past_services(world, moved.flow) as services:
        wanted = BackfillRequest(moved.word(0), moved.word(1), Aim(Mode.REPLAY, ""), consents=True)
        with pytest.raises(SinkSettingError, match="would count as newer"):
            preview(moved.flow, services, wanted, "ada")
