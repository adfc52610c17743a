"""Reports are stored in the background, in order, before anything that builds on them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from databus.core.errors import RecordingError
from databus.runtime.live.deferred_recorder import DeferredRecorder


class Slow:
    """A recorder whose storing waits until it may go on."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.done: list[Any] = []

    def record(self, *reports: Any) -> None:
        self.may.wait()
        batches = [report.plan.batch for report in reports]
        if 2 in batches:
            raise RecordingError("the database is away")
        if 3 in batches:
            raise ZeroDivisionError
        self.done += batches

    def page(self, flow: str, entries: Any) -> int:
        self.done.append(("page", flow, len(entries)))
        return 7

    def paged(self, _flow: str) -> int:
        self.done.append("paged")
        return 5

    def quarantine(self, _flow: str, batch: int, _rows: Any, **_: Any) -> None:
        self.done.append(("quarantine", batch))


def report(batch: int) -> Any:
    return SimpleNamespace(plan=SimpleNamespace(flow="orders", batch=batch))


def test_reports_are_stored_later_and_a_failure_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    recorder = DeferredRecorder(cast("Any", slow))
    recorder.record(report(1), report(2))
    recorder.quarantine("orders", 5, ())
    assert slow.done == [("quarantine", 5)]
    slow.may.set()
    assert recorder.paged("orders") == 5
    assert slow.done[1:] == ["paged"]
    for batch in (3, 4, 6):
        recorder.record(report(batch))
    assert recorder.paged("orders") == 5
    assert slow.done[2:] == [4, 6, "paged"]
    assert [r.levelname for r in caplog.records] == ["WARNING", "ERROR"]
    assert "report of batch 1, 2 not stored" in caplog.text
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


def test_reports_of_half_a_second_are_stored_together() -> None:
    class Counted(Slow):
        calls = 0

        def record(self, *reports: Any) -> None:
            self.calls += 1
            super().record(*reports)

    counted = Counted()
    counted.may.set()
    recorder = DeferredRecorder(cast("Any", counted))
    for batch in range(10, 60):
        recorder.record(report(batch))
    recorder.close()
    assert counted.done == list(range(10, 60))
    assert counted.calls <= 4
