"""A batch cut into smaller ones, so that what is made of it comes bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.table_batch import TableBatch


def sliced(batch: TableBatch, changes: int) -> Iterator[TableBatch]:
    """Yield the batch in pieces of at most so many changes, in its order; images that no change names are left out."""
    if len(batch) <= changes:
        yield batch
        return
    for start in range(0, len(batch), changes):
        here = slice(start, start + changes)
        before, after = batch.before_row[here], batch.after_row[here]
        named = np.concatenate([before[before >= 0], after[after >= 0]])
        low, high = (int(named.min()), int(named.max()) + 1) if len(named) else (0, 0)
        yield replace(
            batch,
            images=batch.images.slice(low, high - low),
            op=batch.op[here],
            before_row=_moved(before, low),
            after_row=_moved(after, low),
            transaction=batch.transaction[here],
            ordinal=batch.ordinal[here],
            presence=batch.presence[low:high],
            exceptions={
                column: {row - low: value for row, value in found.items() if low <= row < high}
                for column, found in batch.exceptions.items()
            },
            partial=_moved_rows(batch.partial, low, high),
            unjudged=_moved_rows(batch.unjudged, low, high),
        )


def _moved_rows(rows: Mapping[int, frozenset[int]], low: int, high: int) -> dict[int, frozenset[int]]:
    return {column: frozenset(row - low for row in found if low <= row < high) for column, found in rows.items()}


def _moved(rows: npt.NDArray[np.int32], by: int) -> npt.NDArray[np.int32]:
    return np.where(rows >= 0, rows - np.int32(by), rows).astype(np.int32)
