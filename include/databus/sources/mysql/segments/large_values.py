"""Take the largest values out of rows that are too large: each goes to the segment store, a reference in its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import LargeValue, TableBatch
from databus.binlog.segments.large_values import LargeValueStore
from databus.rows.columns import text
from databus.sources.mysql.segments.address import LargeValueRules

Exceptions = dict[int, dict[int, str | bytes | LargeValue]]


class RowLargeValues:
    """Applies the rules of one source."""

    def __init__(self, rules: LargeValueRules):
        self._store, self._over = LargeValueStore(rules.root), rules.over_bytes

    def applied(self, batch: TableBatch) -> TableBatch:
        """Return a batch none of whose row images holds more than the limit, key columns apart.

        What is claimed is a `LargeValueReference` among the exceptions. Images that no change names are not looked at.

        Raises:
            SegmentStoreFullError: there is no room for a value; nothing of its row has gone anywhere.
            SourceUnavailableError: the store cannot be used.
        """
        if not self._may_be_large(batch):
            return batch
        named = np.zeros(batch.images.num_rows, np.bool_)
        for rows in (batch.before_row, batch.after_row):
            named[rows[rows >= 0]] = True
        exceptions: Exceptions = {column: dict(found) for column, found in batch.exceptions.items()}
        for found in exceptions.values():
            for row, value in found.items():
                if isinstance(value, LargeValue):
                    found[row] = self._store.put(value.data, value.charset) if named[row] else ""
        taken = self._take_out(batch, named, exceptions)
        arrays = list(batch.images.columns)
        for column, gone in taken.items():
            mask = np.zeros(len(arrays[column]), np.bool_)
            mask[gone] = True
            arrays[column] = pc.if_else(pa.array(mask), pa.scalar(None, arrays[column].type), arrays[column])
        images = pa.RecordBatch.from_arrays(arrays, schema=batch.images.schema)
        return replace(batch, images=images, exceptions=exceptions)

    def _may_be_large(self, batch: TableBatch) -> bool:
        """Return in little time whether any image can be over the limit."""
        if any(not isinstance(v, str) for found in batch.exceptions.values() for v in found.values()):
            return True
        total = 0
        for array in _variable(batch).values():
            offsets, _ = text(array)
            total += int(offsets[-1]) - int(offsets[0])
        return total > self._over

    def _take_out(
        self, batch: TableBatch, named: npt.NDArray[np.bool_], exceptions: Exceptions
    ) -> dict[int, list[int]]:
        """Move values out, the largest first, until each image fits; returns column → rows that are taken out."""
        key = set(batch.schema.primary_key)
        columns = {c: a for c, a in _variable(batch).items() if batch.schema.columns[c].name not in key}
        sizes = np.zeros((len(columns), batch.images.num_rows), np.int64)
        for line, (column, array) in zip(sizes, columns.items(), strict=True):
            line[:] = np.diff(text(array)[0])
            for row, value in exceptions.get(column, {}).items():
                if isinstance(value, bytes):
                    line[row] = len(value)
        numbers, taken = list(columns), dict[int, list[int]]()
        totals = sizes.sum(axis=0)
        for row in np.flatnonzero(named & (totals > self._over)).tolist():
            left = int(totals[row])
            for line in np.argsort(-sizes[:, row], kind="stable").tolist():
                if left <= self._over:
                    break
                column = numbers[line]
                kept = exceptions.setdefault(column, {})
                kept[row] = self._store.put(*_value(columns[column], row, kept.get(row)))
                taken.setdefault(column, []).append(row)
                left -= int(sizes[line, row])
        return taken


def _variable(batch: TableBatch) -> dict[int, pa.Array]:
    """Return the columns of text and bytes."""
    return {
        column: array
        for column, array in enumerate(batch.images.columns)
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type)
    }


def _value(array: pa.Array, row: int, exception: object) -> tuple[npt.NDArray[np.uint8], str | None]:
    """Return a value's bytes and their character set; none for what is no text of its column's one."""
    if isinstance(exception, bytes):
        return np.frombuffer(exception, np.uint8), None
    charset = "utf8mb4" if pa.types.is_string(array.type) else None
    return np.frombuffer(array[row].as_buffer(), np.uint8), charset
