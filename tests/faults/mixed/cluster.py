"""The servers of a mixed schedule: who leads, who coordinates, and which processes execute."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from databus.sandbox import Sandbox
from databus.sandbox.servers.protocol import NotHealthyError
from databus.sandbox.servers.zookeeper import member_mode

KAFKA, ZOOKEEPER, SEARCH, SOURCE, ENGINE = "kafka-3", "zookeeper-3", "opensearch", "mysql", "spark"
SERVERS = (ZOOKEEPER, KAFKA, SOURCE, SEARCH)
CONNECTIONS = {
    ZOOKEEPER: "zookeeper_three", KAFKA: "kafka_three", SOURCE: "mysql_shop", SEARCH: "opensearch_default",
}  # fmt: skip
MEMBERS = (1, 2, 3)
T = TypeVar("T")


class Cluster:
    """Looks at the servers; starts and ends nothing."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox

    def zookeeper_modes(self) -> dict[int, str]:
        """Return member → "leader" or "follower", of those that serve."""
        found = {}
        for member, address in zip(MEMBERS, self.sandbox.address(ZOOKEEPER).split(","), strict=True):
            host, _, port = address.rpartition(":")
            with suppress(NotHealthyError):
                found[member] = member_mode(host, int(port))
        return found

    def zookeeper_member(self, mode: str) -> int:
        """Return the first member that is a leader or a follower just now."""
        return until(lambda: next((m for m, found in self.zookeeper_modes().items() if found == mode), 0), 30)

    def coordinator(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id."""
        return coordinator(self.sandbox.address(KAFKA), transactional_id)

    def workers(self) -> list[int]:
        """Return the process ids of the Python workers of the Spark server: the executors that hold our code."""
        pid = self.sandbox.status_of(ENGINE).pid
        found = []
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(pid).children(recursive=True) if pid else []:
                with suppress(psutil.NoSuchProcess):
                    parent = process.parent()
                    if parent is not None and "worker_daemon" in " ".join(parent.cmdline()):
                        found.append(process.pid)
        return found


def coordinator(bootstrap: str, transactional_id: str) -> int:
    """Return the broker of a cluster that coordinates a transactional id: its partition's leader.

    The partition is Java's hash of the id without its sign, modulo the number of partitions
    (TransactionStateManager.partitionFor).
    """
    topic = "__transaction_state"

    def leader() -> int:
        with suppress(KafkaException):
            admin: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions
            if partitions:
                return max(int(partitions[java_hash(transactional_id) % len(partitions)].leader), 0)
        return 0

    return until(leader, 30)


def java_hash(text: str) -> int:
    """Return String.hashCode without its sign, as Kafka's Utils.abs takes it away."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def until(look: Callable[[], T], timeout_s: float) -> T:
    """Return the first true answer.

    Raises:
        TimeoutError: there was none.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no answer within {timeout_s:.0f} s")
        time.sleep(0.1)
    return found
