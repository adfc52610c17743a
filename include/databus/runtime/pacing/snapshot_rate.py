"""Rate of a snapshot: rows of its next chunks, by what the flow allows and what the stream beside it bears."""

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


FIRST_ROWS = 25_000
"""Rows of the first chunks beside a stream whose pace is not known."""

STREAM_S = 1.0
"""Seconds that the chunks of a batch take while the stream has rows: a change waits for two batches at most."""

LEAST_ROWS = 1_000
"""Rows of the smallest chunks: what a batch costs at least would take over below them."""

_GROWS = 4.0
_SHRINKS = 1 / 4
_KEPT = (0.8, 1.25)
"""Bounds of a change of size that is passed over: chunks that were read ahead are not read anew for it."""


@dataclass
class ChunkShare:
    """Share of a batch that chunks take, learned from how long the last batches took.

    A change that is logged while a batch is under way waits for that batch and for its own. While the stream has
    rows, chunks are kept so small that they take about STREAM_S, beside what a batch takes with few rows; without any
    they grow to the flow's own bound.

    Attributes:
        clock: seconds on a clock that never goes back.
    """

    clock: Callable[[], float] = time.monotonic
    _most: int = field(default=FIRST_ROWS, init=False)
    _begun: float = field(default=0.0, init=False)
    _rows: int = field(default=0, init=False)
    _log_rows: int = field(default=0, init=False)
    _fixed: float | None = field(default=None, init=False)

    def granted(self, bound: int) -> int:
        """Return how many rows the next chunks may have, `bound` at most; the batch begins now."""
        self._begun = self.clock()
        return min(bound, self._most)

    def took(self, rows: int, log_rows: int) -> None:
        """Take note of a batch that was planned.

        Args:
            rows: rows of its chunks.
            log_rows: rows of the stream that go with them.
        """
        self._rows, self._log_rows = rows, log_rows

    def committed(self) -> None:
        """Take note that this batch is committed."""
        rows, log_rows = self._rows, self._log_rows
        if not rows:
            return
        if not log_rows:
            self._most = max(self._most, int(rows * _GROWS))
            return
        # What the stream's own rows take, and a batch of none, is not made shorter by smaller chunks.
        whole = max(self.clock() - self._begun, 1e-3)
        if rows <= LEAST_ROWS * _GROWS:
            self._fixed = whole if self._fixed is None else min(self._fixed, whole)
        seconds = max((whole - (self._fixed or 0.0)) * rows / (rows + log_rows), 1e-3)
        fits = max(LEAST_ROWS, int(rows * min(_GROWS, max(_SHRINKS, STREAM_S / seconds))))
        if seconds <= STREAM_S:  # a table's last rows are few
            fits = max(fits, self._most)
        if not _KEPT[0] < fits / self._most < _KEPT[1]:
            self._most = fits
