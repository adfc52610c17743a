"""The Kafka Connect worker of the peer: the sandbox's Kafka, JSON without schemas, default guarantees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from databus.core.errors import SandboxError
from databus.sandbox.servers.debezium import DEBEZIUM
from tests.unit.sandbox.test_servers import context_of


@dataclass(frozen=True)
class Kafka:
    name: str = "kafka"
    host: str = "127.0.0.1"
    port: int = 19092
    address: str = "127.0.0.1:19092"


def test_it_needs_a_kafka_in_the_same_sandbox(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="Kafka, which was not started here"):
        DEBEZIUM.prepare(context_of(DEBEZIUM, tmp_path))


def test_the_worker_writes_json_without_schemas_and_keeps_connects_default_guarantee(tmp_path: Path) -> None:
    context = replace(context_of(DEBEZIUM, tmp_path), others={"kafka": Kafka()})
    DEBEZIUM.prepare(context)
    text = (context.folder / "worker.properties").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["bootstrap.servers"] == Kafka.address
    assert (settings["key.converter.schemas.enable"], settings["value.converter.schemas.enable"]) == ("false", "false")
    assert not [key for key in settings if "exactly.once" in key]
    assert settings["plugin.path"] == str(context.installation / "plugins")


def test_it_runs_with_the_collector_of_kafkas_own_script(tmp_path: Path) -> None:
    (command,) = DEBEZIUM.commands(context_of(DEBEZIUM, tmp_path))
    assert [a for a in command.argv if a.endswith("GC")] == ["-XX:+UseG1GC"]
    assert command.argv[-1] == str(tmp_path / "debezium" / "worker.properties")
