"""Model of a flow with two Kafka sinks, of compaction and retention, for a look-back to be run on step by step.

One partition: every partition is looked back on by itself. Nothing of the product is imitated but the brokers and the
flow; what reads is the product's own `LookBack` and `Progress`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from databus.consumer.change import Place
from databus.consumer.look_back import Marks, SinkMark, TakenRecords
from databus.consumer.spill import StoredMessage

CHANGES, STATE = ("cdc.t", 0), ("state.t", 0)
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

    def append(self, key: str, event_id: str, value: bytes | None) -> None:
        headers = [("event_id", event_id.encode())]
        self.records[self.end] = StoredMessage(*self.place, self.end, key.encode(), value, headers)
        self.end += 1


class Flow:
    """Flow that commits batches to a sink of changes and one of the state, one after the other.

    The state's sink falls behind at times: then it has batches of its own, with greater numbers and older rows.

    Attributes:
        tombstones: steps for which a tombstone is kept since it was first compacted.
        at_once: records that a reader takes at once at most.
    """

    def __init__(self, chance: random.Random):
        self.chance = chance
        self.changes, self.state = Log(CHANGES), Log(STATE)
        self.alive: dict[str, int] = {}
        self.written: list[tuple[int, Row]] = []
        self.marks: dict[str, SinkMark | None] = {"changes": None, "state": None}
        self.now = 0
        self._rows = self._batch = 0
        self._pending: list[tuple[str, bool, int, list[Row]]] = []
        self._behind: list[Row] | None = None
        self._horizons: dict[int, int] = {}
        self._deletes = chance.choice((0.2, 0.5))
        self._keys, self.at_once, self.tombstones, self._compacts, self._falls, self._catches = chance.choice(KINDS)

    def step(self) -> None:
        """Do one thing: plan a batch or commit it at a sink, compact, retire, fall behind, catch up."""
        self.now += 1
        roll = self.chance.random()
        if roll > self._compacts + self._falls + 0.03:
            if self._pending:
                self.commit(*self._pending.pop(0))
            elif self._behind is not None and self.chance.random() < 0.7:
                self._fall_behind()
            else:
                self._plan()
        elif roll < self._compacts:
            self._compact()
        elif roll < self._compacts + self._falls:
            self._fall_behind()
        else:
            self._retire()

    def calm_down(self) -> None:
        """Fall behind seldom from now on, so that a look-back ends."""
        self._falls, self._catches, self.tombstones = 0.02, 8, 10_000

    def quiet(self) -> None:
        """Bring both sinks to the same batch, and stop."""
        while self._pending or self._behind is not None:
            if self._pending:
                self.commit(*self._pending.pop(0))
            else:
                self._fall_behind()
        self._plan()
        while self._pending:
            self.commit(*self._pending.pop(0))

    def source_at(self, offset: int) -> dict[str, int]:
        """Return key → number of the rows that are there behind the changes before an offset."""
        found = {row.key: row for at, row in self.written if at < offset}
        return {key: row.number for key, row in found.items() if not row.deleted}

    def _plan(self) -> None:
        self._batch += 1
        rows = [self._change() for _ in range(self.chance.randint(0, 5))]
        cut = self.chance.randint(0, len(rows)) if self.chance.random() < 0.3 else 0
        chunks = [("changes", False, self._batch, rows[:cut])] if cut else []
        chunks.append(("changes", True, self._batch, rows[cut:]))
        state = ("state", True, self._batch, rows)
        if self._behind is not None:
            self._behind += rows
            self._pending = chunks
        else:
            self._pending = [state, *chunks] if self.chance.random() < 0.5 else [*chunks, state]

    def _fall_behind(self) -> None:
        if self._pending:
            return
        if self._behind is None:
            self._behind = []
            return
        part = self._behind[: self.chance.randint(0, self._catches)]
        del self._behind[: len(part)]
        self._batch += 1
        self.commit("state", True, self._batch, part)
        if not self._behind:
            self._behind = None

    def _change(self) -> Row:
        key = f"k{self.chance.randrange(self._keys)}"
        row = Row(key, self._rows, deleted=key in self.alive and self.chance.random() < self._deletes)
        self._rows += 1
        if row.deleted:
            del self.alive[key]
        else:
            self.alive[key] = row.number
        return row

    def commit(self, sink: str, whole: bool, batch: int, rows: Sequence[Row]) -> None:
        """Write rows and the marker in one transaction; `whole` where the batch ends with them."""
        log = self.changes if sink == "changes" else self.state
        for row in rows:
            event_id, op = f"e{row.number}", "d" if row.deleted else "c"
            image = f'{{"id":"{row.key}","n":{row.number}}}'
            if sink == "changes":
                self.written.append((log.end, row))
                images = f'"before":{image},"after":null' if row.deleted else f'"before":null,"after":{image}'
                value = f'{{"op":"{op}",{images},"source":{{"db":"shop","table":"t","event_id":"{event_id}"}}}}'
            else:
                value = f'{image[:-1]},"__op":"{op}","__deleted":{"true" if row.deleted else "false"}}}'
            log.append(row.key, event_id, value.encode())
            if row.deleted:
                log.append(row.key, event_id, None)
        log.end += 1 if rows else 0  # the control record
        before = self.marks[sink]
        end = str(rows[-1].number) if rows else "" if before is None else before.end
        self.marks[sink] = SinkMark(batch, whole, end)

    def _compact(self) -> None:
        """Keep the newest record of each key below an offset, and tombstones for their time since a first look."""
        upto = self.chance.randint(0, self.state.end)
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
        self.changes.begin = self.chance.randint(self.changes.begin, self.changes.end)
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
        return self._log(place).end

    def marks(self, sink: str) -> Marks:
        self._meanwhile()
        mark = self.flow.marks[sink]
        return () if mark is None else (mark,)

    def begin(self, place: Place, offset: int | None) -> None:
        self._reading[place] = self._log(place).begin if offset is None else offset

    def taken(self, place: Place) -> TakenRecords:
        self._meanwhile()
        log, at = self._log(place), self._reading[place]
        if at < log.begin:
            return TakenRecords((), False, True)
        most = self.flow.chance.randint(0, self.flow.at_once)
        offsets = list(islice((offset for offset in log.records if offset >= at), most))
        if offsets:
            self._reading[place] = offsets[-1] + 1
        newest = next(reversed(log.records), -1)
        return TakenRecords([log.records[offset] for offset in offsets], newest < self._reading[place], False)

    def finish(self, place: Place) -> None:
        self._reading.pop(place, None)

    def clock(self) -> float:
        return float(self.flow.now)
