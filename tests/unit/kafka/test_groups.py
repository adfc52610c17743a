"""What a broker refuses of a group's new offsets is an error, though the request was answered."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from databus.core.errors import SourceUnavailableError
from databus.kafka.client import ClientSettings
from databus.kafka.groups import ClusterGroups


class Answers:
    """Answers each commit with one partition's outcome; None is no answer."""

    def __init__(self, code: int | None) -> None:
        self._code = code

    def alter_consumer_group_offsets(self, asked: Any, **_options: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        if self._code is not None:
            error = KafkaError(self._code) if self._code else None
            future.set_result(SimpleNamespace(topic_partitions=[SimpleNamespace(error=error)]))
        return {asked[0].group_id: future}

    def poll(self, _seconds: float) -> None:
        """Report nothing."""


def groups(monkeypatch: pytest.MonkeyPatch, code: int | None) -> ClusterGroups:
    found = ClusterGroups(ClientSettings("kafka_east", "127.0.0.1:1", timeout_s=0.05))
    monkeypatch.setattr(found, "_admin", Answers(code))
    return found


def test_offsets_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    groups(monkeypatch, 0).commit("g", {("t", 0): 5})


def test_an_offset_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceUnavailableError, match="set the offsets of group g"):
        groups(monkeypatch, KafkaError.NOT_COORDINATOR).commit("g", {("t", 0): 5})


def test_a_client_with_an_open_question_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lives on aborts the process once the coordinator is found (librdkafka); how: integration."""
    asked = groups(monkeypatch, None)
    with pytest.raises(SourceUnavailableError, match="no answer in"):
        asked.commit("g", {("t", 0): 5})
    assert asked._admin is None
