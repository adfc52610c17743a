"""ZooKeeper comes back from yesterday's copy: noticed before anything is read, named, and put right by an adoption."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus import __version__
from databus.cli.main import app
from databus.core.errors import MarkerDivergedError, MarkersAheadError
from databus.ops.checkpoint import adopt
from databus.ops.services import open_services
from databus.runtime.context import RunIdentity
from databus.sandbox import Sandbox
from databus.sandbox.connections import airflow_connections
from databus.sinks.kafka.writer import KafkaSlotWriter
from databus.testing.zookeeper_proxy import ZooKeeperProxy
from tests.integration.conftest import World
from tests.integration.kafka_target import consume
from tests.integration.test_zookeeper_loss import dies
from tests.integration.zookeeper_away import Away, Killed
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WHO = RunIdentity("operator", "", __version__)


class Backup:
    """A ZooKeeper of this module's own whose data is copied, and put back."""

    def __init__(self, sandbox: Sandbox, copy: Path):
        self.sandbox, self.copy = sandbox, copy
        (status,) = sandbox.status()
        self.data, self.port = status.data_folder, status.port

    def take(self) -> None:
        self.sandbox.down(["zookeeper"])
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.data, self.copy)
        self.sandbox.up(["zookeeper"])

    def restore(self) -> None:
        self.sandbox.down(["zookeeper"])
        shutil.rmtree(self.data)
        shutil.copytree(self.copy, self.data)
        self.sandbox.up(["zookeeper"])


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backup]:
    sandbox = Sandbox(tmp_path_factory.mktemp("restored"), ports_from=ports_from(30_060))
    sandbox.up(["zookeeper"])
    yield Backup(sandbox, tmp_path_factory.mktemp("copy") / "data")
    sandbox.destroy()


@pytest.fixture
def away(world: World, backup: Backup, tmp_path: Path) -> Iterator[Callable[..., Away]]:
    with ZooKeeperProxy("127.0.0.1", backup.port) as proxy:
        yield lambda **options: Away(world, proxy, tmp_path, **options)


def seen(shop: Away) -> int:
    return len(consume(shop.world.sandbox.address("kafka"), shop.topic))


def adopted(shop: Away, *, execute: bool = True, allow_repeats: bool = False) -> adopt.Adoption:
    flow = shop.flow.model_copy(update={"zookeeper_conn_id": shop.straight})
    with open_services(flow, shop.world.connections, shop.settings) as services:
        if execute:
            return adopt.execute(flow, services, WHO, "restored", allow_repeats=allow_repeats)
        return adopt.preview(flow, services, allow_repeats=allow_repeats)


@pytest.mark.parametrize("option", ["stop", "continue"])
def test_markers_ahead_are_named_and_adopted(away: Callable[..., Away], backup: Backup, option: str) -> None:
    shop = away(batches=5, on_zookeeper_loss=option)
    shop.run_until(2)
    backup.take()
    shop.run(shop.straight)
    shop.run(shop.straight)
    backup.restore()
    assert shop.committed() == 2
    with pytest.raises(MarkersAheadError) as caught:
        shop.run(shop.straight)
    assert (caught.value.code, caught.value.retryable) == ("checkpoint_behind_sinks", False)
    if option == "stop":
        for named in ("batch 2, 8", "sink kafka, slot 0: batch 5", "sink kafka, slot 1: batch 5", "up to 20"):
            assert named in caught.value.message
    else:
        assert "restored from an older copy" in caught.value.message
    assert f"checkpoint adopt {shop.flow.name}" in caught.value.hint
    assert (shop.committed(), seen(shop)) == (2, shop.rows)
    shown = adopted(shop, execute=False)
    assert (shown.before.batch, shown.batch, str(shown.offset), shown.repeated) == (2, 5, "20", ())
    assert shop.committed() == 2
    adopted(shop)
    entry = shop.history()[-1]
    assert (entry.action, entry.who, entry.why, entry.batch, str(entry.offset)) == (
        "adopt",
        "operator",
        "restored",
        5,
        "20",
    )
    adopted(shop)  # again changes nothing
    assert len(shop.history()) == 4
    shop.grow(2)
    assert shop.run(shop.straight).batches == 2
    shop.assert_exact()


def test_slots_that_stand_apart_are_refused_unless_repeats_are_allowed(
    away: Callable[..., Away], backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = away(batches=4)
    shop.run_until(1)
    backup.take()
    with monkeypatch.context() as patch:
        dies(patch, shop, (KafkaSlotWriter, "write"), "before", 6)
        with pytest.raises(Killed):
            shop.run(shop.straight)
    held = seen(shop)
    backup.restore()
    with pytest.raises(MarkersAheadError, match=r"slot 0: batch 4.*slot 1: batch 3"):
        shop.run(shop.straight)
    with pytest.raises(MarkerDivergedError, match="different batches") as caught:
        adopted(shop)
    assert "--allow-repeats" in caught.value.hint
    found = adopted(shop, allow_repeats=True)
    assert (found.batch, str(found.offset)) == (4, "12")
    assert [text.split(":")[0] for text in found.repeated] == ["kafka[0]"]
    shop.run(shop.straight)
    # Only what slot 0 had of batch 4 comes twice.
    shop.assert_exact(repeated=seen(shop) - shop.rows)
    assert 0 < seen(shop) - shop.rows < 40
    assert held < shop.rows


def test_the_command_previews_and_executes(
    away: Callable[..., Away], backup: Backup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shop = away(batches=3)
    shop.run_until(1)
    backup.take()
    shop.run(shop.straight)
    backup.restore()
    flow = shop.flow.model_copy(update={"zookeeper_conn_id": shop.straight})
    lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "flow.py").write_text("\n".join(lines))
    for name, value in {**airflow_connections(shop.world.sandbox.status()), **shop.world.environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABUS_INSTALLATION", shop.settings.installation)
    monkeypatch.setenv("DATABUS_SEGMENT_STORE", shop.settings.segment_store)
    monkeypatch.setenv("DATABUS_RECORDS_URL", shop.settings.records_url)
    monkeypatch.setenv("DATABUS_SANDBOX", str(tmp_path / "none"))

    def call(*words: str) -> dict[str, Any]:
        base = [
            "checkpoint",
            "adopt",
            flow.name,
            "--dags",
            str(tmp_path / "dags"),
            "--reason",
            "disk lost",
            "-o",
            "json",
        ]
        result = CliRunner().invoke(app, [*base, *words])
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.output)
        return found

    shown = call()
    assert (shown["from"], shown["to"], shown["done"]) == ("batch 1, 4", "batch 3, 12", False)
    assert shop.committed() == 1
    assert call("--execute")["done"]
    assert (shop.committed(), shop.history()[-1].why) == (3, "disk lost")
