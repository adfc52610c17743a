"""A circuit breaker before the records store: a store that answers late or never does not hold the batches up."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchPlan, BatchReport, CheckedBatch
from databus.core.errors.batch import RecordingError
from databus.core.protocols.recorder import Recorder
from databus.core.state.checkpoint import HistoryEntry

T = TypeVar("T")

REST = 6
"""Pause after a failed attempt, as a multiple of its duration: the store costs a seventh of the time at most."""


class RecorderBreaker:
    """Implements `databus.core.protocols.Recorder` around another one.

    What may be stored later (reports, pages) is refused at once for a while after an attempt failed: history keeps what
    they are made from. Held rows are always tried, and looked for: no batch must be committed without them.
    """

    def __init__(self, recorder: Recorder, monotonic: Callable[[], float] = time.monotonic):
        """Begin closed.

        Args:
            recorder: where to store.
            monotonic: seconds that only grow.
        """
        self._recorder, self._monotonic = recorder, monotonic
        self._open_until = float("-inf")

    def record(self, *reports: BatchReport) -> None:
        """Store reports (see `Recorder.record`)."""
        self._try(lambda: self._recorder.record(*reports))

    def paged(self, flow: str) -> int:
        """Return the number of the newest page (see `Recorder.paged`)."""
        return self._try(lambda: self._recorder.paged(flow))

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write ledger pages (see `Recorder.page`)."""
        return self._try(lambda: self._recorder.page(flow, entries))

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow], plan_hash: str = "") -> None:
        """Store held rows (see `Recorder.quarantine`)."""
        self._recorder.quarantine(flow, batch, rows, plan_hash=plan_hash)

    def checked_batches(self, flow: str, after: int) -> Sequence[CheckedBatch]:
        """Return batches of which a check holds rows (see `Recorder.checked_batches`)."""
        return self._recorder.checked_batches(flow, after)

    def held_by_checks(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        """Return rows that a check held (see `Recorder.held_by_checks`)."""
        return self._recorder.held_by_checks(flow, batches)

    def _try(self, attempt: Callable[[], T]) -> T:
        began = self._monotonic()
        if began < self._open_until:
            raise RecordingError(
                f"the records store failed and is not asked for another {self._open_until - began:.0f} s",
                hint="What is missing is filled in from history once it answers.",
            )
        try:
            return attempt()
        except RecordingError:
            ended = self._monotonic()
            self._open_until = ended + REST * (ended - began)
            raise
