"""Offsets of partitions whose leaders are being chosen are asked for again; requests are counted as they are cut."""

from __future__ import annotations

import struct
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from databus.core.errors import SourceUnavailableError
from databus.kafka import cluster
from databus.kafka.client import ClientSettings
from databus.kafka.cluster import EpochOffset, KafkaCluster
from databus.testing.request_counter import RequestCounter


class Answers:
    """Gives one answer after the other to each list_offsets."""

    def __init__(self, *answers: Any):
        self._answers = list(answers)

    def list_offsets(self, wanted: dict[Any, Any], **_options: Any) -> dict[Any, Future[Any]]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        found: dict[Any, Future[Any]] = {place: Future() for place in wanted}
        for future in found.values():
            if isinstance(answer, int):
                future.set_exception(KafkaException(KafkaError(answer, "No leaders found")))
            else:
                future.set_result(SimpleNamespace(offset=7, leader_epoch=None))
        return found

    def poll(self, _seconds: float) -> None:
        """Report nothing."""


def asked(monkeypatch: pytest.MonkeyPatch, timeout_s: float, *answers: Any) -> KafkaCluster:
    found = KafkaCluster(ClientSettings("kafka_east", "127.0.0.1:1", timeout_s=timeout_s))
    monkeypatch.setattr(found, "_admin", Answers(*answers))
    monkeypatch.setattr(cluster, "_AGAIN_S", 0.0)
    return found


def test_no_leader_at_all_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, 60.0, KafkaError._NOENT, KafkaError._NOENT, "there")
    assert found.ends([("t", 0), ("t", 1)]) == {("t", 0): EpochOffset(7), ("t", 1): EpochOffset(7)}


def test_no_leader_to_the_end_is_an_error_that_a_retry_may_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceUnavailableError) as caught:
        asked(monkeypatch, 0.01, KafkaError._NOENT).ends([("t", 0)])
    assert caught.value.retryable


@pytest.mark.parametrize("size", [1, 5, 7, 1000])
def test_requests_are_counted_however_they_are_cut(size: int) -> None:
    asked = ((2, b""), (3, b"x" * 9), (2, b"yy"), (999, b""))
    frames = b"".join(struct.pack(">ih", 2 + len(body), kind) + body for kind, body in asked)
    with RequestCounter("127.0.0.1:1") as counter:
        told = counter.reader()
        for start in range(0, len(frames), size):
            told(frames[start : start + size])
        assert dict(counter.requests) == {"ListOffsets": 2, "Metadata": 1, "API key 999": 1}
