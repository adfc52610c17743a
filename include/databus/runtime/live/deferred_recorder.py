"""Deferred recorder: reports are stored while the next batch runs, so that recording delays no change."""

from __future__ import annotations

import enum
import logging
import math
import queue
import threading
import time
from collections.abc import Collection, Sequence
from typing import Any

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchPlan, BatchReport, CheckedBatch
from databus.core.protocols.recorder import Recorder
from databus.core.state.checkpoint import HistoryEntry
from databus.runtime.record import record

log = logging.getLogger(__name__)

_MOST_WAITING = 200
"""A store that is slower than the batches slows them down from here on."""


_TOGETHER_S = 0.5
"""Reports of so long a time are stored together: a transaction for each of some batches a second took a third as much
of Python's time as the batches themselves (py-spy, ADR 33)."""

_TOGETHER = 20


class _Now(enum.Enum):
    """Queue entry beside reports."""

    STORE = enum.auto()
    END = enum.auto()


class DeferredRecorder:
    """A `Recorder` that stores reports in a thread, in their order; all else waits for them first.

    What a kill takes with it is filled in from the history by the next claim, as any report that was not stored.
    """

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._reports: queue.Queue[BatchReport | _Now] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._store, name="databus-recorder", daemon=True)
        self._thread.start()

    def record(self, *reports: BatchReport) -> None:
        """Store the reports soon; a failure is logged."""
        for report in reports:
            self._reports.put(report)

    def paged(self, flow: str) -> int:
        """Return the number of the newest history entry that has a ledger page."""
        self._stored()
        return self._recorder.paged(flow)

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write ledger pages, after the reports of their batches."""
        self._stored()
        return self._recorder.page(flow, entries)

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow], plan_hash: str = "") -> None:
        """Store rows held back; they are stored when this returns."""
        self._recorder.quarantine(flow, batch, rows, plan_hash=plan_hash)

    def checked_batches(self, flow: str, after: int) -> Sequence[CheckedBatch]:
        """Return batches of which a check holds rows; of one whose report waits still without its range."""
        return self._recorder.checked_batches(flow, after)

    def held_by_checks(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        """Return rows that a check held: they are stored before their batch is committed."""
        return self._recorder.held_by_checks(flow, batches)

    def close(self) -> None:
        """Store what waits, and end the thread; safe to call twice. The recorder stays open."""
        if self._thread.is_alive():
            self._reports.put(_Now.END)
            self._thread.join()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def _stored(self) -> None:
        self._reports.put(_Now.STORE)
        self._reports.join()

    def _store(self) -> None:
        word = None
        while word is not _Now.END:
            reports, word = self._next()
            self._put(reports)
            for _ in (*reports, *([word] if word else [])):
                self._reports.task_done()

    def _next(self) -> tuple[list[BatchReport], _Now | None]:
        """Wait for a report, and take what comes with it; a word that is given ends the wait, and is returned."""
        reports: list[BatchReport] = []
        deadline = math.inf
        while len(reports) < _TOGETHER:
            try:
                found = self._reports.get(timeout=max(0.0, deadline - time.monotonic()) if reports else None)
            except queue.Empty:
                break
            if isinstance(found, _Now):
                return reports, found
            reports.append(found)
            deadline = min(deadline, time.monotonic() + _TOGETHER_S)
        return reports, None

    def _put(self, reports: Sequence[BatchReport]) -> None:
        try:
            if reports:
                record(self._recorder, *reports)
        except Exception:
            if len(reports) == 1:
                log.exception("flow %s: report of batch %d not stored", reports[0].plan.flow, reports[0].plan.batch)
            else:  # the others shall not miss for one
                for report in reports:
                    self._put((report,))
