"""Row program of a flow: what its transforms do with values and rows, applied where rows are decoded.

`databus.runtime.direct.compilation` makes one; `emit` applies it. What it does to a row is what the same transforms do
to it in Spark's lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch, Transactions

FILTERED = 4
"""Operation of a row that is left out, beside those of `TableBatch.op`."""


@dataclass(frozen=True, eq=False)
class FatedRows:
    """Rows of a batch on their way through a flow's filters, after primary-key updates were split.

    Attributes:
        change: int64[n], number of the change in the batch.
        op: int8[n], as in `TableBatch`, or `FILTERED`.
        before: int32[n], image in the batch, -1 without.
        after: the same of the after-image.
        unjudged: string[n] as the column `UNJUDGED`; None where all rows were judged.
    """

    change: npt.NDArray[np.int64]
    op: npt.NDArray[np.int8]
    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    unjudged: pa.StringArray | None = None


class RowProgram(Protocol):
    """The compiled transforms of a flow on the tables of one plan; picklable."""

    def judged(self, batch: TableBatch, transactions: Transactions, rows: FatedRows) -> FatedRows:
        """Return the rows after all filters and what else holds rows back, in their order and number.

        Raises:
            DatabusError: a condition or value fails for a row, as it does in Spark.
            SparkNeededError: a value that only Spark's lane reads.
        """
        ...

    def shown(self, batch: TableBatch, transactions: Transactions) -> TableBatch:
        """Return the batch with its columns as they are to be written; flags are read from the one before.

        Columns whose values are replaced or computed have their new types; added ones stand behind the others, each
        under a name that no table's column has (`Field.source`), and are carried by the presence sets of their inputs.

        Args:
            batch: changes whose `before_row` and `after_row` point to its images.
            transactions: those that the batch points into, for values made of the commit time.

        Raises:
            DatabusError: as `judged`.
        """
        ...


@dataclass(frozen=True)
class SinkProgram:
    """Row programs of a flow and, behind its checks, of one of its sinks; picklable.

    Rows that the flow leaves out or holds back do not reach the sink's program. Marks of checks are those of the images
    as the flow's transforms leave them, and all images that are written those that the sink's leave.

    Attributes:
        flow: what the flow's transforms do; None where they look at no value.
        own: what the sink's do: it judges rows by them alone, and shows values as both leave them.
        holding: bits of the checks that hold rows back.
    """

    flow: RowProgram | None
    own: RowProgram
    holding: int = 0
