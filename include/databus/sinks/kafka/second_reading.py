"""Second reading of a batch: its input once more, and the place of a row behind which it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from databus.sinks.kafka.markers import Place


def last_place(rows: pa.RecordBatch) -> Place:
    """Return the place of the last of some encoded rows."""
    file, position, ordinal, part = (rows[name][-1].as_py() for name in ("log", "place", "ordinal", "part"))
    return file, position, ordinal, part


def rows_until(rows: pa.RecordBatch, place: Place) -> int:
    """Return how many of encoded rows, from the first on, stand at a place or before it."""
    if not rows.num_rows:
        return 0
    files = rows["log"].dictionary_encode()
    wanted = len(place[0]), place[0]
    sides = [((len(name), name) > wanted) - ((len(name), name) < wanted) for name in files.dictionary.to_pylist()]
    side = np.array(sides, np.int64)[np.asarray(files.indices)]
    for name, limit in zip(("place", "ordinal", "part"), place[1:], strict=True):
        side = np.where(side == 0, np.sign(np.asarray(rows[name]).astype(np.int64) - limit), side)
    behind = np.flatnonzero(side > 0)
    return int(behind[0]) if len(behind) else rows.num_rows


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
