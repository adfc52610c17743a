"""Two Kafka clusters behind proxies, each of one broker or of three, and runs of a mirror between them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox import Sandbox
from tests.faults.world import World

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Side:
    """One cluster.

    Attributes:
        sandbox: where it runs.
        server: its name there.
        brokers: how many it has.
    """

    sandbox: Sandbox
    server: str
    brokers: int

    @property
    def address(self) -> str:
        """Its brokers themselves, not their proxies."""
        return self.sandbox.address(self.server)


class MirrorWorld(World):
    """ZooKeeper and two sides, each behind proxies of its own.

    Attributes:
        sides: "source" and "target", which are the names of the proxies and, behind "kafka_", of the connections too.
    """

    def __init__(self, sandbox: Sandbox, folder: Path, source: Side, target: Side, mutants: tuple[str, ...] = ()):
        super().__init__(sandbox, folder, mutants, servers={"zookeeper": "zookeeper_default"})
        self.sides = {SOURCE: source, TARGET: target}
        for name, side in self.sides.items():
            proxies = self.open_proxies(name, side.address, kafka=True)
            extra = {"bootstrap.servers": proxies.address, "reconnect.backoff.max.ms": 500}
            value = {"conn_type": "kafka", "extra": extra}
            self.environment[f"AIRFLOW_CONN_KAFKA_{name.upper()}"] = json.dumps(value)
