"""Rows → the columns that the search writer takes, in the reader's task: what the sink's `encode` says, in Arrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.sinks import envelope_text

PASSED_ON = (
    "event_id",
    "database",
    "table",
    "route",
    "key",
    "log",
    "place",
    "ordinal",
    "part",
    "op",
    "absent",
    "other_key",
    "statement",
    "before",
)
"""Columns of `ROW_COLUMNS` that the writer takes as they are; `slot` and `document` stand beside them."""


@dataclass(frozen=True)
class ElasticsearchEncoder:
    """Encodes the rows of one plan.

    Attributes:
        slots: number of the sink's writers.
    """

    slots: int

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        """Return the rows of a slot: `slot` int32, `PASSED_ON`, `document` string (after-image and flags as JSON).

        `before` is a JSON text here, a VARIANT in the other lane; it is looked at only where a row is refused.
        """
        # A row without a key belongs to no slot; the writer refuses it wherever it comes.
        owner = np.asarray(pc.fill_null(rows["key_hash"], 0)) % self.slots
        mine = owner == slot
        if not mine.all():
            rows = rows.take(pa.array(np.flatnonzero(mine)))
        made = [pa.repeat(pa.scalar(slot, pa.int32()), rows.num_rows), envelope_text.document(rows).cast(pa.string())]
        return pa.RecordBatch.from_arrays(
            [*made, *(rows[name] for name in PASSED_ON)], names=["slot", "document", *PASSED_ON]
        )
