"""Look-backs beside each other where a request fails: what was taken is handed over all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from databus.consumer import StateTopic, look_backs
from databus.consumer.feed import Feed
from databus.consumer.look_back import Phase
from databus.consumer.look_backs import LookBacks
from databus.consumer.places import client_settings
from databus.consumer.progress import UNKNOWN, Progress
from databus.consumer.spill import StoredMessage
from databus.consumer.state_topics import StateTopics
from databus.consumer.window import ChangesWindow
from databus.core.errors import DatabusError, SourceUnavailableError
from databus.kafka.client import LastError
from databus.sinks.kafka import markers

PLACES = [("cdc.t", 0), ("cdc.t", 1)]
ROW = StoredMessage("state.t", 0, 7, b"k", b"{}", [])


class Look:
    """Look-back whose steps are told beforehand: rows, or an error."""

    def __init__(self, *steps: Any, phase: Phase = Phase.STATE, reads: bool = True):
        self._steps = list(steps)
        self.phase, self.reads, self.rows = phase, reads, 1
        self.first = self.whole_at = 3
        self.window, self.why = ChangesWindow(), ""
        self.asked = 0

    def step(self) -> list[Any]:
        self.asked += 1
        found = self._steps.pop(0) if self._steps else []
        if isinstance(found, Exception):
            raise found
        return list(found)

    def close(self) -> None:
        """Nothing is open."""


class Topics:
    """Stands for the cluster; a fetch takes nothing."""

    def __init__(self, *_: Any):
        self.closed = False

    def ask(self, place: Any) -> Any:
        return SimpleNamespace(state=("state.t", place[1]))

    def fetch(self, seconds: float) -> None:
        """Take nothing."""

    def close(self) -> None:
        self.closed = True


def failure() -> DatabusError:
    return SourceUnavailableError("no answer")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(*each: Look) -> LookBacks:
        waiting = list(each)
        monkeypatch.setattr(look_backs, "StateTopics", Topics)
        monkeypatch.setattr(look_backs, "LookBack", lambda *_: waiting.pop(0))
        made = LookBacks(client_settings("none:1"), StateTopic("f"), {})
        for place in PLACES[: len(each)]:
            made.begin(Progress(place, UNKNOWN))
        return made

    return make


def test_rows_that_were_taken_before_an_error_come_with_the_next_step(looks: Any) -> None:
    made = looks(Look([ROW]), Look(failure(), [ROW]))
    with pytest.raises(SourceUnavailableError):
        made.step(0)
    assert [message for message, _ in made.step(0)[0]] == [ROW, ROW]
    assert made.step(0)[0] == []


def test_partitions_that_wait_are_asked_in_turn(looks: Any) -> None:
    each = [Look(reads=False, phase=Phase.COVER) for _ in range(2)]
    made = looks(*each)
    for _ in range(6):
        made.step(0)
    assert [look.asked for look in each] == [3, 3]


def test_where_changes_go_on_is_told_until_they_do(looks: Any) -> None:
    made = looks(Look(phase=Phase.DONE, reads=False))
    assert made.step(0)[1] == made.step(0)[1] == [(PLACES[0], 3)]
    assert made.ends(PLACES[0], 3) == []
    made.go_on(PLACES[0])
    assert made.step(0)[1] == []
    assert len(made.ends(PLACES[0], 3)) == 1


class Client:
    """Consumer of the feed: answers nothing, and refuses to be assigned once."""

    def __init__(self) -> None:
        self.refuses = False

    def poll(self, seconds: float) -> Any:
        return None

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> None:
            if self.refuses and name == "incremental_assign":
                raise KafkaException(KafkaError(KafkaError._FAIL))

        return call


def feed_of(made: Any) -> Feed:
    feed = Feed.__new__(Feed)
    feed._settings, feed._reading = client_settings("none:1"), SimpleNamespace(member=True)  # type: ignore[assignment]
    feed._owned, feed._kept, feed._failed, feed.clock = {}, [], None, 0.0
    feed._looks, feed._client, feed._reported = made, Client(), LastError()  # type: ignore[assignment]
    return feed


def test_what_a_feed_had_taken_before_an_error_comes_with_the_next_poll(looks: Any) -> None:
    feed = feed_of(looks(Look(failure(), [])))
    kept = (StoredMessage("cdc.t", 1, 0, b"k", b"{}", []), Progress(PLACES[1], 0))
    feed._kept = [kept]
    with pytest.raises(SourceUnavailableError):
        feed.poll(0)
    assert feed.poll(0) == [kept]


def test_changes_that_cannot_go_on_behind_their_state_stop_the_feed(looks: Any) -> None:
    feed = feed_of(looks(Look(phase=Phase.DONE, reads=False)))
    feed._client.refuses = True  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(DatabusError, match="change between state and changes"):
            feed.poll(0)
        feed._client.refuses = False  # type: ignore[attr-defined]


class Markers:
    """Consumer that answers with an error for its first partition, or with markers."""

    def __init__(self, error: int | None = None, metadata: str = ""):
        self._error, self._metadata = error, metadata

    def committed(self, places: list[TopicPartition], _: float) -> list[Any]:
        error = None if self._error is None else KafkaError(self._error)
        return [SimpleNamespace(error=error, offset=4, partition=p.partition, metadata=self._metadata) for p in places]


def topics_of(client: Any, slots: int) -> StateTopics:
    topics = StateTopics.__new__(StateTopics)
    topics._settings, topics._state, topics._reported = client_settings("none:1"), StateTopic("f"), LastError()
    topics._markers = {"state": (client, slots)}
    return topics


def test_markers_are_asked_for_again_where_a_sink_does_it_too() -> None:
    for code in markers._PASSING:
        assert topics_of(Markers(code), 1).marks("state") == ()
    with pytest.raises(DatabusError):
        topics_of(Markers(KafkaError.GROUP_AUTHORIZATION_FAILED), 1).marks("state")


def test_what_was_closed_with_nothing_written_is_whole() -> None:
    closed = markers.Marker(4, "h", "abandoned", chunk=-1, last=False, end={"pos": 1})
    assert topics_of(Markers(metadata=closed.metadata()), 2).marks("state") == (
        (0, 4, True, True),
        (1, 4, True, True),
    )
    partly = markers.Marker(4, "h", "abandoned", chunk=0, last=False)
    assert topics_of(Markers(metadata=partly.metadata()), 1).marks("state") == ((0, 4, False, False),)


class Message:
    """What a poll gives: a record or an error in its place."""

    def __init__(self, partition: int, offset: int, error: int | None = None):
        self._partition, self._offset = partition, offset
        self._error = None if error is None else KafkaError(error)

    def topic(self) -> str:
        return "state.t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


def test_an_error_of_one_partition_leaves_what_others_have() -> None:
    topics = topics_of(None, 1)
    came = [Message(1, 0, KafkaError.INVALID_MSG), Message(0, 5), Message(0, 6, KafkaError._PARTITION_EOF)]
    topics._client = SimpleNamespace(poll=lambda _: came[0], consume=lambda *_: came[1:])  # type: ignore[assignment]
    topics._inbox = {("state.t", 0): [], ("state.t", 1): []}
    topics._ends, topics._gone = {}, set()
    with pytest.raises(DatabusError):
        topics.fetch(0)
    assert topics.taken(("state.t", 0)) == ([came[1]], 6, False)
