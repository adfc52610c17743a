"""A topic that one broker does not list is asked for again, for seconds, before it counts as deleted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from databus.core.errors import SinkOutputChangedError
from databus.core.state.known_outputs import KnownOutputs
from databus.kafka.client import ClientSettings
from databus.sinks.kafka.topics import standing as module
from databus.sinks.kafka.topics.cluster_topics import Topics
from databus.sinks.kafka.topics.standing import require_standing

KNOWN = KnownOutputs({"a": "1", "b": "2"}, "batch 7 was committed")
WHOLE = {"a": "1", "b": "2"}
LAGS = {"a": "1"}


class Answering(Topics):
    """A cluster whose answers are given, the last one for good."""

    def __init__(self, *answers: dict[str, str]):
        super().__init__(ClientSettings("east", "127.0.0.1:1"))
        self.answers = list(answers)
        self.asked: list[bool] = []

    def ids(self, topics: Iterable[str], *, anew: bool = False) -> dict[str, str]:
        self.asked.append(anew)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {name: answer[name] for name in topics if name in answer}


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waits.append)  # type: ignore[attr-defined]
    return waits


def refused(cluster: Topics) -> str:
    with pytest.raises(SinkOutputChangedError) as error:
        require_standing(cluster, KNOWN, "shop", "kafka")
    return error.value.message


def test_one_that_is_there_is_not_waited_for(waited: list[float]) -> None:
    require_standing(Answering(WHOLE), KNOWN, "shop", "kafka")
    assert waited == []


@pytest.mark.parametrize("late", [1, 2, 5])
def test_a_broker_that_lags_for_seconds_stops_no_flow(waited: list[float], late: int) -> None:
    cluster = Answering(*[LAGS] * late, WHOLE)
    require_standing(cluster, KNOWN, "shop", "kafka")
    assert len(waited) == late
    assert cluster.asked == [False, *[True] * late]


def test_one_that_stays_away_for_ten_seconds_was_deleted(waited: list[float]) -> None:
    assert "topic b (id 2) was deleted, none is there now" in refused(Answering(LAGS))
    assert (len(waited), sum(waited)) == (5, 10.0)


def test_another_in_its_place_is_told_at_the_second_look_and_nothing_that_is_not_sure(waited: list[float]) -> None:
    message = refused(Answering({"b": "3"}))
    assert "topic b (id 2) was deleted, another one is there now (id 3)" in message
    assert "topic a" not in message
    assert sum(waited) == 1.0


def test_an_old_answer_with_another_id_is_asked_again(waited: list[float]) -> None:
    """A person accepted the new topic, and one broker still tells of the former."""
    require_standing(Answering({"a": "1", "b": "old"}, WHOLE), KNOWN, "shop", "kafka")
    assert waited == [1.0]
