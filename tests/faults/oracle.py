"""What a read_committed consumer sees, change by change: lost, duplicated, disordered, wrong, resurrected."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from databus.core.state.checkpoint import HistoryEntry
from tests.faults.changes import Key, text_of


@dataclass
class Verdict:
    """Counts of what must not be, with the first examples of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, kind: str, text: str) -> None:
        """Count one finding."""
        self.counts[kind] += 1
        if len(self.examples) < 40:
            self.examples.append(f"{kind}: {text}")

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.counts


class TopicReader:
    """Reads a topic on and on, as a read_committed consumer.

    Attributes:
        verdict: what was found, shared where several read.
    """

    def __init__(self, bootstrap: str, topic: str, verdict: Verdict | None = None):
        self.verdict = Verdict() if verdict is None else verdict
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "faults-oracle",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,  # else each end is told half a second late
                "log_level": 0,
            }
        )
        self._assigned = False
        self._next: dict[int, int] = {}

    def close(self) -> None:
        self._consumer.close()

    def poll(self, patience_s: float = 5.0) -> int:
        """Take in what came since the last call; return how many records that were."""
        if not self._assign():
            return 0
        taken, ended, deadline = 0, set[int](), time.monotonic() + patience_s
        while len(ended) < self._partitions and time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                ended.discard(message.partition())
                self.came(message)
                taken += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                continue
            self._next[message.partition()] = message.offset() + (error is None)
        return taken

    def came(self, message: Any) -> None:
        """Take in one record."""
        raise NotImplementedError

    def _assign(self) -> bool:
        if not self._assigned:
            known = self._consumer.list_topics(self._topic, timeout=20).topics[self._topic]
            if known.error is not None or not known.partitions:
                return False
            self._partitions = len(known.partitions)
            self._assigned = True
        # An end of partition is told once: assigned anew it is told again. A seek would do as well, but one did
        # not return after a broker had been killed (librdkafka), and with it the writer and the rounds stood still.
        places = range(self._partitions)
        self._consumer.assign([TopicPartition(self._topic, p, self._next.get(p, OFFSET_BEGINNING)) for p in places])
        return True


class TopicOracle(TopicReader):
    """Compares each record with its key's history."""

    def __init__(self, bootstrap: str, topic: str):
        super().__init__(bootstrap, topic)
        self.seen = 0
        self.tombstones: Counter[Key] = Counter()
        self._numbers: dict[Key, int] = {}
        self._ops: dict[Key, dict[int, str]] = {}
        self._skipped: dict[Key, set[int]] = {}
        self._ids: set[str] = set()

    def came(self, message: Any) -> None:
        """Judge one record."""
        self.take(message.key(), message.value(), f"{message.partition()}:{message.offset()}")

    def take(self, key: bytes, value: bytes | None, place: str) -> None:
        """Judge one record."""
        if value is None:
            self._tombstone(key)
            return
        self.seen += 1
        record = json.loads(value)
        source, op = record["source"], record["op"]
        row = record["before"] if op == "d" else record["after"]
        name: Key = (source["table"], row["id"])
        number = row["v"] + 1 if op == "d" else row["v"]
        last = self._numbers.get(name, 0)
        text = f"{name} change {number} ({op}) after {last} at {place}"
        if row["w"] != text_of(*name, row["v"]) or json.loads(key) != {"id": row["id"]}:
            self.verdict.add("wrong", text)
        if source["event_id"] in self._ids:
            self.verdict.add("duplicated", text)
            return
        self._ids.add(source["event_id"])
        if number in self._skipped.get(name, ()):
            self._skipped[name].discard(number)
            self.verdict.add("disordered", text)
        elif number <= last:
            self.verdict.add("duplicated", text)
        else:
            self._skipped.setdefault(name, set()).update(range(last + 1, number))
            self._numbers[name] = number
        self._ops.setdefault(name, {})[number] = op

    def _tombstone(self, key: bytes) -> None:
        # Tables share the topic and a tombstone names none: counted by id over both.
        self.tombstones["", json.loads(key)["id"]] += 1

    def settle(self, expected: Mapping[Key, Sequence[str]]) -> None:
        """Compare all that was seen with all that was written; call it when the path has caught up."""
        deletes: Counter[Key] = Counter()
        for name, ops in expected.items():
            seen = self._ops.get(name, {})
            deletes["", name[1]] += sum(op == "d" for op in ops)
            for number, op in enumerate(ops, 1):
                if number not in seen:
                    self.verdict.add("lost", f"{name} change {number} ({op})")
                elif seen[number] != op:
                    self.verdict.add("wrong", f"{name} change {number}: {op} became {seen[number]}")
            for number in seen:
                if number > len(ops):
                    self.verdict.add("ghost", f"{name} change {number}")
        for name in self._ops.keys() - expected.keys():
            self.verdict.add("ghost", f"{name}")
        for name in deletes.keys() | self.tombstones.keys():
            missing = deletes[name] - self.tombstones[name]
            if missing:
                self.verdict.add("lost" if missing > 0 else "duplicated", f"tombstones of id {name[1]}: {-missing:+d}")


def judge_history(newest_first: Sequence[HistoryEntry]) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for commits that do not follow from the one before, or come after a newer epoch's."""
    for later, entry in itertools.pairwise(newest_first):
        if later.epoch < entry.epoch:
            yield "zombie", f"epoch {later.epoch} committed batch {later.batch} after {entry}"
        moves = later.action != "snapshot"  # a decision on a snapshot moves nothing
        if later.previous != entry.offset or later.batch < entry.batch or (moves and later.batch == entry.batch):
            yield "lost", f"history: {later} does not follow from {entry}"


def judge_index(documents: Mapping[Key, Mapping[str, Any]], rows: Mapping[Key, int], verdict: Verdict) -> None:
    """Compare an index's documents with the rows that exist: key → version."""
    for name in documents.keys() - rows.keys():
        verdict.add("resurrected", f"{name} is gone, its document says v={documents[name].get('v')}")
    for name, version in rows.items():
        document = documents.get(name)
        if document is None:
            verdict.add("lost", f"no document of {name}")
        elif document["v"] != version or document["w"] != text_of(*name, version):
            verdict.add("wrong", f"document of {name} says v={document['v']}, the row {version}")
