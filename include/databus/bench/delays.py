"""Delays from commit to reader: rows are committed at a steady rate, a read_committed consumer notes each arrival."""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from databus.bench.loads import Load, LoadReceipt
from databus.core.errors.config import SandboxError

_PATIENCE_S = 60.0
_A_LITTLE_S = 0.5
_SOON_S = 3.0
"""Whoever still works off a backlog is later than this."""

_TWICE_S = 1.0
"""What comes twice comes within this time behind the last."""


@dataclass(frozen=True)
class Delays:
    """Delays of rows between write and read, as a reader measured them.

    Attributes:
        written: what was written.
        lost: rows that never arrived.
        repeated: arrivals beyond the first of a row.
        delays_s: seconds from just before each row was sent to be committed until it was read, ascending.
        by_second: second of sending, since the epoch → longest delay of its rows.
    """

    written: LoadReceipt
    lost: int
    repeated: int
    delays_s: Sequence[float]
    by_second: dict[int, float]


def measured(load: Load, bootstrap: str, topics: Sequence[str], seconds: float) -> Delays:
    """Commit rows for so long, and time their arrival in topics that exist.

    Args:
        load: what is written.
        bootstrap: the brokers to read.
        topics: where the rows arrive.
        seconds: how long is written.

    Raises:
        SandboxError: the topics could not be read.
    """
    reader = Reader(bootstrap, topics)
    reader.start()
    reader.ready()
    try:
        written = load.write(seconds)
        reader.wait_for(written)
    finally:
        reader.stop()
    return reader.delays(written)


@contextmanager
def topic_ends(bootstrap: str, topics: Sequence[str]) -> Iterator[Callable[[], list[int]]]:
    """Give what returns the sum of the ends of each topic's partitions, 0 while there is no such topic.

    Args:
        bootstrap: the brokers to ask.
        topics: they need not be there yet.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "databus-bench-end", "log_level": 0}
    with closing(Consumer(settings)) as asked:

        def end_of(topic: str) -> int:
            # A client that asks for the end of a topic not there yet waits, and may not see it come.
            known = asked.list_topics(timeout=30).topics.get(topic)
            there = known is not None and known.error is None
            places = [TopicPartition(topic, p) for p in known.partitions] if known is not None and there else []
            try:
                return sum(asked.get_watermark_offsets(place, timeout=30, cached=False)[1] for place in places)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                    raise
                return 0  # A topic made a moment ago, whose leader is not known everywhere.

        yield lambda: [end_of(topic) for topic in topics]


def until_followed(
    load: Load, bootstrap: str, topics: Sequence[str], within_s: float, alive: Callable[[], Any]
) -> None:
    """Write a little again and again until all of it arrives soon.

    Args:
        load: what is written.
        bootstrap: brokers of the topics.
        topics: where it arrives; they need not be there yet.
        within_s: how long it may take.
        alive: raises where waiting is in vain.

    Raises:
        SandboxError: it does not arrive, or late.
    """
    deadline, found = time.monotonic() + within_s, "nothing"
    while time.monotonic() < deadline:
        alive()
        with topic_ends(bootstrap, topics) as ends:
            there = all(ends())
        if not there:
            load.write(_A_LITTLE_S)
            time.sleep(1)
            continue
        seen = measured(load, bootstrap, topics, _A_LITTLE_S)
        if not seen.lost and seen.delays_s[-1] < _SOON_S:
            return
        found = f"{seen.lost} of {seen.written.rows} rows in vain, the others after {seen.delays_s[-1:]} s"
    raise SandboxError(f"{', '.join(topics)} do not follow what is written within {within_s:.0f} s: {found}")


class Reader(threading.Thread):
    """Reads topics from their present ends on, as a read_committed consumer that waits for nothing."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        super().__init__(name="bench-reader", daemon=True)
        self._servers, self._topics = bootstrap, topics
        self._assigned, self._done = threading.Event(), threading.Event()
        self._numbers, self._sent_us, self._delays = array("q"), array("q"), array("d")
        self._error: BaseException | None = None

    def run(self) -> None:
        """Read until `stop`."""
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            self._error = error
            self._assigned.set()

    def ready(self) -> None:
        """Wait until every row that is committed from now on will be read."""
        self._assigned.wait()
        self._raise()

    def wait_for(self, written: LoadReceipt) -> None:
        """Wait until all of them arrived, or nothing came for long."""
        last, since = -1, time.monotonic()
        behind = written.first + written.rows
        seen, looked_at = set[int](), 0
        while self.is_alive() and len(seen) < written.rows and time.monotonic() - since < _PATIENCE_S:
            now = len(self._delays)
            seen.update(n for n in self._numbers[looked_at:now] if written.first <= n < behind)
            looked_at = now
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.2)
        time.sleep(_TWICE_S)

    def stop(self) -> None:
        """Stop reading.

        Raises:
            SandboxError: the topics could not be read.
        """
        self._done.set()
        self.join()
        self._raise()

    def delays(self, written: LoadReceipt) -> Delays:
        """Return what was seen of rows that were written; others are left out."""
        behind = written.first + written.rows
        seen, found, by_second = set[int](), array("d"), defaultdict[int, float](float)
        arrived = 0
        for number, sent_us, delay in zip(self._numbers, self._sent_us, self._delays, strict=False):
            if not written.first <= number < behind:
                continue
            arrived += 1
            if number not in seen:
                seen.add(number)
                found.append(delay)
                by_second[sent_us // 1_000_000] = max(delay, by_second[sent_us // 1_000_000])
        return Delays(written, written.rows - len(seen), arrived - len(seen), sorted(found), dict(by_second))

    def _raise(self) -> None:
        if self._error is not None:
            raise SandboxError(f"{', '.join(self._topics)} cannot be read: {self._error}") from self._error

    def _read(self) -> None:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        settings = {
            "bootstrap.servers": self._servers,
            "group.id": "databus-bench-freshness",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
        with closing(Consumer(settings)) as consumer:
            known = consumer.list_topics(timeout=30).topics
            places = [TopicPartition(topic, p) for topic in self._topics for p in known[topic].partitions]
            for place in places:
                place.offset = consumer.get_watermark_offsets(place, timeout=30, cached=False)[1]
            consumer.assign(places)
            self._assigned.set()
            while not self._done.is_set():
                message = consumer.poll(0.1)  # `consume` of many would wait for them, and date them all late
                if message is None:
                    continue
                now, error = time.time(), message.error()
                if error is not None:
                    raise KafkaException(error)
                self._take(message.value(), now)

    def _take(self, value: bytes | None, now: float) -> None:
        if value is None:
            return
        row = json.loads(value)
        row = row.get("after", row)
        self._numbers.append(row["id"])
        self._sent_us.append(row["sent_us"])
        self._delays.append(now - row["sent_us"] / 1e6)
