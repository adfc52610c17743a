"""Reports are stored in the background, in order, before anything that builds on them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from databus.core.errors import RecordingError
from databus.runtime.deferred_recorder import DeferredRecorder


class Slow:
    """A recorder whose storing waits until it may go on."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.done: list[Any] = []

    def record(self, report: Any) -> None:
        self.may.wait()
        if report.plan.batch == 2:
            raise RecordingError("the database is away")
        if report.plan.batch == 3:
            raise ZeroDivisionError
        self.done.append(report.plan.batch)

    def page(self, flow: str, entries: Any) -> int:
        self.done.append(("page", flow, len(entries)))
        return 7

    def paged(self, _flow: str) -> int:
        self.done.append("paged")
        return 5

    def quarantine(self, _flow: str, batch: int, _rows: Any) -> None:
        self.done.append(("quarantine", batch))


def report(batch: int) -> Any:
    return SimpleNamespace(plan=SimpleNamespace(flow="orders", batch=batch))


def test_reports_are_stored_later_and_a_failure_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    recorder = DeferredRecorder(cast("Any", slow))
    for batch in range(1, 5):
        recorder.record(report(batch))
    recorder.quarantine("orders", 5, ())
    assert slow.done == [("quarantine", 5)]
    slow.may.set()
    assert recorder.paged("orders") == 5
    assert slow.done[1:] == [1, 4, "paged"]
    assert [r.levelname for r in caplog.records] == ["WARNING", "ERROR"]
    recorder.close()


def test_pages_and_the_end_wait_for_the_reports() -> None:
    slow = Slow()
    recorder = DeferredRecorder(cast("Any", slow))
    recorder.record(report(1))
    threading.Timer(0.05, slow.may.set).start()
    assert recorder.page("orders", (cast("Any", None),)) == 7
    recorder.record(report(4))
    recorder.close()
    recorder.close()
    assert slow.done == [1, ("page", "orders", 1), 4]
