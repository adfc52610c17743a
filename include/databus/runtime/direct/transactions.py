"""Boundaries of transactions in the direct lane: put between the encoded rows of the slot that writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from databus.core.protocols.optional_sink import DirectEncoder, TransactionEncoder
from databus.core.transactions import TransactionBoundary

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.transaction_orders import TransactionOrders


@dataclass
class TransactionStream:
    """Transactions of the rows of one task, on their way.

    Attributes:
        encoder: the sink's.
        slot: the task's.
        orders: numbers the rows.
    """

    encoder: TransactionEncoder
    slot: int
    orders: TransactionOrders = field(init=False)

    def __post_init__(self) -> None:
        from databus.rows.transaction_orders import TransactionOrders

        self.orders = TransactionOrders()

    @classmethod
    def of(cls, encoder: DirectEncoder, slot: int) -> TransactionStream | None:
        """Return the stream of a slot, None for a sink that writes no transactions."""
        return cls(encoder, slot) if isinstance(encoder, TransactionEncoder) and encoder.transactions else None

    def merged(self, encoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return encoded rows with the boundaries that were met since, each at its place in the log."""
        boundaries = self._encoded(self.orders.taken())
        return encoded if boundaries is None else in_log_order(encoded, boundaries)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the boundaries that are left at the end of the range."""
        boundaries = self._encoded(self.orders.end())
        if boundaries is not None:
            yield boundaries

    def _encoded(self, boundaries: list[TransactionBoundary]) -> pa.RecordBatch | None:
        return self.encoder.encode_boundaries(boundaries, self.slot) if boundaries else None


def in_log_order(rows: pa.RecordBatch, boundaries: pa.RecordBatch) -> pa.RecordBatch:
    """Return encoded rows and boundaries as one batch with the columns of the rows, in the order of the log.

    The order does not depend on where batches were cut, so that a retry finds its place by counting.
    """
    import numpy as np
    import pyarrow as pa

    n = boundaries.num_rows
    columns = [
        boundaries[field.name].cast(field.type) if field.name in boundaries.schema.names else pa.nulls(n, field.type)
        for field in rows.schema
    ]
    both = pa.concat_batches([rows, pa.RecordBatch.from_arrays(columns, schema=rows.schema)])
    logs = both["log"].dictionary_encode()
    names = logs.dictionary.to_pylist()
    rank = np.argsort(np.argsort([f"{len(name):05d}{name}" for name in names]))[np.asarray(logs.indices)]
    keys = (np.asarray(both[name]) for name in ("part", "ordinal", "place"))
    order = np.lexsort((*keys, rank))
    return both if (np.diff(order) == 1).all() else both.take(pa.array(order))
