"""A flow that is edited in mid-batch, again and again: its index gets there, and never stops at its own documents.

Planning, commits, offsets, lives and versions are the product's; log, index and a batch's delivery are modelled.
A batch that ends early has written any of its documents, in any order (several slots, windows of requests).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus import Batching, Elasticsearch, Flow, KafkaTopics, MysqlBinlog
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.plan import SourcePlan
from databus.core.times import SystemClock
from databus.rows.versions import versions_of
from databus.runtime.commit import commit
from databus.runtime.context import FlowSession, RunIdentity
from databus.runtime.pacing.batch_sizing import Pace
from databus.runtime.plan import PlannedBatch, next_plan
from databus.sinks.markerless import UnmarkedSink
from databus.sources.kafka.positions import LogState, advanced, shares
from databus.sources.kafka.ranges import backlog_of, kafka_offsets, stretches_of
from databus.testing.memory_store import MemoryCheckpoints

KEYS = 4


@dataclass
class Row:
    """A change of a key: its value is its number, which only grows."""

    file: str
    position: int
    key: str
    value: int


@dataclass
class BinlogLog:
    """Rows at positions of one file."""

    rows: list[Row] = field(default_factory=list)

    def begin(self) -> Offset:
        return BinlogOffset("bin.000001", 4)

    def add(self, key: int, value: int) -> None:
        self.rows.append(Row("bin.000001", 5 + len(self.rows), f"k{key}", value))

    def grow(self, key: int) -> None:
        """Do nothing: it is one log."""

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        assert isinstance(after, BinlogOffset)
        end = min(after.pos + limit.max_rows, 4 + len(self.rows))
        return self.reopen(OffsetRange(after, replace(after, pos=end))) if end > after.pos else None

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        return SourcePlan(planned, (), 1, 1)

    def between(self, start: Offset, end: Offset) -> Iterator[Row]:
        assert isinstance(start, BinlogOffset)
        assert isinstance(end, BinlogOffset)
        yield from self.rows[start.pos - 4 : end.pos - 4]

    def close(self) -> None:
        pass


@dataclass
class TopicLog:
    """A topic; a key is in one partition, and goes on in a new one when the topic has grown."""

    partitions: list[list[tuple[str, int]]] = field(default_factory=lambda: [[], []])
    home: dict[int, int] = field(default_factory=lambda: {key: key % 2 for key in range(KEYS)})

    def begin(self) -> Offset:
        return KafkaOffsets({"t": {0: 0, 1: 0}}, {"t": "id"})

    def add(self, key: int, value: int) -> None:
        self.partitions[self.home[key]].append((f"k{key}", value))

    def grow(self, key: int) -> None:
        self.home[key] = len(self.partitions)
        self.partitions.append([])

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        start, state = kafka_offsets(after), self._state()
        taken = shares(backlog_of(start, state), limit.max_rows)
        return self.reopen(OffsetRange(start, advanced(start, state, taken))) if taken else None

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        return SourcePlan(planned, (), 1, 1)

    def between(self, start: Offset, end: Offset) -> Iterator[Row]:
        for piece in stretches_of(kafka_offsets(start), kafka_offsets(end)):
            for offset in range(piece.begin, piece.end):
                yield Row(f"t[{piece.partition}]", offset, *self.partitions[piece.partition][offset])

    def close(self) -> None:
        pass

    def _state(self) -> LogState:
        ends = {("t", number): len(records) for number, records in enumerate(self.partitions)}
        return LogState({"t": "id"}, dict.fromkeys(ends, 0), ends, dict.fromkeys(ends, 0))


class Indexed:
    """A flow of a log into an index, under definitions that differ in the size of a batch."""

    def __init__(self, log: BinlogLog | TopicLog):
        self.log, self.value, self.definition = log, 0, 0
        self.documents: dict[str, tuple[int, int]] = {}
        self.store = MemoryCheckpoints()
        source: Any = MysqlBinlog(conn_id="m", tables=("s.t",)) if isinstance(log, BinlogLog) else KafkaTopics(
            conn_id="k", topics=("t",)
        )  # fmt: skip
        self.flow = Flow(name="f", source=source, sinks=(Elasticsearch(conn_id="e", index="i", name="search"),))
        self.lease = self.store.claim("f", "run", 0)
        self.checkpoint = self.store.start("f", self.lease, log.begin(), "run")

    def edit(self, rows: int) -> None:
        self.definition += 1
        self.flow = self.flow.model_copy(update={"batching": Batching(max_rows=rows)})

    def write(self, key: int) -> None:
        self.value += 1
        self.log.add(key, self.value)

    def planned(self) -> PlannedBatch | None:
        """Plan as a run does that has just claimed the flow."""
        log: Any = self.log
        recorder: Any = None
        who = RunIdentity("run", "", "1", f"{self.definition}")
        session = FlowSession(
            self.flow, Settings("t", "", ""), self.store, recorder, SystemClock(), None, who, log,
            {"search": UnmarkedSink("search")},
        )  # fmt: skip
        self.session = session
        return next_plan(session, self.lease, self.checkpoint)

    def deliver(self, batch: PlannedBatch, chosen: list[int] | None = None) -> None:
        """Write the documents of a batch; with numbers only some of them, in that order, and commit nothing."""
        plan = batch.plan
        versions = versions_of(plan.range.end, plan.closed_until)
        newest: dict[str, Row] = {}
        for row in self.log.between(plan.range.start, plan.range.end):
            known = newest.get(row.key)
            if known is None or versions.of(row.file, row.position) >= versions.of(known.file, known.position):
                newest[row.key] = row
        rows = list(newest.values())
        for row in rows if chosen is None else [rows[n % len(rows)] for n in chosen if rows]:
            version = versions.of(row.file, row.position)
            there = self.documents.get(row.key, (-1, 0))[0]
            if there > version:
                assert versions.ahead((row.file, row.position), there) == "", f"stopped at {row}: {there} is there"
            else:
                self.documents[row.key] = (version, row.value)
        if chosen is None:
            self.checkpoint = commit(self.session, self.lease, batch, {}, (), Pace())

    def finish(self) -> None:
        while (batch := self.planned()) is not None:
            self.deliver(batch)

    def newest(self) -> dict[str, int]:
        found: dict[str, int] = {}
        rows = self.log.rows if isinstance(self.log, BinlogLog) else [
            Row("", 0, *record) for records in self.log.partitions for record in records
        ]  # fmt: skip
        for row in rows:
            found[row.key] = max(found.get(row.key, 0), row.value)
        return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, KEYS - 1)),
        st.tuples(st.just("edit"), st.integers(1, 12)),
        st.tuples(st.just("die"), st.lists(st.integers(0, KEYS - 1), max_size=KEYS)),
        st.tuples(st.just("move"), st.just(0)),
        st.tuples(st.just("grow"), st.integers(0, KEYS - 1)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("log", [BinlogLog, TopicLog])
@given(played=steps)
@settings(deadline=None, max_examples=3 * settings.default.max_examples)
def test_an_index_shows_the_newest_of_each_key_however_often_its_flow_is_planned_anew(
    log: type[BinlogLog] | type[TopicLog], played: list[tuple[str, Any]]
) -> None:
    flow, moved = Indexed(log()), set[int]()
    for step, told in played:
        if step == "write":
            flow.write(told)
        elif step == "edit":
            flow.edit(told)
        elif step == "grow":
            # Nothing orders what a key has in two partitions that are new at the same look (ADR 42).
            if told not in moved:
                flow.log.grow(told)
            moved.add(told)
        elif (batch := flow.planned()) is not None:
            flow.deliver(batch, told if step == "die" else None)
    flow.finish()
    assert {key: value for key, (_, value) in flow.documents.items()} == flow.newest()
    assert flow.checkpoint.closed_until is None


@pytest.mark.parametrize("log", [BinlogLog, TopicLog])
def test_a_smaller_batch_meets_what_the_one_before_it_wrote(log: type[BinlogLog] | type[TopicLog]) -> None:
    flow = Indexed(log())
    for key in (0, 1, 2, 3, 0, 1, 2, 3):
        flow.write(key)
    first = flow.planned()
    assert first is not None
    flow.deliver(first, [0, 1])
    flow.edit(1)
    second = flow.planned()
    assert second is not None
    assert (first.plan.closed_until, first.plan.to_json()["v"]) == (None, 1)
    assert second.plan.closed_until is not None
    flow.deliver(second)
    assert flow.checkpoint.closed_until is not None
    assert flow.planned() is not None  # found again by the next run, as it is
    flow.finish()
    assert {key: value for key, (_, value) in flow.documents.items()} == {"k0": 5, "k1": 6, "k2": 7, "k3": 8}
    assert (flow.checkpoint.closed_until, flow.checkpoint.to_json()["v"]) == (None, 1)


def test_a_life_that_a_former_plan_knew_is_known_to_the_next() -> None:
    """Two growths, each with a life of its own, and the plan that saw the first is given up before the second."""
    flow = Indexed(TopicLog())
    flow.write(0)
    flow.finish()
    for _ in range(2):
        flow.log.grow(0)
        for _ in range(3):
            flow.write(0)
        batch = flow.planned()
        assert batch is not None
        flow.deliver(batch, [0])
        flow.edit(2)
        flow.log.grow(0)
        flow.write(0)
    flow.finish()
    assert flow.documents["k0"][1] == flow.value


def test_what_nobody_planned_is_a_conflict_still() -> None:
    flow = Indexed(BinlogLog())
    for key in (0, 0, 0, 0):
        flow.write(key)
    flow.edit(3)
    first = flow.planned()
    assert first is not None
    flow.deliver(first, [0])
    flow.edit(1)
    flow.documents["k0"] = (versions_of(BinlogOffset("bin.000001", 8)).of("bin.000001", 8), 4)
    second = flow.planned()
    assert second is not None
    with pytest.raises(AssertionError, match="stopped at"):
        flow.deliver(second)


def test_of_a_sink_with_markers_nothing_is_left() -> None:
    """Its closed plan wrote nothing: an older databus can take such a flow back."""
    flow = Indexed(BinlogLog())
    flow.write(0)
    first = flow.planned()
    assert first is not None
    assert first.plan.left_behind({"search": None}) == (None, None)
    assert first.plan.left_behind({}) == (None, first.plan.range.end)


def test_what_a_sink_without_markers_holds_of_a_given_up_batch_is_not_claimed_to_be_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = Indexed(BinlogLog())
    flow.write(0)
    first = flow.planned()
    assert first is not None
    flow.deliver(first, [0])
    flow.edit(1)
    assert flow.planned() is not None
    (told,) = [r.getMessage() for r in caplog.records if "planned anew" in r.getMessage()]
    assert told.endswith("search (without markers) may hold a part of it, which is sent again: planned anew")
    assert "nothing of it" not in told
