"""Purged gaps that a snapshot mends: passed and begun in one step, through a second gap, a kill and a cancellation."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from databus import Flow, Kafka
from databus.core.errors import CheckpointConflictError, CheckpointUnavailableError, ConfigError, OffsetPurgedError
from databus.core.errors.root import DatabusError
from databus.demo.consumers import topic_records
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.services import open_services
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.half_written import half_written
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

YES = ("--reason", "rows are read anew", "--execute")
PAST_GAP = ("--past-gap", "--repair")


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    sandbox = started("zookeeper", "kafka", "mysql", "mariadb")
    return OneProcessWorld(sandbox, tmp_path_factory.mktemp("gap_repair"))


class PurgedTable(Table):
    """A table whose server deletes log that the flow has not read; values of `v` only rise."""

    def purge(self, *lost: str) -> None:
        """Run statements, and let the server delete the log that has them."""
        self.run(*lost, "FLUSH BINARY LOGS")
        newest, deadline = self._logs()[-1], time.monotonic() + 20
        while self._logs()[0] != newest:
            assert time.monotonic() < deadline, newest
            self.run(f"PURGE BINARY LOGS TO '{newest}'")  # MariaDB keeps a file until its engines passed a checkpoint

    def _logs(self) -> list[str]:
        with self.sql.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            return [str(row[0]) for row in cursor.fetchall()]

    def assert_never_older_behind_newer(self) -> tuple[dict[int, int], Counter[str]]:
        """Return what the records add up to, and how often each event id came."""
        values, ids = defaultdict[int, list[int]](list), Counter[str]()
        for key, value in topic_records(self.world.sandbox.address("kafka"), self.name):
            record = json.loads(value or b"null")
            if record is not None:
                assert record["op"] != "d", record
                ids[record["source"]["event_id"]] += 1
                values[json.loads(key or b"")["id"]].append(record["after"]["v"])
        assert all(came == sorted(came) for came in values.values()), values
        return {number: came[-1] for number, came in values.items()}, ids


def commands(world: OneProcessWorld, flow: Flow, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
    (folder / "flow.py").write_text("\n".join(lines))
    return Commands(world, folder, monkeypatch)


def decisions(cli: Commands, flow: Flow) -> list[str]:
    return [gap["decision"] for gap in cli.json("gaps", flow.name)]


def test_a_second_gap_while_the_first_is_mended(
    world: OneProcessWorld, flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PurgedTable(world, flavor, rows=60)
    name, flow = f"{table.name}.t", table.flow(max_rows=20)
    cli = commands(world, flow, tmp_path, monkeypatch)
    world.run(flow)
    table.purge(
        f"UPDATE {name} SET v = v + 1 WHERE id < 20",
        f"INSERT INTO {name} (id, v) VALUES (1, 1), (3, 1)",
        f"DELETE FROM {name} WHERE id = 4",
        f"ALTER TABLE {name} ADD COLUMN extra INT NOT NULL DEFAULT 5",
    )
    with pytest.raises(OffsetPurgedError) as stopped:
        world.run(flow)
    assert f"checkpoint skip {flow.name} --past-gap --repair --reason" in stopped.value.hint

    standing = world.checkpoint(flow)
    told = cli.json("checkpoint", "skip", flow.name, *PAST_GAP)["repair"]
    assert (told["snapshot"], list(told["tables"])) == (2, [name])
    assert "rows that were deleted in the range are in no table" in told["not_mended"]
    assert (world.checkpoint(flow), decisions(cli, flow)) == (standing, ["open"])
    cli("checkpoint", "skip", flow.name, *PAST_GAP, *YES)
    assert decisions(cli, flow) == ["being mended by snapshot 2"]
    table.run(f"UPDATE {name} SET v = v + 1 WHERE id IN (6, 50)")
    world.run(flow, max_batches=1)
    assert cli.json("snapshot", "show", flow.name)["mends"] == [1]

    table.purge(f"UPDATE {name} SET v = v + 1 WHERE id < 12 OR id = 50")
    monkeypatch.setattr("databus.cli.run.spark_session", lambda _: pytest.fail("Spark was started for it"))
    with pytest.raises(OffsetPurgedError, match="was deleted from the server"):
        cli("run", flow.name, "--batches", "1")
    assert decisions(cli, flow) == ["being mended by snapshot 2", "open"]
    with pytest.raises(OffsetPurgedError):
        world.run(flow)
    assert "snapshot 2 is unfinished and ends" in cli("checkpoint", "skip", flow.name, *PAST_GAP).stdout
    cli("checkpoint", "skip", flow.name, *PAST_GAP, *YES)
    assert decisions(cli, flow) == ["being mended by snapshot 3"] * 2
    table.run(f"UPDATE {name} SET v = v + 1 WHERE id IN (8, 118)")
    world.run(flow)
    assert decisions(cli, flow) == ["mended by snapshot 3"] * 2
    assert "purged, mended by snapshot 3" in cli("ledger", flow.name).stdout
    assert cli("ledger", flow.name, "--verify").exit_code == 0
    state, ids = table.assert_never_older_behind_newer()
    assert state == {**table.stands(), 4: 0}  # deleted in the gap: it stays, as the preview says
    assert max(ids.values()) == 1


def test_a_kill_before_the_step_and_a_cancellation_after_it(
    world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PurgedTable(world, "mysql", rows=60)
    name, flow = f"{table.name}.t", table.flow(max_rows=20)
    flow = flow.model_copy(update={"sinks": (Kafka(conn_id="kafka_east", topic=table.name, slots=2, chunk_rows=5),)})
    cli = commands(world, flow, tmp_path, monkeypatch)
    world.run(flow, max_batches=1)
    half_written(lambda: world.run(flow), 1)  # its plan has chunks of snapshot 1
    table.purge(f"UPDATE {name} SET v = v + 1 WHERE id < 40")
    standing, ada = world.checkpoint(flow), Attribution("ada", "rows are read anew")
    with open_services(flow, world.connections, world.settings) as services:
        assert services.store.pending_plan(flow.name).chunks  # type: ignore[union-attr]
        with monkeypatch.context() as cut:
            cut.setattr(services.store, "amend", _cut_off)
            with pytest.raises(CheckpointUnavailableError):
                mediation.execute(flow, services, "skip", Target(past_gap=True), ada, repair=True)
    assert (world.checkpoint(flow), decisions(cli, flow)) == (standing, [])
    with pytest.raises(DatabusError):  # the plan is closed at the sinks: no run goes on until the skip is repeated
        world.run(flow)
    assert cli.json("checkpoint", "skip", flow.name, *PAST_GAP)["plan_closed"]
    cli("checkpoint", "skip", flow.name, *PAST_GAP, *YES)
    assert decisions(cli, flow) == ["being mended by snapshot 2"]
    world.run(flow, max_batches=1)

    cli("snapshot", "cancel", flow.name, *YES)
    assert decisions(cli, flow) == ["skipped"]
    world.run(flow)
    assert decisions(cli, flow) == ["skipped"]
    for line, why in (
        (("checkpoint", "skip", flow.name, "--sink", "kafka", "--repair"), "of the whole flow"),
        (("snapshot", "begin", flow.name, "--mends", "1", "--table", name), "all rows of all tables"),
    ):
        with pytest.raises(ConfigError, match=why):
            cli(*line)
    with pytest.raises(CheckpointConflictError, match="has no gap 2"):
        cli("snapshot", "begin", flow.name, "--mends", "2")
    cli("snapshot", "begin", flow.name, "--mends", "1", *YES)
    assert decisions(cli, flow) == ["being mended by snapshot 3"]
    world.run(flow)
    assert decisions(cli, flow) == ["mended by snapshot 3"]
    assert table.assert_never_older_behind_newer()[0] == table.stands()


def _cut_off(*_: Any, **__: Any) -> Any:
    raise CheckpointUnavailableError("cut off")
