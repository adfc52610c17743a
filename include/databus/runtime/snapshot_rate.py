"""Rate of a snapshot: rows that its next chunks may have, so that no more than the flow allows are read per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

BURST_S = 2.0
"""Rows that were not read are saved up for so long: an idle stream is waited for as long in each batch."""

LEAST_S = 0.5
"""Rows of so long are waited for: a view, and a chunk of a few rows in each of many small batches, would cost more."""


@dataclass
class SnapshotRate:
    """Rate of rows that are read: a bucket that time fills and chunks empty. Nobody sleeps for it.

    In any span of t seconds at most `rows_per_second` × (t + BURST_S) rows are granted. A chunk that is larger than
    what was granted, of a table that can be read in one go alone, is made up for by a longer wait.

    Attributes:
        rows_per_second: most rows per second.
        clock: seconds on a clock that never goes back.
    """

    rows_per_second: int
    clock: Callable[[], float] = time.monotonic
    _saved: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._saved, self._at = self._least, self.clock()

    def granted(self) -> int:
        """Return how many rows the next chunks may have; 0 while too few are saved up."""
        now = self.clock()
        most = max(1.0, BURST_S * self.rows_per_second)
        self._saved = min(most, self._saved + (now - self._at) * self.rows_per_second)
        self._at = now
        return int(self._saved) if self._saved >= self._least else 0

    def took(self, rows: int) -> None:
        """Take note of rows that were read."""
        self._saved -= rows

    @property
    def _least(self) -> float:
        return max(1.0, LEAST_S * self.rows_per_second)
