"""Writer of rows to two topics as two Kafka sinks of a flow do it: transactions with markers, one after the other."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from databus.kafka.client import ClientSettings
from databus.sinks.kafka.markers import MARKER_TOPIC, Marker, MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session
from tests.integration.kafka_target import wait_until

KEYS = 60
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "200",
    "delete.retention.ms": "60000",
}
"""Settings of a state topic whose old rows are soon gone."""


def make(servers: str, topics: Sequence[tuple[str, dict[str, str]]], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    new = [NewTopic(name, partitions, 1, config=config) for name, config in topics]
    for each in (*new, NewTopic(MARKER_TOPIC, 8, 1)):
        try:
            admin.create_topics([each])[each.topic].result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    wait_until(lambda: {t for t, _ in topics} <= set(admin.list_topics(timeout=20).topics), "the topics")


class TwoSinks:
    """Flow with a sink of changes and one of the state, on a real broker; `alive` is what its source has."""

    def __init__(self, servers: str, partitions: int, seed: int, config: dict[str, str] | None = None):
        self.name = f"looked{uuid.uuid4().hex[:8]}"
        self.changes, self.state = f"cdc.{self.name}", f"state.{self.name}"
        self._partitions, self._chance = partitions, random.Random(seed)
        make(servers, ((self.changes, {}), (self.state, config or COMPACTED)), partitions)
        settings = ProducerSettings(ClientSettings("kafka", servers))
        self.sessions = {
            sink: Session(MarkerKey("default", self.name, sink), 0, settings) for sink in ("kafka", "state")
        }
        self.alive: dict[int, int] = {}
        self.rows = self.batch = 0
        self._busy = threading.Lock()

    def close(self) -> None:
        for session in self.sessions.values():
            session.discard()

    def write(self, batches: int = 1) -> None:
        """Write batches of some rows, to either sink first; at times an attempt is aborted before."""
        for _ in range(batches):
            with self._busy:
                self._batch([self._change() for _ in range(self._chance.randint(1, 8))])

    def writing(self, stop: threading.Event) -> threading.Thread:
        """Start a thread that writes until it is told to stop."""

        def run() -> None:
            while not stop.wait(0.01):
                self.write()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _change(self) -> tuple[int, int, bool]:
        key = self._chance.randrange(KEYS)
        self.rows += 1
        deleted = key in self.alive and self._chance.random() < 0.4
        if deleted:
            del self.alive[key]
        else:
            self.alive[key] = self.rows
        return key, self.rows, deleted

    def _batch(self, rows: list[tuple[int, int, bool]]) -> None:
        self.batch += 1
        for sink in self._chance.sample(("kafka", "state"), 2):
            session = self.sessions[sink]
            for aborted in (True, False) if self._chance.random() < 0.1 else (False,):
                session.begin()
                for row in rows:
                    self.produce(sink, *row)
                if aborted:
                    session.producer.flush(30)
                    session.producer.abort_transaction(30)
                else:
                    session.commit(Marker(self.batch, "hash", end={"row": rows[-1][1]}))

    def produce(self, sink: str, key: int, number: int, deleted: bool) -> None:
        """Produce a row, and the tombstone behind a delete, in the transaction that is open."""
        image, op, event = {"id": key, "n": number}, "d" if deleted else "u", f"e{number}"
        value: dict[str, Any] = {**image, "__op": op, "__deleted": deleted}
        if sink == "kafka":
            source = {"db": "shop", "table": "t", "event_id": event, "ts_ms": 5}
            value = {"op": op, "source": source, "before": image, "after": None if deleted else image}
        topic = self.changes if sink == "kafka" else self.state
        for text in (json.dumps(value).encode(), None) if deleted else (json.dumps(value).encode(),):
            self.sessions[sink].producer.produce(
                topic, text, json.dumps({"id": key}), key % self._partitions, headers=[("event_id", event)]
            )


def keep_tombstones(servers: str, topic: str, ms: int) -> None:
    """Let compaction keep tombstones for some time."""
    entry = ConfigEntry("delete.retention.ms", str(ms), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(30)


def forget(servers: str, topic: str, partitions: int) -> None:
    """Let retention pass all that a topic has."""
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.delete_records([TopicPartition(topic, p, -1) for p in range(partitions)]).values():
        done.result(30)
