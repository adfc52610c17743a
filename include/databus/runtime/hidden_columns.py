"""What a flow remembers of the columns that its transforms hide: written down before rows of them are dispatched."""

from __future__ import annotations

import logging

from databus.core.errors import CheckpointUnavailableError
from databus.core.hidden_columns import HiddenByTable, HiddenColumns, with_added

log = logging.getLogger(__name__)


class HiddenMemory:
    """The memory of one flow, read once under its claim.

    Args:
        flow: name of the flow.
        kept: where it is kept.
    """

    def __init__(self, flow: str, kept: HiddenColumns):
        self._flow, self._kept = flow, kept
        self._known: dict[str, frozenset[str]] | None = None
        self._unwritten: dict[str, frozenset[str]] = {}

    def known(self) -> HiddenByTable:
        """Return `database.table` → columns that were hidden there. Raises CheckpointError."""
        if self._known is None:
            self._known = dict(self._kept.load(self._flow))
        return self._known

    def remember(self, found: HiddenByTable) -> None:
        """Add what a batch found.

        While ZooKeeper is away a flow that goes on without it keeps it in hand and writes it down later.

        Raises:
            CheckpointError: it cannot be written.
        """
        known = self.known()
        new = {table: names for table, names in found.items() if not set(names) <= set(known.get(table, ()))}
        self._unwritten = with_added(self._unwritten, new)
        if not self._unwritten:
            return
        self._known = with_added(known, new)
        try:
            self._kept.add(self._flow, self._unwritten)
        except CheckpointUnavailableError as error:
            log.warning("flow %s: which columns it hides is written down later: %s", self._flow, error.message)
            return
        self._unwritten = {}
