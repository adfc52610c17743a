"""Reports that are stored while the next batch is on its way: recording may lag, and makes no change less fresh."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from typing import Any

from databus.core.checkpoint import HistoryEntry
from databus.core.protocols import Recorder
from databus.core.receipts import RejectedRow
from databus.core.report import BatchReport
from databus.runtime.record import record

log = logging.getLogger(__name__)

_MOST_WAITING = 200
"""A store that is slower than the batches slows them down from here on."""


class DeferredRecorder:
    """A `Recorder` that stores reports in a thread, in their order; all else waits for them first.

    What a kill takes with it is filled in from the history by the next claim, as any report that was not stored.
    """

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._reports: queue.Queue[BatchReport | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._store, name="databus-recorder", daemon=True)
        self._thread.start()

    def record(self, report: BatchReport) -> None:
        """Store the report soon; a failure is logged."""
        self._reports.put(report)

    def paged(self, flow: str) -> int:
        """Return the number of the newest history entry that has a ledger page."""
        self._reports.join()
        return self._recorder.paged(flow)

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write ledger pages, after the reports of the batches that they tell of."""
        self._reports.join()
        return self._recorder.page(flow, entries)

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow]) -> None:
        """Store rows held back; they are stored when this returns."""
        self._recorder.quarantine(flow, batch, rows)

    def close(self) -> None:
        """Store what waits, and end the thread; safe to call twice. The recorder stays open."""
        if self._thread.is_alive():
            self._reports.put(None)
            self._thread.join()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def _store(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                record(self._recorder, report)
            except Exception:
                log.exception("flow %s: report of batch %d not stored", report.plan.flow, report.plan.batch)
            finally:
                self._reports.task_done()
        self._reports.task_done()
