"""Snapshots that a person asks for: each preview refuses what its execution would, and a run never meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from databus import Flow, Kafka
from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError
from databus.core.errors.config import SnapshotConditionError
from databus.core.errors.source import SourceAccessError
from databus.core.findings import Level
from databus.demo.consumers import topic_records
from databus.ops.health.lag import measure
from databus.ops.health.preflight import preflight
from databus.ops.runs.preview import preview
from databus.ops.services import open_services
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

Command = Callable[..., str]
YES = ("--reason", "asked for", "--execute")


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    sandbox = started("zookeeper", "kafka", "mysql", "mariadb")
    return OneProcessWorld(sandbox, tmp_path_factory.mktemp("snapshot_commands"))


@pytest.fixture
def commands(world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(world, tmp_path, monkeypatch)


@pytest.fixture
def made(world: OneProcessWorld, flavor: str, tmp_path: Path, commands: Commands) -> tuple[Table, Flow, Command]:
    """A table of 50 rows, a flow of it that has not run, and `databus snapshot` on it."""
    table = Table(world, flavor, rows=50)
    flow = table.flow(max_rows=20)
    lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
    (tmp_path / "flow.py").write_text("\n".join(lines))

    def command(action: str, *more: str) -> str:
        return commands("snapshot", action, flow.name, *more).output

    return table, flow, command


def planned(world: OneProcessWorld, flow: Flow) -> str:
    """Say what `databus plan` says of a snapshot."""
    with open_services(flow, world.connections, world.settings) as services:
        return preview(flow, services).snapshot


def test_a_preview_refuses_what_its_execution_would(
    made: tuple[Table, Flow, Command], world: OneProcessWorld, commands: Commands
) -> None:
    table, flow, command = made
    assert "its first run begins with the rows" in command("show")
    for action in ("begin", "pause", "resume", "cancel"):
        with pytest.raises(CheckpointConflictError):
            command(action)
    assert "its first run begins with the rows" in planned(world, flow)
    with open_services(flow, world.connections, world.settings) as services:
        assert "begins with the rows that its tables hold" in str(measure(flow, services).beginning)
    world.run(flow, max_batches=1)
    assert "batches take chunks of it along" in planned(world, flow)
    with pytest.raises(SnapshotUnfinishedError, match="snapshot 1 is unfinished"):
        command("begin")
    left = commands.json("snapshot", "show", flow.name)["progress"]
    assert (left["state"], left["rows"], left["tables_left"]) == ("reading", 20, 1)
    assert left["seconds_left"] >= 0
    foreseen = command("pause", *YES[:2])
    assert "snapshot 1 would stand still from the next batch on, with 1 table, about " in foreseen
    assert "Nothing was changed. Add --execute to do it." in foreseen
    assert "snapshot 1 is not paused: nothing would change" in command("resume")
    command("pause", *YES)
    assert "snapshot 1 is paused already: nothing would change" in command("pause")
    assert "snapshot 1 would go on where it stands" in commands.json("snapshot", "resume", flow.name)["would"]
    said = command("cancel")
    assert "snapshot 1 would end with 1 table, about " in said
    assert "Add --reason and --execute to do it." in said
    held = next(line for line in command("show").splitlines() if line.startswith("snapshot 1: 0 of 1 tables, 20 of "))
    assert held.endswith(" rows, paused")
    assert held in commands("checkpoint", "show", flow.name).output
    assert f"{flow.name}: {held}" in commands("lag", flow.name).stderr
    assert commands.json("lag", flow.name)[0]["snapshot"]["state"] == "paused"
    assert f"flow {flow.name}: {held}" in commands("watch", "--once").stderr
    with pytest.raises(SnapshotUnfinishedError, match="and paused"):
        command("begin")
    assert "cancelled after" in command("cancel", *YES)
    with pytest.raises(CheckpointConflictError, match="snapshot 1 has ended"):
        command("resume")
    assert "snapshot 2 would read 1 table, about" in command("begin")
    world.run(flow)
    assert planned(world, flow) == ""
    assert table.arrived()[2] == {"r": 20}


def test_a_condition_is_checked_before_the_stream_meets_it(
    made: tuple[Table, Flow, Command], world: OneProcessWorld
) -> None:
    table, flow, command = made
    world.run(flow)
    named = ("--table", f"{table.name}.t", "--where")
    for where in ("id >", "nothing = 1", "id > 1; DROP TABLE t", "1) OR (1", "id = 1 -- x"):
        with pytest.raises(SnapshotConditionError):
            command("begin", *named, where, *YES)
    command("begin", *named, "id < 0", *YES)
    world.run(flow)
    assert table.arrived()[2] == {"r": 50}
    command("begin", *named, "name = 'row 7' OR id BETWEEN 4 AND 8", *YES)
    world.run(flow)
    assert table.arrived()[2] == {"r": 54}


def test_rows_have_the_key_that_the_log_names_without_a_primary_key(
    made: tuple[Table, Flow, Command], world: OneProcessWorld
) -> None:
    table, flow, _ = made
    name = f"{table.name}.t"
    table.run(f"ALTER TABLE {name} DROP PRIMARY KEY, ADD UNIQUE (name), ADD UNIQUE wide (id, v), ADD UNIQUE slim (id)")
    world.run(flow, max_batches=1)
    table.run(f"UPDATE {name} SET name = 'changed' WHERE id = 2", f"UPDATE {name} SET at = NOW() WHERE id IN (50, 90)")
    world.run(flow)
    records = list(topic_records(world.sandbox.address("kafka"), table.name))
    assert {tuple(json.loads(key or b"{}")) for key, _ in records} == {("id", "v")}
    assert table.assert_arrived() == {"r": 49, "u": 3}


def test_parts_of_rows_do_not_supersede_whole_ones(
    made: tuple[Table, Flow, Command], world: OneProcessWorld, caplog: pytest.LogCaptureFixture
) -> None:
    table, flow, _ = made
    world.run(flow, max_batches=1)
    table.run(
        "SET SESSION binlog_row_image=MINIMAL",
        f"UPDATE {table.name}.t SET v = 3 WHERE id IN (2, 50, 90)",
        "SET SESSION binlog_row_image=FULL",
    )
    world.run(flow)
    assert "logged without all columns" in caplog.text
    records = [json.loads(value) for _, value in topic_records(world.sandbox.address("kafka"), table.name) if value]
    whole = {record["after"]["id"]: record["after"]["v"] for record in records if record["op"] == "r"}
    assert whole == {**table.stands(), 2: 0}
    assert sorted(record["after"]["v"] for record in records if record["op"] == "u") == [3, 3, 3]


def test_a_table_that_goes_away_is_not_said_to_be_read(
    made: tuple[Table, Flow, Command], world: OneProcessWorld
) -> None:
    table, flow, command = made
    world.run(flow, max_batches=1)
    table.run(f"RENAME TABLE {table.name}.t TO {table.name}.u")
    world.run(flow)
    said = command("show")
    assert f"{table.name}.t  gone" in said
    assert "0 of 1 tables (1 gone), 20 of about " in said
    assert " rows, finished after" in said
    table.run(f"RENAME TABLE {table.name}.u TO {table.name}.t")
    command("begin", *YES)
    world.run(flow)
    assert table.arrived()[2] == {"r": 70}


def test_a_missing_grant_is_named_by_the_run_and_by_the_preflight(
    made: tuple[Table, Flow, Command], world: OneProcessWorld
) -> None:
    table, flow, _ = made
    account, name, monitor = f"'{table.name}'@'%'", f"`{table.name}`.`t`", "REPLICATION CLIENT"
    if table.flavor == "mariadb":
        monitor = "BINLOG MONITOR"
    table.run(
        f"CREATE USER {account} IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO {account}",
        f"GRANT INSERT ON {name} TO {account}",
    )
    conn_id = world.override(f"{table.flavor}_shop", login=table.name, password="secret")
    flow = flow.model_copy(update={"source": flow.source.model_copy(update={"conn_id": conn_id})})
    grant = f"GRANT SELECT ON {name} TO {account};"
    with pytest.raises(SourceAccessError, match=f"{table.name}.t") as refused:
        world.run(flow)
    assert refused.value.hint == grant
    with open_services(flow, world.connections, world.settings) as services:
        errors = [finding.hint for finding in preflight(flow, services) if finding.level is Level.ERROR]
    assert errors == [grant]
    table.run(grant)
    with open_services(flow, world.connections, world.settings) as services:
        assert not [finding.subject for finding in preflight(flow, services) if "primary key" in finding.hint.lower()]
    world.run(flow)
    assert table.assert_arrived() == {"r": 50}


def test_a_table_without_a_key_is_named_beside_a_compacted_topic(
    made: tuple[Table, Flow, Command], world: OneProcessWorld
) -> None:
    table, flow, _ = made

    def named(config: dict[str, str], topic: str = flow.name) -> list[str]:
        sink = Kafka(conn_id="kafka_east", topic=topic, topic_config=config)
        with open_services(flow, world.connections, world.settings) as services:
            found = preflight(flow.model_copy(update={"sinks": (sink,)}), services)
        return [finding.message for finding in found if finding.code == "sink_no_primary_key"]

    compacted = {"cleanup.policy": "compact"}
    assert named(compacted) == []
    table.run(f"CREATE TABLE {table.name}.bare (v INT)")
    (said,) = named(compacted)
    assert said.startswith(f"table {table.name}.bare has no primary key")
    assert named({}) == []
    world.run(flow.model_copy(update={"sinks": (Kafka(conn_id="kafka_east", topic=flow.name),)}))
    assert named(compacted) == []  # the topic is there, and is not compacted
