"""Row program of a flow: what its transforms do with values and rows, applied where rows are decoded.

`databus.runtime.direct.compiled_transforms.compilation` makes one; `emit` applies it. What it does to a row is what the
same transforms do to it in Spark's lane.
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


ROUTES_NOW, ROUTES_WAS = "routes_now", "routes_was"
"""Columns (int32) of the routes of a row as it is and as it was: bit i stands for the i-th of its table's routes."""

KEY_NOW, KEY_WAS = "key_now", "key_was"
"""Columns (binary) of the key that is chosen of a row as it is and as it was; null where `key` says it."""

CROSSING = "crossing"
"""Column (int8): `CROSSES_FLOW` of an update with both images behind the flow's transforms, `CROSSES` behind all."""

CROSSES_FLOW, CROSSES = 1, 2


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Places of rows that their values choose.

    Attributes:
        routes_now: int32[n], bit i stands for the i-th of the table's routes.
        routes_was: the same of the row as it was.
        key_now: binary[n], null where the source's key stays.
        key_was: the same of the row as it was.
    """

    routes_now: npt.NDArray[np.int32]
    routes_was: npt.NDArray[np.int32]
    key_now: pa.BinaryArray
    key_was: pa.BinaryArray

    @classmethod
    def of_source(cls, rows: int) -> RowPlaces:
        """Return the places of rows of which nothing was chosen: the one route of their table, the source's key."""
        first, none = np.ones(rows, np.int32), pa.nulls(rows, pa.binary())
        return cls(first, first, none, none)

    def __getitem__(self, rows: slice) -> RowPlaces:
        """Return the places of some rows."""
        return RowPlaces(self.routes_now[rows], self.routes_was[rows], self.key_now[rows], self.key_was[rows])

    @property
    def columns(self) -> dict[str, pa.Array]:
        """Columns of rows that have them."""
        return {
            ROUTES_NOW: pa.array(self.routes_now, pa.int32()),
            ROUTES_WAS: pa.array(self.routes_was, pa.int32()),
            KEY_NOW: self.key_now,
            KEY_WAS: self.key_was,
        }


PLACE_FIELDS = (
    pa.field(ROUTES_NOW, pa.int32()),
    pa.field(ROUTES_WAS, pa.int32()),
    pa.field(KEY_NOW, pa.binary()),
    pa.field(KEY_WAS, pa.binary()),
    pa.field(CROSSING, pa.int8()),
)


@dataclass(frozen=True, eq=False)
class FatedRows:
    """Rows of a batch on their way through a flow's filters, after primary-key updates were split.

    Attributes:
        change: int64[n], number of the change in the batch.
        op: int8[n], as in `TableBatch`, or `FILTERED`.
        before: int32[n], image in the batch, -1 without.
        after: the same of the after-image.
        unjudged: string[n] as the column `UNJUDGED`; None where all rows were judged.
        places: routes and keys that values choose; None where none do.
    """

    change: npt.NDArray[np.int64]
    op: npt.NDArray[np.int8]
    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    unjudged: pa.StringArray | None = None
    places: RowPlaces | None = None


class RowProgram(Protocol):
    """The compiled transforms of a flow on the tables of one plan; picklable."""

    @property
    def places(self) -> bool:
        """Flag of a program that chooses routes or keys of rows of some table by value."""
        ...

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

    @property
    def places(self) -> bool:
        """Flag of a flow whose transforms choose routes or keys by value; a sink's cannot."""
        return self.flow is not None and self.flow.places
