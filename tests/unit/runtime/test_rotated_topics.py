"""Topics that go under a pattern: told once where all of them was moved, missed where it was not or nobody knows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus import Flow, Kafka, KafkaTopics
from databus.core.errors import CheckpointUnavailableError
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.positions.topics_read import TopicsRead
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.runtime.tables.missing_tables import MissingTables, really_gone
from databus.runtime.tables.rotated_topics import RotatedTopics
from databus.sources.kafka.positions import LogState
from databus.sources.kafka.ranges import unread_of
from tests.unit.runtime.test_missing_tables import Told

FLOW = Flow(name="f", source=KafkaTopics(conn_id="s", topics=("named", "day.*")), sinks=(Kafka(conn_id="k"),))
DAY1, DAY2 = "day.1", "day.2"


class Rotating(Told):
    """A source that says which topics are gone, and what it has seen of them."""

    def __init__(self, *gone: str, **seen: int) -> None:
        super().__init__()
        self.gone, self.seen = gone, {name.replace("_", "."): left for name, left in seen.items()}

    def unread(self, standing: Offset) -> Mapping[str, int]:
        return self.seen


@dataclass
class Kept:
    """Remembers in memory, in the form that is stored."""

    stored: dict[str, Any] | None = None
    writes: int = 0
    away: bool = False

    def load(self, flow: str) -> TopicsRead | None:
        if self.away:
            raise CheckpointUnavailableError("away")
        return TopicsRead.from_json(self.stored) if self.stored is not None else None

    def as_of(self, databus: str) -> None:
        if databus == "an earlier one" and self.stored is not None:
            self.stored = {**{name: value for name, value in self.stored.items() if name != "place"}, "v": 1}

    def keep(self, flow: str, read: TopicsRead) -> None:
        self.stored, self.writes = read.to_json(), self.writes + 1


@dataclass
class World:
    """Runs of the flow over what is kept."""

    kept: Kept = field(default_factory=Kept)
    at: datetime = datetime(2026, 3, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def run(
        self, source: Rotating, batch: int = 1, *, ends: bool = True, plan_hash: str = "p", **positions: int
    ) -> tuple[str, ...]:
        """Begin a run where the flow stands, look, end it; return what it names as missing."""
        self.at += timedelta(minutes=1)
        standing = replace(standing_at(batch, **positions), plan_hash=plan_hash)
        rotated = RotatedTopics(FLOW, source, self.kept, self)
        rotated.stands(standing)
        missing = MissingTables(FLOW, source, rotated=rotated)
        missing.look(standing.offset)
        if ends:
            missing.note(standing)
        return missing.names

    def alerted(self, source: Rotating, **positions: int) -> tuple[str, ...]:
        return really_gone(FLOW, source, standing_at(1, **positions).offset, self.kept.load("f"))


def standing_at(batch: int, **positions: int) -> Checkpoint:
    read = {"named": 5, "day_1": 5, "day_2": 5, **positions}
    places = {name.replace("_", "."): {0: position} for name, position in read.items()}
    offset = KafkaOffsets(places, dict.fromkeys(places, "id"))
    return Checkpoint(
        offset=offset, batch=batch, epoch=Epoch(1), run_id="r", plan_hash="p",
        counts={}, watermark=None, updated_at=datetime(2026, 3, 1, tzinfo=UTC),
    )  # fmt: skip


@pytest.fixture
def world() -> World:
    return World()


def test_one_that_goes_during_a_run_with_all_of_it_moved_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gone = Rotating(DAY1, named=0, day_1=0, day_2=3)
    assert world.run(gone) == (DAY1,)
    assert f"topic {DAY1} is gone, as it may be" in caplog.text
    assert world.alerted(gone) == ()
    caplog.clear()
    for _ in range(3):
        assert world.run(Rotating(DAY1, named=0, day_2=3)) == ()
    assert not caplog.records
    # It was there again, with records that were not moved, and went.
    world.run(Rotating(named=0, day_1=4, day_2=3))
    assert [world.run(Rotating(DAY1, named=0, day_2=3)) for _ in range(2)] == [(DAY1,)] * 2
    # Another topic of the name, that was read and goes, is told anew.
    assert world.run(Rotating(DAY1, named=0, day_1=0, day_2=3), day_1=9) == (DAY1,)


def test_one_with_records_left_and_one_that_is_named_stay_missing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Rotating("named", DAY1, named=0, day_1=2, day_2=0)
    assert world.run(gone) == ("named", DAY1)
    assert f"topic {DAY1} is gone (deleted, or not shown to this account), and with it 2 records" in caplog.text
    later = Rotating("named", DAY1, day_2=0)
    assert [world.run(later, batch) for batch in (1, 2)] == [("named", DAY1)] * 2
    assert world.alerted(later) == (DAY1, "named")


def test_one_that_goes_between_two_runs_is_judged_by_what_the_first_has_written_down(world: World) -> None:
    assert world.run(Rotating(named=0, day_1=0, day_2=1)) == ()
    between = Rotating(DAY1, DAY2)
    assert world.alerted(between) == (DAY2,)
    assert world.run(between) == (DAY1, DAY2)
    assert world.run(between) == (DAY2,)
    assert world.alerted(between) == (DAY2,)


@pytest.mark.parametrize("how", ["a killed run moved on", "nothing was ever written down"])
def test_of_what_nobody_knows_it_stays_missing(world: World, how: str, caplog: pytest.LogCaptureFixture) -> None:
    if how == "a killed run moved on":
        world.run(Rotating(named=0, day_1=0, day_2=0), batch=1)
        world.run(Rotating(named=0, day_1=7, day_2=0), batch=1, ends=False)
    for _ in range(2):
        assert world.run(Rotating(DAY1, named=0, day_2=0), batch=2) == (DAY1,)
    assert "whether all of its records were moved is not known" in caplog.text
    assert world.alerted(Rotating(DAY1)) == (DAY1,)


def test_after_a_rewind_to_records_that_went_with_a_topic_it_is_missed(world: World) -> None:
    world.run(Rotating(DAY1, named=0, day_1=0, day_2=0), batch=1)
    assert world.run(Rotating(DAY1, named=0, day_2=0), batch=2, day_1=3) == (DAY1,)
    assert world.alerted(Rotating(DAY1)) == (DAY1,)


@pytest.mark.parametrize("by", ["this databus", "an earlier one"])
def test_a_topic_that_goes_after_a_rewind_with_its_records_to_be_moved_again_is_missed(
    world: World, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A rewind keeps the batch number (`amended_checkpoint`)."""
    caplog.set_level(logging.INFO)
    assert world.run(Rotating(named=0, day_1=0, day_2=0), batch=10) == ()
    world.kept.as_of(by)
    assert world.run(Rotating(DAY1, named=3, day_2=0), batch=10, plan_hash="", day_1=0) == (DAY1,)
    assert "as it may be" not in caplog.text
    assert world.alerted(Rotating(DAY1), day_1=0) == (DAY1,)


def test_what_an_earlier_databus_has_written_down_is_believed_where_nobody_moved_the_flow(world: World) -> None:
    world.run(Rotating(named=0, day_1=0, day_2=1))
    world.kept.as_of("an earlier one")
    between = Rotating(DAY1, DAY2)
    assert [world.run(between), world.run(between)] == [(DAY1, DAY2), (DAY2,)]
    assert world.kept.stored is not None
    assert "place" in world.kept.stored


def test_an_idle_flow_writes_nothing_and_a_store_that_is_away_fails_nothing(world: World) -> None:
    for _ in range(3):
        world.run(Rotating(named=0, day_1=0, day_2=1))
    assert world.kept.writes == 1
    world.kept.away = True
    assert world.run(Rotating(DAY1, named=0, day_1=0)) == (DAY1,)


def test_what_is_left_of_a_topic_is_counted_from_what_was_read_of_it() -> None:
    places = {("a", 0): 5, ("a", 1): 4, ("b", 0): 7, ("grown", 1): 2, ("anew", 0): 3}
    state = LogState(
        {t: "id" for t, _ in places} | {"anew": "other"}, {**dict.fromkeys(places, 0), ("a", 1): 4}, places, {}
    )
    read = {"a": {0: 5, 1: 1}, "b": {0: 4}, "grown": {0: 9}, "anew": {0: 3}}
    assert unread_of(KafkaOffsets(read, dict.fromkeys(read, "id")), state) == {"a": 0, "b": 3, "grown": 3, "anew": 3}
    assert state.only("a").ends == {("a", 0): 5, ("a", 1): 4}
