"""Writer of changes in databus's own form, in Kafka transactions of which some are aborted, as a flow's tries are."""

from __future__ import annotations

import json
import random
import threading
import uuid
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.kafka_target import wait_until


def make_topics(servers: str, *topics: tuple[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics]).values():
        made.result(30)
    wait_until(lambda: {t for t, _ in topics} <= set(admin.list_topics(timeout=20).topics), "the topics")


def value_of(number: int, key: int, transaction: str = "", order: int = 0) -> bytes:
    source = {"db": "shop", "table": "orders", "event_id": f"e{number}", "ts_ms": 1, "file": "f", "pos": number}
    after = {"id": key, "n": number}
    block = {"id": transaction, "total_order": order, "data_collection_order": order} if transaction else None
    return json.dumps({"before": None, "after": after, "op": "u", "source": source, "transaction": block}).encode()


class Writer:
    """Writes numbered changes of a few keys; `written` has the event ids that were committed."""

    def __init__(self, servers: str, topic: str, partitions: int, seed: int = 1):
        self.topic, self._partitions, self._chance = topic, partitions, random.Random(seed)
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": f"w-{uuid.uuid4().hex}"})
        self._producer.init_transactions(30)
        self.written: list[str] = []
        self._number = 0

    def write(self, count: int) -> None:
        """Write changes, some 7 in a transaction, of which every fifth is aborted and tried again."""
        left = count
        while left:
            size = min(left, self._chance.randint(1, 14))
            numbers = range(self._number, self._number + size)
            self._number += size
            for aborted in (True, False) if self._chance.random() < 0.2 else (False,):
                self._producer.begin_transaction()
                for number in numbers:
                    key = self._chance.randrange(20)
                    text = value_of(number if not aborted else -number - 1, key)
                    self._producer.produce(self.topic, text, f'{{"id":{key}}}', key % self._partitions)
                self._producer.abort_transaction(30) if aborted else self._producer.commit_transaction(30)
            self.written += [f"e{number}" for number in numbers]
            left -= size

    def write_transactions(self, topic: str, count: int) -> dict[str, int]:
        """Write transactions over all partitions, with BEGIN and END on a topic of their own; return id → rows."""
        made: dict[str, int] = {}
        for at in range(count):
            name, size = f"t{len(self.written)}-{at}", self._chance.randint(1, 9)
            self._producer.begin_transaction()
            self._boundary(topic, name, "BEGIN", None)
            for order in range(1, size + 1):
                key = self._chance.randrange(20)
                text = value_of(self._number, key, name, order)
                self._producer.produce(self.topic, text, f'{{"id":{key}}}', key % self._partitions)
                self.written.append(f"e{self._number}")
                self._number += 1
            self._boundary(topic, name, "END", size)
            self._producer.commit_transaction(30)
            made[name] = size
        return made

    def _boundary(self, topic: str, name: str, status: str, count: int | None) -> None:
        members: dict[str, Any] = {"status": status, "id": name, "event_count": count, "data_collections": None}
        self._producer.produce(topic, json.dumps({**members, "ts_ms": 1}).encode(), name, 0)

    def writing(self, stop: threading.Event, every_s: float = 0.02) -> threading.Thread:
        """Start a thread that writes until it is told to stop."""

        def run() -> None:
            while not stop.wait(every_s):
                self.write(5)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread
