"""Recorder and clock: what a window asks beside sources and sinks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import BatchPlan, BatchReport, CheckedBatch
from databus.core.state.checkpoint import HistoryEntry


class Recorder(Protocol):
    """Stores reports; may lag, never fails a batch."""

    def record(self, *reports: BatchReport) -> None:
        """Store reports, all or none; idempotent by (flow, batch).

        Raises:
            RecordingError: they could not be stored; the caller logs and goes on.
        """
        ...

    def paged(self, flow: str) -> int:
        """Return the number of the newest history entry that has a ledger page, 0 without any."""
        ...

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write ledger pages of history entries, and reports of commits that have none; idempotent.

        Args:
            flow: flow name.
            entries: in ascending order of their numbers; those that have a page are compared with it.

        Returns:
            The greatest number up to which every given entry equals its page; ZooKeeper may let those go.

        Raises:
            RecordingError: they could not be stored; they stay in the checkpoint store.
        """
        ...

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow], plan_hash: str = "") -> None:
        """Store rows held back, before the commit that counts them; upserts by event id and stage.

        Args:
            flow: flow name.
            batch: batch number.
            rows: the rows.
            plan_hash: hash of the batch's plan; "" leaves what is stored, for rows that a replay holds back again.

        Raises:
            RecordingError: they could not be stored; the batch fails, because a row must not vanish.
        """
        ...

    def checked_batches(self, flow: str, after: int) -> Sequence[CheckedBatch]:
        """Return the batches behind a number of which a check holds rows.

        Raises:
            RecordingError: they could not be read.
        """
        ...

    def held_by_checks(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        """Return the event ids of rows that a check held in some batches, whatever became of them since.

        Raises:
            RecordingError: they could not be read.
        """
        ...


class Clock(Protocol):
    """Clock; tests bring their own."""

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        ...
