"""Writes transactions of every kind of record to the source, and remembers what became of each."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

FIRST_STAMP = 1_700_000_000_000
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
_ANSWER_S = 20.0
_HEADERS: tuple[Any, ...] = (
    None,
    [],
    [("trace", b"1")],
    [("trace", b"1"), ("trace", b"2"), ("trace", b"1")],
    [("null", None), ("empty", b"")],
    [("null", None), ("null", None), ("data", bytes(range(256)))],
)


class MirrorWriter:
    """Several transactional producers, whose transactions overlap; survives the ends of brokers.

    Each record bears a time of its own, by which it is known.

    Attributes:
        full: tells whether to wait: the writer must not run away from a mirror that is down.
        total: records of committed transactions.
        transactions: committed transactions.
        fates: time of a record → committed, aborted or unknown.
    """

    def __init__(self, bootstrap: str, topics: dict[str, int], seed: int, producers: int = 2, replicas: int = 1):
        """Make the topics: name → number of partitions."""
        self._bootstrap, self._topics, self._seed = bootstrap, topics, seed
        self._stamps = itertools.count(FIRST_STAMP)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self.full: Callable[[], bool] = lambda: False
        self.total = self.transactions = 0
        self.fates: dict[int, str] = {}
        self.error: BaseException | None = None
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(name, n, replicas) for name, n in topics.items()]).values():
            future.result()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"writer-{number}", daemon=True)
            for number in range(producers)
        ]

    def transactional_id(self, number: int) -> str:
        """Return the id of one of the producers."""
        return f"faults-writer-{next(iter(self._topics))}-{number}"

    def start(self) -> None:
        """Begin; once begun, it goes on."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def stop(self) -> None:
        """Stop after the transactions in hand."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        if self.error is not None:
            raise self.error

    def snapshot(self) -> dict[int, str]:
        """Return a copy of all fates."""
        with self._lock:
            return dict(self.fates)

    def close(self) -> None:
        """Nothing is held once it is stopped."""

    def _run(self, number: int) -> None:
        chance = random.Random(f"mirror {self._seed} {number}")
        producer: Any = None
        try:
            while not self._stop.is_set():
                if self.full():
                    self._stop.wait(0.05)
                    continue
                try:
                    producer = producer or self._producer(number)
                    self._transaction(producer, chance)
                except KafkaException:
                    producer = None  # the next one of this id ends what this one left open
                    self._stop.wait(0.2)
                self._stop.wait(chance.uniform(0, 0.05))
            if producer is None:
                self._producer(number)  # no transaction stays open: readers would wait for its end
        except BaseException as error:  # noqa: BLE001 - told by stop()
            self.error = error

    def _producer(self, number: int) -> Any:
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": self.transactional_id(number)}
        quiet = {"log_level": 0, "linger.ms": 2, "transaction.timeout.ms": 60_000, "message.timeout.ms": 50_000}
        while True:
            producer = Producer({**settings, **quiet})
            try:
                producer.init_transactions(_ANSWER_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return producer

    def _transaction(self, producer: Any, chance: random.Random) -> None:
        fate = ABORTED if chance.random() < 0.2 else COMMITTED
        with self._lock:
            stamps = [next(self._stamps) for _ in range(chance.randint(1, 20))]
            self.fates.update(dict.fromkeys(stamps, UNKNOWN))
        producer.begin_transaction()
        for stamp in stamps:
            topic = chance.choice(tuple(self._topics))
            producer.produce(
                topic,
                value=chance.choice((None, b"", b"v%d" % stamp, chance.randbytes(chance.randint(1, 400)))),
                key=chance.choice((None, b"", b"k%d" % (stamp % 7), chance.randbytes(9))),
                partition=chance.randrange(self._topics[topic]),
                headers=chance.choice(_HEADERS),
                timestamp=stamp,
            )
        producer.flush(_ANSWER_S)
        self._stop.wait(chance.choice((0.0, 0.0, 0.1, 0.4)))
        if fate == ABORTED:
            producer.abort_transaction(_ANSWER_S)
        else:
            producer.commit_transaction(_ANSWER_S)
        with self._lock:
            self.fates.update(dict.fromkeys(stamps, fate))
            if fate == COMMITTED:
                self.transactions += 1
                self.total += len(stamps)
