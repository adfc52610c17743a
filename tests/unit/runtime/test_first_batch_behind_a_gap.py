"""The first batch of a new index stays the first where what lies before it is passed over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus import Elasticsearch, Flow, KafkaTopics
from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.gaps import SKIPPED, Gap
from databus.core.positions.offsets import KafkaOffsets, Offset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.amendments import Amendment
from databus.core.state.known_outputs import still_first
from databus.core.state.plan import SinkPlan, SourcePlan
from databus.core.times import SystemClock
from databus.runtime.commit import commit
from databus.runtime.context import FlowSession, RunIdentity
from databus.runtime.pacing.batch_sizing import Pace
from databus.runtime.plan import PlannedBatch, next_plan
from databus.sinks.markerless import UnmarkedSink
from databus.testing.memory_store import MemoryCheckpoints

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


def at(offset: int, *, passed: bool = False) -> KafkaOffsets:
    return KafkaOffsets({"t": {0: offset}}, {"t": "id"}, passed=passed)


@dataclass
class Log:
    """A topic that is read ten offsets at a time, from its earliest on."""

    earliest: int = 0

    def plan(self, after: Offset, _limit: Any) -> SourcePlan:
        assert isinstance(after, KafkaOffsets)
        stands = after.positions["t"][0]
        if stands < self.earliest:
            gap = OffsetRange(after, at(self.earliest, passed=True))
            return SourcePlan(gap, (), 0, 0, more=True, passed="on_gap=earliest: gone")
        return SourcePlan(OffsetRange(after, at(stands + 10)), (), 1, 1)


@dataclass
class Index(UnmarkedSink):
    """An index that tells whether it has ever held a document; a plan may concern other indices alone."""

    name: str = "search"
    held: bool = False
    concerned: bool = True

    def __post_init__(self) -> None:
        super().__init__(self.name)

    def prepare(self, plan: SourcePlan, outputs: Any) -> SinkPlan:
        new = self.concerned and not self.held and not plan.passed
        return SinkPlan(first=("i",) if new else ())


@dataclass
class Stopped:
    """A flow whose first batch into a new index was stopped by a row, with a part of it in the index."""

    log: Log = field(default_factory=Log)
    index: Index = field(default_factory=Index)
    store: MemoryCheckpoints = field(default_factory=MemoryCheckpoints)
    definition: int = 0

    def __post_init__(self) -> None:
        self.flow = Flow(
            name="f", source=KafkaTopics(conn_id="k", topics=("t",), on_gap="earliest"),
            sinks=(Elasticsearch(conn_id="e", index="i", name="search"),),
        )  # fmt: skip
        self.lease = self.store.claim("f", "run", 0)
        self.checkpoint = self.store.start("f", self.lease, at(0), "run")
        self.stopped = self.planned()
        assert self.stopped.plan.sinks["search"].first == ("i",)
        self.index.held = True

    def planned(self) -> PlannedBatch:
        source: Any = self.log
        recorder: Any = None
        who = RunIdentity("run", "", "1", f"{self.definition}")
        self.session = FlowSession(
            self.flow, Settings("t", "", ""), self.store, recorder, SystemClock(), None, who, source,
            {"search": self.index},
        )  # fmt: skip
        found = next_plan(self.session, self.lease, self.checkpoint)
        assert found is not None
        return found

    def edited(self) -> None:
        self.definition += 1

    def committed(self, batch: PlannedBatch, *written: str) -> None:
        receipt = WriteReceipt("search", 0, batch.plan.batch, 1, {}, outputs={name: {} for name in written})
        self.checkpoint = commit(self.session, self.lease, batch, {}, (receipt,), Pace())
        assert self.store.load("f") == self.checkpoint

    def first(self) -> tuple[str, ...]:
        """Plan, and return what counts as new; the plan is committed, and has written to the index."""
        batch = self.planned()
        self.committed(batch, "i")
        return batch.plan.sinks["search"].first


@pytest.fixture
def stopped() -> Stopped:
    return Stopped()


def test_the_batch_behind_a_gap_is_still_the_first_and_the_one_after_it_is_not(stopped: Stopped) -> None:
    stopped.edited()
    stopped.log.earliest = 50
    gap = stopped.planned()
    assert gap.source.passed
    stopped.committed(gap)
    assert stopped.first() == ("i",)
    assert stopped.checkpoint.first == {}
    assert stopped.first() == ()


def test_it_stays_so_through_further_gaps_and_batches_that_do_not_concern_the_index(stopped: Stopped) -> None:
    stopped.edited()
    for earliest in (50, 70):
        stopped.log.earliest = earliest
        stopped.committed(stopped.planned())
    stopped.index.concerned = False
    stopped.committed(stopped.planned(), "another")
    stopped.index.concerned = True
    assert stopped.first() == ("i",)
    assert stopped.first() == ()


def test_a_gap_that_a_person_passes_is_no_other(stopped: Stopped) -> None:
    plan = stopped.stopped.plan
    gap = Gap(0, at(0), at(50), "purged", SKIPPED, "ada", "", NOON)
    skip = Amendment("skip", "ada", "gone", at(50), closed=plan, gap=gap)
    stopped.checkpoint = stopped.store.amend("f", stopped.lease, skip)
    assert stopped.checkpoint.first == {"search": ("i",)}
    assert stopped.first() == ("i",)
    assert stopped.first() == ()


def test_a_sink_that_falls_behind_takes_it_along_and_brings_back_what_is_left(stopped: Stopped) -> None:
    stopped.edited()
    stopped.log.earliest = 50
    stopped.committed(stopped.planned())
    store, lease = stopped.store, stopped.lease
    own = store.detach("f", lease, "search", "away")
    assert own.first == {"search": ("i",)}
    assert store.join("f", lease, "search", "run").first == {"search": ("i",)}


def test_smaller_batches_after_the_stopped_one_keep_it(stopped: Stopped) -> None:
    """The first of them has no row of the index, which the stopped one had written to."""
    stopped.edited()
    stopped.committed(stopped.planned(), "another")
    assert stopped.checkpoint.first == {"search": ("i",)}
    assert stopped.first() == ("i",)
    assert stopped.first() == ()


def test_what_a_plan_took_for_new_stays_so_until_it_is_written() -> None:
    pinned, nothing = {"search": ("i",)}, dict[str, Any]()
    assert still_first({}, pinned, nothing) == {"search": ("i",)}
    assert still_first({}, pinned, {"search": {"i"}}) == {}
    assert still_first({"other": ("o",)}, pinned, {"search": {"i"}}) == {"other": ("o",)}


def test_of_a_checkpoint_that_waits_for_nothing_nothing_is_stored(stopped: Stopped) -> None:
    assert replace(stopped.checkpoint, first={"search": ()}).to_json() == stopped.checkpoint.to_json()
