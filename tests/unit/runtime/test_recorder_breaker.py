"""The circuit breaker before the records store."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.errors import RecordingError
from databus.runtime.recorder_breaker import REST, RecorderBreaker


class _Recorder:
    """Fails while `away`, each time after `takes_s` of its clock."""

    def __init__(self) -> None:
        self.now, self.takes_s, self.away = 0.0, 5.0, True
        self.asked: list[str] = []

    def monotonic(self) -> float:
        return self.now

    def record(self, *_reports: Any) -> None:
        self._answer("record")

    def paged(self, _flow: str) -> int:
        self._answer("paged")
        return 7

    def page(self, _flow: str, _entries: Any) -> int:
        self._answer("page")
        return 8

    def quarantine(self, _flow: str, _batch: int, _rows: Any, **_: Any) -> None:
        self._answer("quarantine")

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            self.now += self.takes_s
            raise RecordingError("database is locked")


def test_a_slow_failure_is_followed_by_a_rest_and_then_another_attempt() -> None:
    store = _Recorder()
    breaker = RecorderBreaker(store, store.monotonic)
    report: Any = None
    with pytest.raises(RecordingError, match="locked"):
        breaker.record(report)
    store.away = False
    for _ in range(3):
        with pytest.raises(RecordingError, match="not asked for another 30 s"):
            breaker.record(report)
    with pytest.raises(RecordingError, match="not asked"):
        breaker.paged("shop")
    with pytest.raises(RecordingError, match="not asked"):
        breaker.page("shop", ())
    assert store.asked == ["record"]
    store.now += REST * store.takes_s
    assert (breaker.paged("shop"), breaker.page("shop", ())) == (7, 8)


def test_held_rows_are_always_tried() -> None:
    store = _Recorder()
    breaker = RecorderBreaker(store, store.monotonic)
    for _ in range(2):
        with pytest.raises(RecordingError, match="locked"):
            breaker.quarantine("shop", 1, ())
        with pytest.raises(RecordingError):
            breaker.paged("shop")
    assert store.asked == ["quarantine", "paged", "quarantine"]


def test_a_store_that_fails_at_once_is_asked_every_time() -> None:
    store = _Recorder()
    store.takes_s = 0.0
    breaker = RecorderBreaker(store, store.monotonic)
    for _ in range(4):
        with pytest.raises(RecordingError, match="locked"):
            breaker.paged("shop")
    assert store.asked == ["paged"] * 4
