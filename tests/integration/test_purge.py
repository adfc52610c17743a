"""The server deletes log that a flow still needs: the flow stops before the exact gap, and passes it only when told."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.airflow.operators.preflight import PreflightOperator
from databus.core.errors import ConfigError, OffsetPurgedError
from databus.core.findings import Level
from databus.core.positions.gaps import OPEN, SKIPPED
from databus.core.positions.gtid import MysqlGtidSet
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.targets import Target
from databus.ops.health.lag import measure
from databus.ops.health.preflight import note_gap, preflight
from databus.sinks.kafka.writer import KafkaSlotWriter
from tests.integration.commands import Commands
from tests.integration.conftest import World
from tests.integration.half_written import Killed, half_written
from tests.integration.heard_alerts import Heard
from tests.integration.one_process import run_locally
from tests.integration.shop_flow import Shop
from tests.integration.statements import run_sql
from tests.integration.test_mediation import ADA, arrived, direct_shop, do, in_batches, look, services_of

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def sql(shop: Shop, *statements: str) -> list[Any]:
    return run_sql(shop.connection, *statements)


def purge(shop: Shop) -> str:
    """Let the server delete all of its log but the newest file; returns that file's name."""
    sql(shop, "FLUSH BINARY LOGS")
    newest = str(sql(shop, "SHOW BINARY LOGS")[-1][0])
    sql(shop, f"PURGE BINARY LOGS TO '{newest}'")
    return newest


def test_a_purge_while_paused_is_named_exactly_and_stops_the_flow(world: World) -> None:
    shop = direct_shop(world, "purge_paused")
    (standing,) = in_batches(world, shop, 1)
    before = arrived(world, shop)
    with services_of(world, shop) as services:
        mediation.pause(shop.flow, services, ADA)
    executed = str(sql(shop, "SELECT @@gtid_executed")[0][0]).replace("\n", "")
    shop.writer.run(30)
    lost = MysqlGtidSet.parse(str(sql(shop, "SELECT @@gtid_executed")[0][0]).replace("\n", ""))
    newest = purge(shop)
    missing = lost.minus(MysqlGtidSet.parse(executed))

    with services_of(world, shop) as services:  # as the preflight task of a paused flow does
        findings = [f for f in preflight(shop.flow, services) if f.code == OffsetPurgedError.code]
        assert [f.level for f in findings] == [Level.ERROR]
        gap = note_gap(shop.flow, services, "scheduled__1")
        assert gap is not None
        assert services.store.gaps(shop.name) == (gap,)
        mediation.resume(shop.flow, services, ADA)
    for _ in range(2):
        with pytest.raises(OffsetPurgedError) as stopped:
            run_locally(world, shop.flow)
    assert f"from {standing.offset} to {newest}:4" in stopped.value.message
    assert str(missing) in stopped.value.message
    assert "--past-gap" in stopped.value.hint
    assert "--past-gap --repair" in stopped.value.hint
    assert not stopped.value.retryable
    assert world.checkpoint(shop.flow) == standing
    assert arrived(world, shop) == before
    with services_of(world, shop) as services:
        (gap,) = services.store.gaps(shop.name)
    assert (gap.number, gap.start, gap.cause, gap.decision) == (1, standing.offset, "purged", OPEN)
    assert (gap.end.file, gap.end.pos) == (newest, 4)  # type: ignore[attr-defined]
    assert MysqlGtidSet.parse(gap.end.gtids).minus(MysqlGtidSet.parse(standing.offset.gtids)) == missing  # type: ignore[attr-defined]

    with pytest.raises(OffsetPurgedError):  # what is gone cannot be gone back to
        look(world, shop, "rewind", Target(batches=1))


@pytest.mark.parametrize("chunks", [0, 1], ids=["nothing is written", "half written"])
def test_a_purge_under_a_plan_in_flight_stops_it_by_name_until_it_is_skipped(world: World, chunks: int) -> None:
    shop = direct_shop(world, f"purge_planned_{chunks}", chunk_rows=10)
    (standing,) = in_batches(world, shop, 1)
    before = arrived(world, shop)
    shop.writer.run(40)
    with pytest.MonkeyPatch.context() as patch:
        if not chunks:
            patch.setattr(KafkaSlotWriter, "write", _dies)
        half_written(lambda: run_locally(world, shop.flow), max(chunks, 1))
    held = arrived(world, shop)
    assert len(held) > len(before) if chunks else held == before
    newest = purge(shop)
    shutil.rmtree(Path(world.settings.segment_store, shop.name))  # else what was staged is moved
    for _ in range(2):
        with pytest.raises(OffsetPurgedError) as stopped:
            run_locally(world, shop.flow)
    assert f"from {standing.offset} to {newest}:4" in stopped.value.message
    assert "--past-gap" in stopped.value.hint
    assert ("half written (kafka)" in stopped.value.hint) == bool(chunks)
    with services_of(world, shop) as services:
        (gap,) = services.store.gaps(shop.name)
    assert (gap.start, gap.decision) == (standing.offset, OPEN)
    do(world, shop, "skip", Target(past_gap=True))
    shop.writer.run(20)
    run_locally(world, shop.flow)
    after = arrived(world, shop)
    assert set(held) < set(after)
    assert len(set(after)) == len(after)
    with services_of(world, shop) as services:
        assert [gap.decision for gap in services.store.gaps(shop.name)] == [SKIPPED]


def _dies(*_: Any) -> Any:
    raise Killed


def test_a_start_that_is_gone_is_told_with_what_helps_before_the_first_run(world: World) -> None:
    shop = direct_shop(world, "purge_first")
    shop.writer.run(5)
    newest = purge(shop)
    with pytest.raises(OffsetPurgedError, match=f"to {newest}:4") as stopped:
        run_locally(world, shop.flow)
    with services_of(world, shop) as services:
        (finding,) = [f for f in preflight(shop.flow, services) if f.code == OffsetPurgedError.code]
    for hint in (stopped.value.hint, finding.hint):
        assert "--past-gap" not in hint  # refused: there is no checkpoint yet
        assert 'start="earliest"' in hint
    assert world.checkpoint(shop.flow) is None
    source = shop.flow.source.model_copy(update={"start": "earliest"})
    run_locally(world, shop.flow.model_copy(update={"source": source}))
    assert world.checkpoint(shop.flow) is not None


def test_a_gap_grows_until_it_is_decided_and_is_then_passed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    shop = direct_shop(world, "purge_twice")
    (standing,) = in_batches(world, shop, 1)
    before = arrived(world, shop)
    heard.tell(shop.flow)
    assert heard.of_kind("gap") == []
    for number in range(2):
        shop.writer.run(10)
        newest = purge(shop)
        with pytest.raises(OffsetPurgedError):
            run_locally(world, shop.flow, f"stopped_{number}")
        heard.tell(shop.flow)
    (raised,) = heard.of_kind("gap")
    shop.dag_file(tmp_path)
    cli = Commands(world, tmp_path, monkeypatch)
    assert [(g["decision"], g["to"]["file"]) for g in cli.json("gaps", shop.name)] == [(OPEN, newest)]
    assert cli.json("checkpoint", "skip", shop.name, "--past-gap")["to"] == f"{newest}:4"
    assert world.checkpoint(shop.flow) == standing
    shop.writer.run(1)
    written = sum(shop.writer.written.changes.values())
    cli("checkpoint", "skip", shop.name, "--past-gap", "--reason", "rows are in the warehouse", "--execute")
    (decided,) = cli.json("gaps", shop.name)
    assert (decided["number"], decided["decision"], decided["why"]) == (1, SKIPPED, "rows are in the warehouse")
    assert decided["from"] == standing.offset.to_json()
    heard.tell(shop.flow)
    assert heard.events("gap") == ["raised", "recovered"]
    for alert in heard.of_kind("gap"):  # the run that stopped first committed nothing: only the gap tells its address
        assert (alert.flow, alert.subject) == (shop.name, "1")
        assert (alert.run_id, alert.run_url) == ("stopped_0", "http://airflow/stopped_0")
        assert alert.range.startswith(f"({standing.offset}, ")
        assert (alert.range, alert.runbook.rpartition("/")[2]) == (raised.range, "gap.md")
    shop.writer.run(20)
    run_locally(world, shop.flow)
    after = arrived(world, shop)
    assert len(after) - len(before) >= sum(shop.writer.written.changes.values()) - written
    assert len(set(after)) == len(after)
    with pytest.raises(ConfigError, match="nothing is missing"):
        do(world, shop, "skip", Target(past_gap=True))


def test_the_preflight_task_notes_the_gap(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = direct_shop(world, "purge_preflight")
    in_batches(world, shop, 1)
    shop.writer.run(10)
    purge(shop)
    for name, value in _airflow_environment(world).items():
        monkeypatch.setenv(name, value)
    task = PreflightOperator(task_id="preflight", flow=shop.flow)
    with pytest.raises(Exception, match="was deleted from the server"):
        task.execute({"ti": object(), "run_id": "scheduled__7"})
    with services_of(world, shop) as services:
        (gap,) = services.store.gaps(shop.name)
    assert (gap.decision, gap.who) == (OPEN, "scheduled__7")


def _airflow_environment(world: World) -> dict[str, str]:
    from databus.sandbox.connections import airflow_connections

    return {
        **airflow_connections(world.sandbox.status()),
        "DATABUS_INSTALLATION": world.settings.installation,
        "DATABUS_SEGMENT_STORE": world.settings.segment_store,
        "DATABUS_RECORDS_URL": world.settings.records_url,
    }


@pytest.fixture
def retention(world: World) -> Iterator[Any]:
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@global.binlog_expire_logs_seconds")
        former = cursor.fetchone()[0]

        def set_to(seconds: int) -> None:
            cursor.execute(f"SET GLOBAL binlog_expire_logs_seconds={seconds}")

        yield set_to
        set_to(former)


def test_headroom_falls_as_the_file_ages_and_warns(
    world: World, retention: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    shop = direct_shop(world, "purge_headroom")
    in_batches(world, shop, 1, lambda flow: run_locally(world, flow, "moved_it"))
    heard.tell(shop.flow)
    assert heard.of_kind("headroom") == []
    retention(5000)
    with services_of(world, shop) as services:
        writing = measure(shop.flow, services).headroom
        assert writing is not None
        assert (writing.seconds, writing.low) == (5000, False)
        sizes = {str(row[0]): int(row[1]) for row in sql(shop, "SHOW BINARY LOGS")}
        standing = world.checkpoint(shop.flow).offset
        assert writing.bytes == sum(n for f, n in sizes.items() if f < standing.file) + standing.pos
        sql(shop, "FLUSH BINARY LOGS")
        closed = measure(shop.flow, services).headroom
        assert closed is not None
        assert closed.seconds is not None
        assert 0 < closed.seconds < 5000
        retention(0)
        never = measure(shop.flow, services).headroom
        assert never is not None
        assert (never.seconds, never.kept_s, never.low) == (None, None, False)
        retention(3)  # files go at the next rotation only
        deadline = time.monotonic() + 60
        while not measure(shop.flow, services).headroom.low:  # type: ignore[union-attr]
            assert time.monotonic() < deadline
        found = [f for f in preflight(shop.flow, services) if f.code == "source_headroom"]
        assert [f.level for f in found] == [Level.WARN]
    heard.tell(shop.flow)
    retention(5000)
    heard.tell(shop.flow)
    assert heard.events("headroom") == ["raised", "recovered"]
    for alert in heard.of_kind("headroom"):
        assert (alert.run_id, alert.run_url) == ("moved_it", "http://airflow/moved_it")
        assert alert.range.startswith(f"({standing}, ")
        assert alert.runbook.endswith("headroom.md")
    assert heard.of_kind("headroom")[0].figures["kept_seconds"] == 3
    retention(3)
    shop.dag_file(tmp_path)
    shown = Commands(world, tmp_path, monkeypatch)("lag", shop.name, "--output", "json")
    assert "retention headroom is low" in shown.stderr
    assert "headroom_seconds" in shown.stdout
