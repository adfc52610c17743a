"""Hidden columns that a flow remembers: written down before rows of them are dispatched."""

from __future__ import annotations

import logging
from collections.abc import Callable

from databus.core.errors.checkpoint import CheckpointError, CheckpointUnavailableError
from databus.core.tables.hidden_columns import NOTHING_GONE, HiddenByTable, HiddenColumns, RememberedHidden, with_added
from databus.runtime.zookeeper_loss.retrying_store import Retry

log = logging.getLogger(__name__)


class HiddenMemory:
    """The memory of one flow, read once under each claim of it.

    Args:
        flow: name of the flow; of a backfill, that of the flow whose rows it moves.
        kept: where it is kept.
    """

    def __init__(self, flow: str, kept: HiddenColumns):
        self._flow, self._kept = flow, kept
        self._known: RememberedHidden | None = None
        self._unwritten, self._unforgotten = RememberedHidden(), RememberedHidden()
        self._again: HiddenByTable = {}
        self._beside_again = RememberedHidden()
        self._behind: tuple[int, RememberedHidden] = (0, NOTHING_GONE)
        self._told: set[tuple[str, str]] = set()
        self._retry: Retry | None = None
        self._connected: Callable[[], bool] = lambda: True
        self._goes_on = True

    def outlasting(self, retry: Retry, connected: Callable[[], bool], *, goes_on: bool) -> None:
        """Say how it outlasts the absence of what keeps it; of itself it waits for nothing.

        Args:
            retry: for what must be known before a batch: it is waited for.
            connected: returns whether it can be asked just now.
            goes_on: whether the flow goes on meanwhile, so that what cannot be written is kept in hand.
        """
        self._retry, self._connected, self._goes_on = retry, connected, goes_on

    def begin(self) -> None:
        """Read it under a new claim; what could not be written under the last one stays in hand. Raises as `known`."""
        self._known, self._again, self._beside_again = None, {}, RememberedHidden()
        self._behind = (0, NOTHING_GONE)
        self.known()

    def known(self) -> RememberedHidden:
        """Return what is remembered.

        Raises:
            CheckpointError: it cannot be read.
        """
        if self._known is None:
            kept = self._retry(self._load) if self._retry is not None else self._load()
            self._known = kept.without(self._unforgotten).with_added(self._unwritten)
        return self._known

    @property
    def again(self) -> HiddenByTable:
        """Hidden columns that batches under this claim found which were moved before."""
        return self._again

    def remember(self, found: RememberedHidden, *, again: bool = False, gone: RememberedHidden = NOTHING_GONE) -> None:
        """Add what a batch found, and take back what holds no more.

        While ZooKeeper is away a flow that goes on without it keeps it in hand and writes it down later; another one
        waits for it.

        Args:
            found: what it found.
            again: whether the batch was moved before.
            gone: what holds no more.

        Raises:
            CheckpointError: it cannot be written.
        """
        known = self.known()
        if again:
            self._again = with_added(self._again, found.tables)
            beside = RememberedHidden(beside=found.beside).without(known)
            self._beside_again = self._beside_again.with_added(beside)
        new, gone = found.without(known), gone.shared(known)
        self._unwritten = self._unwritten.without(gone).with_added(new)
        self._unforgotten = self._unforgotten.without(new).with_added(gone)
        if not self._unwritten and not self._unforgotten:
            return
        self._known = known.without(gone).with_added(new)
        if self._retry is not None and not self._goes_on:
            self._retry(self._write)
        elif self._connected():
            try:
                self._write()
            except CheckpointUnavailableError as error:
                log.warning("flow %s: which columns it hides is written down later: %s", self._flow, error.message)
        elif new or gone:
            log.warning("flow %s: which columns it hides is written down once ZooKeeper is back", self._flow)

    def take_back_behind(self, batch: int, gone: RememberedHidden, *, again: bool = False) -> None:
        """Take back what holds no more behind a batch once that is committed: tried again it stands before it.

        Args:
            batch: its number.
            gone: what holds no more.
            again: whether the batch was moved before: what the flow remembers is of a place behind it, and only what
                such batches found is taken back.
        """
        self._behind = (batch, gone.shared(self._beside_again) if again else gone)

    def committed(self, batch: int) -> None:
        """Take back what holds no more behind a batch, which is committed; what cannot be written stays in hand."""
        (number, gone), self._behind = self._behind, (0, NOTHING_GONE)
        if number != batch or not (gone := gone.shared(self.known())):
            return
        self._known = self.known().without(gone)
        self._unwritten, self._unforgotten = self._unwritten.without(gone), self._unforgotten.with_added(gone)
        if self._connected():
            try:
                self._write()
            except CheckpointError as error:
                log.warning("flow %s: which columns it hides is written down later: %s", self._flow, error.message)

    def first_told(self, table: str, column: str) -> bool:
        """Return whether this process has not reported a column of a table yet."""
        before = len(self._told)
        self._told.add((table, column))
        return len(self._told) > before

    def _load(self) -> RememberedHidden:
        return self._kept.load(self._flow)

    def _write(self) -> None:
        self._kept.add(self._flow, self._unwritten, self._unforgotten)
        self._unwritten, self._unforgotten = RememberedHidden(), RememberedHidden()
