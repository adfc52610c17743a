"""Rows held back are sent once after a fix, whatever is killed in between, as a reader of the sinks sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from databus import Batching, Elasticsearch, Flow, Kafka, MysqlBinlog, NotNull, __version__
from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.cli.terminal.exits import HELD, OK
from databus.core.batches.counts import SinkCounts
from databus.core.errors import CheckpointConflictError, ConfigError, LeaseBusyError, SinkError
from databus.demo.consumers import index_documents
from databus.ops.checkpoint.amend import Attribution
from databus.ops.quarantine import show as quarantine
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import replay_rows
from databus.ops.services import open_services
from databus.records.quarantine.held_row import HeldRow, HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.runtime.context import RunIdentity, Services
from tests.integration.commands import Commands
from tests.integration.conftest import World
from tests.integration.kafka_target import consume, event_id
from tests.integration.one_process import run_locally
from tests.integration.statements import run_sql

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

ADA = Attribution("ada", "the mapping was mended")
NOTE = {"properties": {"note": {"type": "integer"}}}


class Desk:
    """A table and a flow whose rows a check or the index holds back."""

    def __init__(self, world: World, database: str):
        self.world, self.database = world, database
        self.execute("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(50), email VARCHAR(50))")
        with world.sql() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = cursor.fetchone()[:2]
        self.index = f"quarantine-{database}"
        self.flow = Flow(
            name=f"quarantine_{database}",
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.orders",), start=f"{file}:{position}"),
            checks=(NotNull("email"),),
            sinks=(
                Kafka(conn_id="kafka_east", topic=database, partitions=2, slots=2),
                Elasticsearch(conn_id="opensearch_default", index=self.index, mapping=NOTE, on_reject="quarantine"),
            ),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )

    def execute(self, *statements: str) -> None:
        with self.world.sql(self.database) as connection:
            run_sql(connection, *statements)

    def mend_mapping(self) -> None:
        address = self.world.sandbox.address("opensearch")
        mended = {"properties": {"note": {"type": "integer", "ignore_malformed": True}}}
        httpx.put(f"http://{address}/{self.index}/_mapping", json=mended, timeout=60).raise_for_status()

    def documents(self) -> dict[str, Any]:
        return index_documents(self.world.sandbox.address("opensearch"), self.index)

    def arrived(self) -> list[str]:
        return [event_id(m) for m in consume(self.world.sandbox.address("kafka"), self.database) if m.value()]

    @contextmanager
    def services(self) -> Iterator[Services]:
        with open_services(self.flow, self.world.connections, self.world.settings) as services:
            yield services

    def held(self, state: HeldState | None = HeldState.HELD) -> dict[tuple[str, str], HeldRow]:
        """Rows by key and stage."""
        with self.services() as services:
            return {(str(r.key), r.stage): r for r in quarantine.select(self.flow, services, Selection(state))}

    def replay(self, **wanted: Any) -> list[ReplayResult]:
        with self.services() as services:
            run = self.world.spark(self.flow.name), RunIdentity("replay", "", __version__)
            return replay_rows(self.flow, services, run, Selection(**wanted), ADA)


@pytest.fixture
def desk(world: World, database: str) -> Desk:
    desk = Desk(world, database)
    desk.execute(
        "INSERT INTO orders VALUES (1, '1', 'a@b')",
        "INSERT INTO orders VALUES (2, 'two', 'a@b')",
        "INSERT INTO orders VALUES (3, '3', NULL)",
    )
    run_locally(world, desk.flow)
    assert set(desk.held()) == {('{"id":2}', "elasticsearch"), ('{"id":3}', "check")}
    assert set(desk.documents()) == {"1"}
    assert len(desk.arrived()) == 2
    return desk


def test_a_mended_mapping_and_a_lifted_check_replay_once(desk: Desk) -> None:
    committed = desk.world.checkpoint(desk.flow)
    before = desk.arrived()
    (refused_again,) = desk.replay(stage="elasticsearch")  # nothing was mended yet
    assert (refused_again.replayed, refused_again.held, refused_again.number) == (0, 1, 1)
    assert refused_again.sinks == {"elasticsearch": SinkCounts(0, 1)}
    assert "mapper_parsing" in desk.held()['{"id":2}', "elasticsearch"].cause

    desk.mend_mapping()
    (result,) = desk.replay(stage="elasticsearch")
    assert (result.replayed, result.held, result.written) == (1, 0, {"elasticsearch": 1, "kafka": 0})
    assert desk.documents()["2"]["note"] == "two"
    assert desk.arrived() == before  # Kafka had it already
    assert desk.replay(stage="elasticsearch") == []

    held = desk.held()['{"id":3}', "check"]
    (still,) = desk.replay()
    assert (still.replayed, still.held) == (0, 1)
    desk.flow = desk.flow.model_copy(update={"checks": ()})
    (result,) = desk.replay()
    assert (result.replayed, result.held, result.written) == (1, 0, {"elasticsearch": 1, "kafka": 1})
    assert result.sinks == {"elasticsearch": SinkCounts(1), "kafka": SinkCounts(1)}
    assert desk.replay() == []
    assert sorted(desk.arrived()) == sorted([*before, held.event_id])
    assert set(desk.documents()) == {"1", "2", "3"}
    became = desk.held(HeldState.REPLAYED)
    assert {key: (row.who, row.why, row.replay) for key, row in became.items()} == {
        ('{"id":2}', "elasticsearch"): ("ada", "the mapping was mended", 2),
        ('{"id":3}', "check"): ("ada", "the mapping was mended", 4),
    }
    # The flow itself has not moved, and the books of its batch are as they were: quarantined stays quarantined.
    assert desk.world.checkpoint(desk.flow) == committed
    assert sum(c.quarantined for c in committed.counts.values()) == 2
    with desk.services() as services:
        assert services.store.list_flows().count(desk.flow.name) == 1  # type: ignore[attr-defined]
        assert [e.action for e in services.store.history(f"{desk.flow.name}.quarantine", 10)][:4] == ["commit"] * 4


def killed(*_: Any, **__: Any) -> Any:
    raise SinkError("killed here")


def settled_then_killed(real: Any) -> Any:
    def settle(self: HeldRows, *arguments: Any) -> None:
        real(self, *arguments)
        killed()

    return settle


def test_a_kill_in_the_middle_sends_nothing_twice(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the sinks have the row: before the decision is stored, after that, or before the commit."""
    desk.execute("INSERT INTO orders VALUES (4, '4', NULL), (5, '5', NULL)")
    run_locally(desk.world, desk.flow)
    desk.flow = desk.flow.model_copy(update={"checks": ()})
    kills = (
        (HeldRows, "settle", killed),
        (HeldRows, "settle", settled_then_killed(HeldRows.settle)),
        (ZooKeeperCheckpoints, "commit", killed),
    )
    for number, (where, name, kill) in enumerate(kills, 1):
        held = desk.held()[f'{{"id":{number + 2}}}', "check"]
        before = desk.arrived()
        monkeypatch.setattr(where, name, kill)
        with pytest.raises(SinkError, match="killed here"):
            desk.replay(event_ids=(held.event_id,))
        monkeypatch.undo()
        assert sorted(desk.arrived()) == sorted([*before, held.event_id])
        if number == 1:
            with desk.services() as services:
                with pytest.raises(CheckpointConflictError, match="replay 1 has taken up 1 of these rows"):
                    quarantine.discard(desk.flow, services, Selection(event_ids=(held.event_id,)), ADA)
                others = Selection(
                    event_ids=tuple(row.event_id for row in desk.held().values() if row.stage != "check")
                )
                assert quarantine.discard(desk.flow, services, others, ADA) == 1
            mended, desk.flow = desk.flow, desk.flow.model_copy(update={"lane": "spark"})
            with pytest.raises(CheckpointConflictError, match=r"replay 1 was half written \(already in: kafka\)"):
                desk.replay(event_ids=(held.event_id,))
            desk.flow = mended
        (result,) = desk.replay(event_ids=(held.event_id,))
        assert (result.number, result.replayed) == (number, 1)
        assert desk.replay(event_ids=(held.event_id,)) == []
        assert sorted(desk.arrived()) == sorted([*before, held.event_id])
    assert len(desk.held(HeldState.REPLAYED)) == len(kills)
    assert set(desk.documents()) == {"1", "3", "4", "5"}


def test_one_replay_at_a_time_and_rows_can_be_discarded(desk: Desk) -> None:
    with desk.services() as other:
        lease = other.store.claim(f"{desk.flow.name}.quarantine", "bob", 0)
        with pytest.raises(LeaseBusyError, match=r"another replay.*bob"):
            desk.replay()
        with pytest.raises(LeaseBusyError, match=r"a replay.*bob"):
            quarantine.discard(desk.flow, other, Selection(), ADA)
        lease.release()
        assert quarantine.discard(desk.flow, other, Selection(stage="check"), Attribution("ada", "test data")) == 1
        assert quarantine.tally(desk.flow, other) == {"discarded": {"check": 1}, "held": {"elasticsearch": 1}}
    (row,) = desk.held(HeldState.DISCARDED).values()
    assert (row.who, row.why, row.cause) == ("ada", "test data", "not_null(email)")
    assert '"id":3' in row.payload.replace(" ", "")


def test_a_cut_key_update_loses_no_document_and_its_replay_takes_the_old_one_away(desk: Desk) -> None:
    whole = desk.documents()["1"]
    desk.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE orders SET id = 9 WHERE id = 1")
    run_locally(desk.world, desk.flow)
    pair = {('{"id":1}', "elasticsearch"), ('{"id":9}', "elasticsearch")}
    assert desk.documents() == {"1": whole}
    assert set(desk.held()) >= pair
    desk.execute("UPDATE orders SET note = '10' WHERE id = 9")
    run_locally(desk.world, desk.flow)
    assert set(desk.documents()) == {"1", "9"}
    (result,) = desk.replay(cause="sink_partial_image")
    assert (result.replayed, result.held) == (2, 0)
    assert desk.documents() == {"9": {"id": 9, "note": "10", "email": "a@b"}}
    assert not set(desk.held()) & pair


def test_the_command_refuses_what_no_row_can_have_and_tells_a_replay_in_words(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = f"from databus.registry import flow_from_json\nflow = flow_from_json({desk.flow.to_json()!r})\n"
    (tmp_path / "desk.py").write_text(told)
    run = Commands(desk.world, tmp_path, monkeypatch)
    mine, done = ("--reason", "no mapping yet"), "--execute"
    for verb, *words in (
        ("list", "--stage", "foo"),
        ("export", "--table", "sohp.orders"),
        ("replay", "--stage", "foo", *mine, done),
        ("discard", "--event", "nobody", *mine, done),
    ):
        with pytest.raises(ConfigError, match=r"'foo'|sohp\.orders|nobody"):
            run("quarantine", verb, desk.flow.name, *words)
    spark = f"sc://{desk.world.sandbox.address('spark')}"
    words = ("quarantine", "replay", desk.flow.name, "--stage", "elasticsearch", *mine, done, "--spark", spark)
    again = run(*words, "-o", "json")
    assert (again.exit_code, [row["held"] for row in json.loads(again.stdout)]) == (HELD, [1])
    desk.mend_mapping()
    mended = run(*words, "-o", "json")
    assert (mended.exit_code, [row["held"] for row in json.loads(mended.stdout)]) == (OK, [0])
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[2] for line in lines if "0 replayed, 1 held again" in line]
    assert not [line for line in lines if "ReplayResult" in line]
