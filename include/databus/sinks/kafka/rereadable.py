"""Input that can be read once more from its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa


class RereadableBatches:
    """Passes batches on and remembers them: a small batch of a live job, which fits into memory many times.

    Args:
        rows: the input.
    """

    def __init__(self, rows: Iterable[pa.RecordBatch]) -> None:
        self._rest = iter(rows)
        self._taken: list[pa.RecordBatch] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rest:
            self._taken.append(batch)
            yield batch

    def again(self) -> Iterator[pa.RecordBatch]:
        """Return the input from its beginning on."""
        return chain(self._taken, self._rest)
