"""The state of a mirror in a word: nothing that is not known counts as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from databus import AlertWhen, Mirror
from databus.core.errors import SinkUnavailableError
from databus.core.positions.lag import PartitionLag
from databus.core.state.checkpoint import HistoryEntry
from databus.ops.mirror import overview
from databus.ops.mirror.heartbeats import HeartbeatSighting
from databus.ops.mirror.standing import BATCHES, LIMIT_S
from tests.unit.ops.test_mirror_map import history

LATE_S = LIMIT_S + 10
MIRROR = Mirror(
    name="east_to_west", source_conn_id="kafka_east", target_conn_id="kafka_west", topics=("cdc.*",),
    heartbeat=timedelta(seconds=10),
)  # fmt: skip
NOW = datetime(2026, 11, 28, 4, tzinfo=UTC)
WELL, YOUNG, OLD, NOBODY_KNOWS = (
    PartitionLag("cdc.a", 0, 0, 0.0), PartitionLag("cdc.a", 1, 3, 2.0), PartitionLag("cdc.a", 2, 1_200, 90.0),
    PartitionLag("cdc.b", 7, 4, None),
)  # fmt: skip


@dataclass
class World:
    """What a look at the mirror finds."""

    partitions: Sequence[PartitionLag] = (WELL,)
    age_s: float | None = 1.0
    commits: Sequence[float] = (5.0,)
    paused: str | None = None
    refused: list[str] = field(default_factory=list)
    alerts: Sequence[dict[str, Any]] = ()

    def load(self, _: str) -> Any:
        return SimpleNamespace(batch=len(self.commits), updated_at=NOW) if self.commits else None

    def history(self, _: str, last: int) -> list[HistoryEntry]:
        """Return a start that is long ago, and commits so many seconds ago, newest first."""
        start, *made = history([("m", 1)] * len(self.commits))
        ages = {entry.number: age for entry, age in zip(made, reversed(self.commits), strict=True)}
        every = [*made[::-1], start]
        return [_at(entry, NOW - timedelta(seconds=ages.get(entry.number, 1e6))) for entry in every][:last]


def _at(entry: HistoryEntry, at: datetime) -> HistoryEntry:
    return HistoryEntry(**{**vars(entry), "at": at})


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    """Look at the mirror: its state and cause."""

    def look(mirror: Mirror = MIRROR, **found: Any) -> tuple[str, str]:
        world = World(**found)

        def ask(of: str, answer: Any) -> Callable[..., Any]:
            def asked(*_: Any) -> Any:
                if of in world.refused:
                    raise SinkUnavailableError(f"{of}: away")
                return answer

            return asked

        seen = HeartbeatSighting(None if world.age_s is None else NOW, world.age_s)
        monkeypatch.setattr(overview, "measure_partitions", ask("lag", world.partitions))
        monkeypatch.setattr(overview, "raised_alerts", lambda *_, **__: list(world.alerts))
        monkeypatch.setattr(overview, "names_of", ask("groups", ["billing"]))
        monkeypatch.setattr(overview, "newest_heartbeat", ask("heartbeat", seen))
        store = SimpleNamespace(load=world.load, history=world.history, paused=lambda _: world.paused)
        clock = SimpleNamespace(now=lambda: NOW)
        services: Any = SimpleNamespace(store=store, clock=clock, connections=None, settings=None)
        state = overview.mirror_state(mirror, services)
        return state["state"], state["cause"]

    return look


def test_what_is_known_to_be_well_is_ok(told: Callable[..., tuple[str, str]]) -> None:
    assert told() == ("ok", "")
    assert told(partitions=(WELL, YOUNG)) == ("ok", "")
    assert told(age_s=LATE_S) == ("ok", "")
    assert told(MIRROR.model_copy(update={"heartbeat": None}))[0] == "ok"


def test_records_that_wait_for_nobody_knows_how_long_are_not_ok(told: Callable[..., tuple[str, str]]) -> None:
    assert told(partitions=(NOBODY_KNOWS,)) == ("unknown", "records of cdc.b[7] wait, nobody knows since when")
    state, cause = told(partitions=(WELL, YOUNG, NOBODY_KNOWS, PartitionLag("cdc.b", 8, 2, None)))
    assert (state, cause) == ("unknown", "records of cdc.b[7] and 1 other partition wait, nobody knows since when")


def test_what_is_late_for_certain_stands_before_what_is_not_known(told: Callable[..., tuple[str, str]]) -> None:
    assert told(partitions=(OLD,)) == ("behind", "1,200 records, the oldest waits 1 min 30 s")
    state, cause = told(partitions=(OLD, NOBODY_KNOWS))
    assert (state, cause) == ("behind", "1,204 records, the oldest waits at least 1 min 30 s")
    assert told(partitions=(NOBODY_KNOWS,), age_s=LATE_S + 1)[0] == "behind"


@pytest.mark.parametrize(
    ("commits", "state"),
    [
        ((), "not_run"),
        ((1.0,), "ok"),
        ((LATE_S,), "ok"),
        ((1.0, LATE_S + 1), "behind"),
        ((0.1,) * (BATCHES - 1), "ok"),
        ((0.1,) * BATCHES, "behind"),
    ],
)
def test_a_heartbeat_that_never_came_is_late_after_its_interval(
    told: Callable[..., tuple[str, str]], commits: Sequence[float], state: str
) -> None:
    assert told(age_s=None, commits=commits)[0] == state
    if commits:
        assert told(commits=commits)[0] == "ok"


def test_the_worst_is_told(told: Callable[..., tuple[str, str]]) -> None:
    assert told(refused=["lag"], paused="by ada") == ("no_answer", "lag: lag: away")
    assert told(refused=["groups"])[0] == "no_answer"
    assert told(refused=["heartbeat"], partitions=(OLD,))[0] == "no_answer"
    assert told(paused="by ada: a disk", partitions=(OLD,)) == ("paused", "by ada: a disk")


def test_an_alert_whose_state_cannot_be_read_is_not_taken_for_resolved(told: Callable[..., tuple[str, str]]) -> None:
    watched = MIRROR.model_copy(update={"alerts": (AlertWhen(),)})
    raised: dict[str, Any] = {"alert": "lag", "on": True, "since": None, "problem": ""}
    broken = {**raised, "alert": "batches", "on": None, "problem": "alert batches of flow e: no JSON"}
    assert told(watched, alerts=[{**raised, "on": False}]) == ("ok", "")
    assert told(watched, alerts=[raised]) == ("alert", "lag")
    assert told(watched, alerts=[broken]) == ("no_answer", "alerts: alert batches of flow e: no JSON")
    assert told(watched, alerts=[raised, broken])[0] == "no_answer"
