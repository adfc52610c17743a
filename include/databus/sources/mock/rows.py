"""Rows of mock tables, computed from their numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import DELETE, INSERT, TableBatch
from databus.sources.mock.changes import Changes, RowChanges
from databus.sources.mock.draws import Numbers, mix
from databus.sources.mock.values import values
from databus.sources.mock.versions import MockColumn, TableVersion

_ODD = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class MockTable:
    """Mock table.

    Attributes:
        versions: its versions; the column `id` of each is the key.
        changes: its row changes.
        null_ratio: share of NULLs.
    """

    versions: tuple[TableVersion, ...]
    changes: Changes
    null_ratio: float

    def batch(
        self, version: int, schema_id: int, numbers: Numbers, transaction: npt.NDArray[np.int32], ordinal: Numbers
    ) -> TableBatch:
        """Return the row changes with these numbers within the table.

        Args:
            version: number of the version under which they are logged.
            schema_id: its number in the plan.
            numbers: which changes.
            transaction: see `TableBatch`.
            ordinal: see `TableBatch`.
        """
        found = self.changes.of(numbers)
        op = found.op
        has_before, has_after = op != INSERT, op != DELETE
        images = np.cumsum(has_before.astype(np.int32) + has_after)
        first = np.concatenate(([0], images[:-1])).astype(np.int32)
        before = np.where(has_before, first, np.int32(-1)).astype(np.int32)
        after = np.where(has_after, first + has_before, np.int32(-1)).astype(np.int32)
        n = int(images[-1]) if len(images) else 0
        schema = replace(self.versions[version].schema, schema_id=schema_id)
        return TableBatch(
            schema,
            self._images(version, found, numbers, before, after, n),
            op,
            before,
            after,
            transaction,
            ordinal,
            np.zeros(n, np.int32),
            (np.ones(len(schema.columns), np.bool_),),
        )

    def _images(
        self,
        version: int,
        found: RowChanges,
        numbers: Numbers,
        before: npt.NDArray[np.int32],
        after: npt.NDArray[np.int32],
        n: int,
    ) -> pa.RecordBatch:
        keys, states, written = (np.zeros(n, np.int64) for _ in range(3))
        was, comes = before >= 0, after >= 0
        for places, of, state, wrote in (
            (before[was], was, found.before, found.written),
            (after[comes], comes, found.after, numbers),
        ):
            keys[places], states[places], written[places] = found.key[of], state[of], wrote[of]
        now = self.versions[version]
        of_version = np.searchsorted([v.start for v in self.versions[1 : version + 1]], written, side="right")
        state_of = keys.astype(np.uint64) * np.uint64(2) + (states & 1).astype(np.uint64)
        if len(states) and states.max() > 1:
            state_of += (states >> 1).astype(np.uint64) * _ODD
        arrays = [
            pa.array(keys) if column.name == "id" else self._column(column, state_of, of_version)
            for column in now.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, [column.name for column in now.columns])

    def _column(
        self, column: MockColumn, state_of: npt.NDArray[np.uint64], of_version: npt.NDArray[np.intp]
    ) -> pa.Array:
        """Return a column: what images from before it hold is NULL, those from before its type is as it was then."""
        bits = mix(state_of, column.salt)
        null = mix(bits, 1) < np.uint64(min(int(self.null_ratio * 2**64), 2**64 - 1))
        since, kind = column.types[0]
        if since:
            null |= of_version < since
        found = values(kind, bits, null, column.size)
        for since, kind in column.types[1:]:
            found = found.cast(column.arrow)
            if (later := of_version >= since).any():
                found = pc.if_else(pa.array(later), values(kind, bits, null, column.size).cast(column.arrow), found)
        return found
