"""Two Kafka clusters and ZooKeeper, flows between them in this process or in one that can be killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from databus import Flow
from databus.core.errors import LeaseBusyError
from databus.registry import flow_from_json
from databus.sandbox import Sandbox, SandboxOptions
from tests.integration.conftest import Started
from tests.integration.kafka_logs import Logs
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld

SERVERS = ("zookeeper", "kafka", "kafka-b")


class KafkaWorld(OneProcessWorld):
    """East ("kafka_east") and west ("kafka_west")."""

    @property
    def east(self) -> Logs:
        return Logs(self.sandbox.address("kafka"))

    @property
    def west(self) -> Logs:
        return Logs(self.sandbox.address("kafka-b"))

    def run_apart(self, flow: Flow) -> subprocess.Popen[bytes]:
        """Run a window in a process of its own."""
        told = json.dumps({"home": str(self.home), "sandbox": str(self.sandbox.home), "flow": flow.to_json()})
        with (self.home / f"{flow.name}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", __name__, told], stdout=log, stderr=log)


def caught_up(world: KafkaWorld, flow: Flow) -> None:
    """Run until caught up, also behind a killed holder, whose session needs a moment to expire."""
    deadline = time.monotonic() + 240
    while True:
        try:
            if not world.run(flow).lag_bytes:
                return
        except LeaseBusyError:
            time.sleep(0.2)
        assert time.monotonic() < deadline


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    """The two clusters; a module takes this fixture by its name."""
    return KafkaWorld(started(*SERVERS), tmp_path_factory.mktemp("kafka_world"))


def records(logs: Logs, topic: str) -> list[tuple[Any, ...]]:
    """Return all that makes a record what it is, by partition, in order; offsets are each cluster's own."""
    return [facts(message) for message in consume(logs.servers, topic)]


def facts(message: Message) -> tuple[Any, ...]:
    return message.partition(), message.key(), message.value(), message.headers(), message.timestamp()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    KafkaWorld(Sandbox(Path(given["sandbox"]), options=SandboxOptions()), Path(given["home"])).run(
        flow_from_json(given["flow"])
    )
