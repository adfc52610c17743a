"""A consumer that can always be closed."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer

from databus.kafka import consumer as module
from databus.kafka.consumer import GrouplessConsumer

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


def test_one_that_never_spoke_to_a_broker_is_closed() -> None:
    opened = GrouplessConsumer(SETTINGS)
    opened.close()
    with pytest.raises(RuntimeError, match="closed"):
        opened.consume()


def test_one_whose_close_does_not_end_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_CLOSE_WITHIN_S", 0.05)
    ended, begun = threading.Event(), list[threading.Thread]()

    class WaitsForCoordinator(Consumer):
        def close(self) -> None:
            begun.append(threading.current_thread())
            ended.wait()

    class Opened(GrouplessConsumer, WaitsForCoordinator):
        pass

    opened = Opened(SETTINGS)
    opened.close()
    assert "left behind" in caplog.text
    opened.close()
    assert len(begun) == 1  # librdkafka destroys it where the first call ends, and would do so twice
    ended.set()
