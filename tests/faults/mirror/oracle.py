"""Compares the committed records of both sides, place by place: key, value, headers, time, partition, order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from tests.faults.mirror.writer import ABORTED, COMMITTED
from tests.faults.oracle import TopicReader, Verdict

Record = tuple[int, Any, Any, Any]
"""Time, key, value, headers."""
Place = tuple[str, int]


def facts(message: Any) -> Record:
    """Return what a record is, its place apart; no headers at all and an empty list are the same on the wire."""
    return message.timestamp()[1], message.key(), message.value(), message.headers() or None


class _Side(TopicReader):
    """One topic of one side."""

    def __init__(self, bootstrap: str, topic: str, verdict: Verdict):
        super().__init__(bootstrap, topic, verdict)
        self.new: deque[tuple[int, Record]] = deque()

    def came(self, message: Any) -> None:
        self.new.append((message.partition(), facts(message)))


class Comparison:
    """Judges records of the target against those of the source, partition by partition; reads nothing.

    Attributes:
        verdict: what was found.
        seen: records that are where they belong.
    """

    def __init__(self, verdict: Verdict):
        self.verdict, self.seen = verdict, 0
        self._source: defaultdict[Place, list[Record]] = defaultdict(list)
        self._known: dict[int, tuple[Place, int]] = {}
        self._next: defaultdict[Place, int] = defaultdict(int)
        self._skipped: set[int] = set()

    def of_source(self, place: Place, record: Record) -> None:
        """Take in a committed record of the source."""
        log = self._source[place]
        if record[0] in self._known:
            self.verdict.add("duplicated", f"the source itself holds {record[0]} twice, at {place}")
        self._known[record[0]] = place, len(log)
        log.append(record)

    def of_target(self, place: Place, record: Record) -> None:
        """Judge a committed record of the target, after all that was committed at the source before it."""
        stamp, at = record[0], self._next[place]
        if stamp not in self._known:
            self.verdict.add("ghost", f"{record} at {place} of the target is not committed at the source")
            return
        belongs, number = self._known[stamp]
        if belongs != place:
            self.verdict.add("wrong", f"{stamp} of {belongs} came into {place}")
            return
        if record != self._source[place][number]:
            self.verdict.add("wrong", f"{place} {number}: {self._source[place][number]} became {record}")
        if stamp in self._skipped:
            self._skipped.discard(stamp)
            self.verdict.add("disordered", f"{stamp} came late into {place}, behind record {at - 1}")
        elif number < at:
            self.verdict.add("duplicated", f"{stamp}, record {number} of {place}, came again behind {at - 1}")
        else:
            for missing in self._source[place][at:number]:
                self._skipped.add(missing[0])
                self.verdict.add("lost", f"{missing[0]} of {place} is not there when {stamp} comes")
            self._next[place] = number + 1
            self.seen += 1

    def settle(self, fates: Mapping[int, str]) -> None:
        """Compare with all that was written, when everything should have arrived."""
        for place, log in self._source.items():
            for record in log[self._next[place] :]:
                self.verdict.add("lost", f"{record[0]} of {place} has not arrived")
        for stamp, fate in fates.items():
            if fate == COMMITTED and stamp not in self._known:
                self.verdict.add("lost", f"{stamp} was committed, and the source does not hold it")
            elif fate == ABORTED and stamp in self._known:
                self.verdict.add("ghost", f"{stamp} was aborted, and the source holds it")


class MirrorOracle:
    """Reads both sides on and on.

    Attributes:
        verdict: what was found.
    """

    def __init__(self, source: str, target: str, topics: Sequence[str]):
        self.verdict = Verdict()
        self._comparison = Comparison(self.verdict)
        self._sides = {
            topic: (_Side(source, topic, self.verdict), _Side(target, topic, self.verdict)) for topic in topics
        }

    @property
    def seen(self) -> int:
        """Records that are where they belong."""
        return self._comparison.seen

    def close(self) -> None:
        for sides in self._sides.values():
            for side in sides:
                side.close()

    def poll(self, patience_s: float = 5.0) -> int:
        """Read the target, then the source, and compare; return how many records of the target came."""
        taken = 0
        for topic, (source, target) in self._sides.items():
            # In this order: all that is committed at the target by now was committed at the source before.
            taken += target.poll(patience_s)
            source.poll(patience_s)
            while source.new:
                partition, record = source.new.popleft()
                self._comparison.of_source((topic, partition), record)
            while target.new:
                partition, record = target.new.popleft()
                self._comparison.of_target((topic, partition), record)
        return taken

    def settle(self, expected: Mapping[int, str]) -> None:
        """Compare all that has arrived with all that was written; call it when the mirror has caught up."""
        self._comparison.settle(expected)
