"""Replays whose markers Kafka has dropped for age, as it drops those of each group that commits nothing for a week."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from databus import Kafka, __version__
from databus.core.errors import MarkerDivergedError, SinkError
from databus.ops.quarantine import replay as quarantine_replay
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay import replay_rows
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.runtime.context import RunIdentity
from tests.integration.conftest import World
from tests.integration.kafka_target import forget_markers
from tests.integration.test_quarantine import ADA, Desk, killed

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

WEEK = timedelta(days=7)


class Later:
    """A clock that is ahead."""

    def __init__(self, by: timedelta):
        self._by = by

    def now(self) -> datetime:
        return datetime.now(UTC) + self._by


class HeldDesk(Desk):
    """A flow to a topic alone; each of its rows is held by a check that is lifted then."""

    def __init__(self, world: World, database: str):
        super().__init__(world, database)
        sink = Kafka(conn_id="kafka_east", topic=database, partitions=2, slots=2)
        self.flow = self.flow.model_copy(update={"sinks": (sink,)})
        self.execute("INSERT INTO orders VALUES (1, '1', NULL), (2, '2', NULL), (3, '3', NULL), (4, '4', NULL)")
        world.run(self.flow)
        self.flow = self.flow.model_copy(update={"checks": ()})
        self.ids = [row.event_id for _, row in sorted(self.held().items())]

    def forget(self) -> None:
        """Let Kafka drop the markers of the replays."""
        forget_markers(self.world.sandbox.address("kafka"), f"{self.flow.name}.quarantine", "kafka")

    def replay_after(self, passed: timedelta, row: str, *, accept: bool = False) -> list[ReplayResult]:
        with self.services() as services:
            run = self.world.spark(self.flow.name), RunIdentity("replay", "", __version__)
            later, said = replace(services, clock=Later(passed)), replace(ADA, consents=accept)
            return replay_rows(self.flow, later, run, Selection(event_ids=(row,)), said)

    def sent(self) -> Counter[str]:
        return Counter(self.arrived())


def test_a_replay_goes_on_after_its_markers_have_expired(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an older databus has planned one over the markers that were gone, and could not finish it."""
    desk = HeldDesk(world, database)
    first, second, third, fourth = desk.ids
    assert [result.replayed for result in desk.replay(event_ids=(first,))] == [1]
    desk.forget()
    assert [(result.number, result.replayed) for result in desk.replay(event_ids=(second,))] == [(2, 1)]

    def stuck(row: str) -> None:
        desk.forget()
        with monkeypatch.context() as older:
            older.setattr(quarantine_replay, "recall", lambda *_, **__: None)
            with pytest.raises(MarkerDivergedError, match="found no marker"):
                desk.replay(event_ids=(row,))

    stuck(third)
    assert [(result.number, result.replayed) for result in desk.replay(event_ids=(third,))] == [(3, 1)]
    stuck(fourth)
    desk.flow = desk.flow.model_copy(update={"lane": "spark"})  # it is closed, and begun anew
    assert [(result.number, result.replayed) for result in desk.replay(event_ids=(fourth,))] == [(5, 1)]
    assert desk.sent() == Counter(desk.ids)
    assert len(desk.held(HeldState.REPLAYED)) == 4


def test_a_replay_left_half_written_until_nothing_tells_of_it_asks_before_it_repeats_rows(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = HeldDesk(world, database)
    first, second, *_ = desk.ids
    desk.replay(event_ids=(first,))
    with monkeypatch.context() as cut:
        cut.setattr(HeldRows, "settle", killed)
        with pytest.raises(SinkError, match="killed here"):
            desk.replay(event_ids=(second,))
    assert desk.sent() == Counter([first, second])
    desk.forget()
    with pytest.raises(MarkerDivergedError, match="nothing shows whether they have rows of it"):
        desk.replay_after(WEEK, second)
    assert desk.sent() == Counter([first, second])
    (result,) = desk.replay_after(WEEK, second, accept=True)
    assert (result.number, result.replayed) == (2, 1)
    assert desk.sent() == Counter([first, second, second])
