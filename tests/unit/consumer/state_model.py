"""Model of a flow with two Kafka sinks, of compaction and retention, for a look-back to be run on step by step.

One of two partitions is looked at: every partition is looked back on by itself. Nothing of the product is imitated but
the brokers and the flow; what reads is the product's own `LookBack` and `Progress`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from databus.consumer.change import Place
from databus.consumer.look_back import Marks, SinkMark, TakenRecords
from databus.consumer.spill import StoredMessage

PARTITIONS = 2
CHANGES, STATE = ("cdc.t", 1), ("state.t", 1)
SINKS = ("changes", "state")
KINDS = (
    (3, 4, 60, 0.1, 0.05, 4),
    (6, 2, 60, 0.4, 0.05, 4),
    (30, 1, 12, 0.2, 0.05, 4),
    (3, 4, 60, 0.1, 0.3, 1),
)
"""Kinds of histories: keys, records taken at once, steps that tombstones are kept, chances of compaction and of falling
behind, rows of a batch by which the state catches up."""


@dataclass
class Row:
    """Row change of the source, by a number that grows."""

    key: str
    number: int
    deleted: bool


@dataclass
class Log:
    """Partition: records by offset, with holes where compaction, retention or control records are."""

    place: Place
    records: dict[int, StoredMessage] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    opened: int | None = None

    @property
    def readable(self) -> int:
        """Offset of the first record of a transaction that is open here, else the end."""
        return self.end if self.opened is None else self.opened

    def append(self, key: str, event_id: str, value: bytes | None) -> None:
        headers = [("event_id", event_id.encode())]
        self.records[self.end] = StoredMessage(*self.place, self.end, key.encode(), value, headers)
        self.end += 1


@dataclass
class Write:
    """Transaction of a slot: its partitions and its marker learn one after the other that it was committed."""

    sink: str
    slot: int
    batch: int
    whole: bool
    rows: list[Row]
    decided: bool = False
    parts: list[int] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)


MARKER = -1
"""Part of a write: its marker."""


def partition_of(key: str) -> int:
    """Return the partition of a key."""
    return int(key[1:]) % PARTITIONS


class Flow:
    """Flow that commits batches, each slot of a sink of changes and of one of the state by itself.

    The state's sink falls behind at times: then it has batches of its own, with greater numbers and older rows. In some
    histories rows come again: the flow is moved back, or a batch is closed half written and its rows go into the next,
    all of them (over several batches equal numbers would say too much: the guide says so).

    Attributes:
        tombstones: steps for which a tombstone is kept since it was first compacted.
        at_once: records that a reader takes at once at most.
        repeats: whether rows come again.
    """

    def __init__(self, chance: random.Random):
        self.chance = chance
        topics = {"changes": CHANGES[0], "state": STATE[0]}
        self.logs = {(sink, n): Log((topic, n)) for sink, topic in topics.items() for n in range(PARTITIONS)}
        self.changes, self.state = self.logs["changes", CHANGES[1]], self.logs["state", STATE[1]]
        self.written: list[tuple[int, Row]] = []
        self.marks: dict[str, dict[int, SinkMark]] = {sink: {} for sink in SINKS}
        self.busy: dict[tuple[str, int], Write] = {}
        self.now = 0
        self._living: dict[str, int] = {}
        self._rows = self._batch = self._closed = 0
        self._todo: list[Write] = []
        self._planned: list[Row] = []
        self._source: list[Row] = []
        self._again: list[Row] = []
        self._behind: list[Row] | None = None
        self._horizons: dict[int, int] = {}
        self._deletes = chance.choice((0.2, 0.5))
        self._keys, self.at_once, self.tombstones, self._compacts, self._falls, self._catches = chance.choice(KINDS)
        self._slots = chance.choice((1, 2))
        self.repeats = chance.random() < 0.3

    @property
    def alive(self) -> dict[str, int]:
        """Key → number of the rows of the partition that is looked at."""
        return {key: number for key, number in self._living.items() if partition_of(key) == CHANGES[1]}

    def step(self) -> None:
        """Do one thing: plan a batch or go on with one, compact, retire, fall behind, catch up, go back."""
        self.now += 1
        roll = self.chance.random()
        if roll > self._compacts + self._falls + 0.05:
            self._work()
        elif roll < self._compacts:
            self._compact()
        elif roll < self._compacts + self._falls:
            self._fall_behind()
        elif roll < self._compacts + self._falls + 0.03:
            self._retire()
        elif self.repeats:
            self._repeat()

    def calm_down(self) -> None:
        """Fall behind seldom from now on, so that a look-back ends."""
        self._falls, self._catches, self.tombstones = 0.02, 8, 10_000

    def quiet(self) -> None:
        """Bring both sinks to the same batch, and stop."""
        while self._todo or self.busy or self._behind is not None or self._again:
            if self._ready and self._behind is not None:
                self._fall_behind()
            else:
                self._work()
        self._plan()
        while self._todo or self.busy:
            self._work()

    def source_at(self, offset: int) -> dict[str, int]:
        """Return key → number of the rows that are there behind the changes before an offset."""
        found = {row.key: row for at, row in self.written if at < offset}
        return {key: row.number for key, row in found.items() if not row.deleted}

    @property
    def _ready(self) -> bool:
        """True where the batch before is decided everywhere."""
        return not self._todo and all(write.decided for write in self.busy.values())

    def _work(self) -> None:
        can: list[Callable[[], None]] = [partial(self._advance, write) for write in self.busy.values()]
        first: dict[tuple[str, int], Write] = {}
        for write in self._todo:
            first.setdefault((write.sink, write.slot), write)
        can += [partial(self._start, write) for key, write in first.items() if key not in self.busy]
        if self._ready:
            can.append(self._fall_behind if self._behind is not None and self.chance.random() < 0.7 else self._plan)
        self.chance.choice(can)()

    def _plan(self) -> None:
        self._batch += 1
        if self._behind is None and self._slots == 1 and self.chance.random() < 0.02:
            self._slots = 2
        most = max(self.chance.randint(0, 5), self._closed)
        self._closed = 0
        rows, self._again = self._again[:most], self._again[most:]
        if not self._again:
            rows += [self._change() for _ in range(most - len(rows))]
        self._planned = rows
        self._write_to("changes", rows)
        if self._behind is not None:
            self._behind += rows
        else:
            self._write_to("state", rows)

    def _write_to(self, sink: str, rows: list[Row]) -> None:
        for slot in range(self._slots):
            own = [row for row in rows if partition_of(row.key) % self._slots == slot]
            cut = self.chance.randint(0, len(own)) if self.chance.random() < 0.3 else 0
            if cut:
                self._todo.append(Write(sink, slot, self._batch, False, own[:cut]))
            self._todo.append(Write(sink, slot, self._batch, True, own[cut:]))

    def _fall_behind(self) -> None:
        if not self._ready or self._again:
            return
        if self._behind is None:
            self._behind = []
            return
        part = self._behind[: self.chance.randint(0, self._catches)]
        del self._behind[: len(part)]
        self._batch += 1
        self._write_to("state", part)
        if not self._behind:
            self._behind = None

    def _repeat(self) -> None:
        """Move the flow back, or close the batch that is half written: its rows come again."""
        if self._behind is not None:
            return
        if self._ready and not self._again:
            self._again = self._source[-self.chance.randint(1, 12) :]
        elif self._todo and not self.busy:
            for sink in SINKS:
                for slot in range(self._slots):
                    mark = self.marks[sink].get(slot)
                    if mark is None or mark.batch < self._batch:
                        self.marks[sink][slot] = SinkMark(slot, self._batch, True, nothing=True)
            self._todo, self._again = [], [*self._planned, *self._again]
            self._closed = len(self._planned)

    def _change(self) -> Row:
        key = f"k{self.chance.randrange(PARTITIONS * self._keys)}"
        row = Row(key, self._rows, deleted=key in self._living and self.chance.random() < self._deletes)
        self._rows += 1
        self._source.append(row)
        if row.deleted:
            del self._living[key]
        else:
            self._living[key] = row.number
        return row

    def commit(self, sink: str, batch: int, rows: Sequence[Row]) -> None:
        """Write rows and the marker of a flow of one slot at once."""
        write = Write(sink, 0, batch, True, list(rows))
        self._todo.append(write)
        self._start(write)
        write.decided = True
        while write.parts:
            self._advance(write)

    def _start(self, write: Write) -> None:
        """Produce the rows of a transaction."""
        self._todo.remove(write)
        self.busy[write.sink, write.slot] = write
        write.parts, write.decided, write.offsets = [MARKER], False, []
        for row in write.rows:
            number = partition_of(row.key)
            log = self.logs[write.sink, number]
            if number not in write.parts:
                write.parts.append(number)
                log.opened = log.end
            write.offsets += [(number, log.end), *([(number, log.end + 1)] if row.deleted else [])]
            self._produce(write.sink, log, row)

    def _produce(self, sink: str, log: Log, row: Row) -> None:
        event_id, op = f"e{row.number}", "d" if row.deleted else "c"
        image = f'{{"id":"{row.key}","n":{row.number}}}'
        if sink == "changes":
            if log is self.changes:
                self.written.append((log.end, row))
            images = f'"before":{image},"after":null' if row.deleted else f'"before":null,"after":{image}'
            value = f'{{"op":"{op}",{images},"source":{{"db":"shop","table":"t","event_id":"{event_id}"}}}}'
        else:
            value = f'{image[:-1]},"__op":"{op}","__deleted":{"true" if row.deleted else "false"}}}'
        log.append(row.key, event_id, value.encode())
        if row.deleted:
            log.append(row.key, event_id, None)

    def _advance(self, write: Write) -> None:
        """Decide a transaction, or tell one partition of it."""
        if not write.decided:
            write.decided = True
            if self.chance.random() < 0.1:
                self._abort(write)
            return
        part = write.parts.pop(self.chance.randrange(len(write.parts)))
        if part == MARKER:
            self.marks[write.sink][write.slot] = SinkMark(write.slot, write.batch, write.whole)
        else:
            self._control(self.logs[write.sink, part])
        if not write.parts:
            del self.busy[write.sink, write.slot]

    def _abort(self, write: Write) -> None:
        gone = set(write.offsets)
        for number, offset in gone:
            del self.logs[write.sink, number].records[offset]
        if write.sink == "changes":
            self.written = [(at, row) for at, row in self.written if (CHANGES[1], at) not in gone]
        for part in write.parts:
            if part != MARKER:
                self._control(self.logs[write.sink, part])
        del self.busy[write.sink, write.slot]
        self._todo.insert(0, write)

    def _control(self, log: Log) -> None:
        log.opened = None
        log.end += 1

    def _compact(self) -> None:
        """Keep the newest record of each key below an offset, and tombstones for their time since a first look."""
        upto = self.chance.randint(0, self.state.readable)
        newest = {record.key(): offset for offset, record in self.state.records.items() if offset < upto}
        for offset, record in list(self.state.records.items()):
            if offset >= upto:
                continue
            if newest[record.key()] != offset or (record.value() is None and self.now >= self._horizon(offset)):
                del self.state.records[offset]

    def _horizon(self, offset: int) -> int:
        return self._horizons.setdefault(offset, self.now + self.tombstones)

    def _retire(self) -> None:
        """Let retention pass some of the changes."""
        self.changes.begin = self.chance.randint(self.changes.begin, self.changes.readable)
        for offset in [offset for offset in self.changes.records if offset < self.changes.begin]:
            del self.changes.records[offset]


class Brokers:
    """The model as a look-back asks it; between two questions the flow may do something.

    Args:
        flow: the flow.
        still: whether it does nothing.
    """

    def __init__(self, flow: Flow, *, still: bool = False):
        self.flow, self._still = flow, still
        self._reading: dict[Place, int] = {}

    def _meanwhile(self) -> None:
        while not self._still and self.flow.chance.random() < 0.5:
            self.flow.step()

    def _log(self, place: Place) -> Log:
        return self.flow.changes if place == CHANGES else self.flow.state

    def end(self, place: Place) -> int:
        self._meanwhile()
        return self._log(place).readable

    def high(self, place: Place) -> int:
        self._meanwhile()
        return self._log(place).end

    def marks(self, sink: str) -> Marks:
        self._meanwhile()
        for write in self.flow.busy.values():
            if write.sink == sink and MARKER in write.parts and (write.decided or self.flow.chance.random() < 0.5):
                return ()
        return tuple(self.flow.marks[sink].values())

    def begin(self, place: Place, offset: int | None) -> None:
        self._reading[place] = self._log(place).begin if offset is None else offset

    def taken(self, place: Place) -> TakenRecords:
        self._meanwhile()
        log, at = self._log(place), self._reading[place]
        if at < log.begin:
            return TakenRecords((), -1, True)
        readable, chance = log.readable, self.flow.chance
        upto = chance.randint(min(at, readable), readable) if chance.random() < 0.1 else readable  # of a late answer
        offsets = [offset for offset in log.records if at <= offset < upto]
        taken = offsets[: chance.randint(0, self.flow.at_once)]
        if taken:
            self._reading[place] = taken[-1] + 1
        return TakenRecords([log.records[offset] for offset in taken], upto if taken == offsets else -1, False)

    def finish(self, place: Place) -> None:
        self._reading.pop(place, None)

    def clock(self) -> float:
        return float(self.flow.now)
