"""Direct sink: rows encoded in the reader's task, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from databus.core.protocols.sink import Sink
from databus.core.state.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa


class DirectEncoder(Protocol):
    """A picklable encoder that runs in the reader's task, without Spark."""

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        """Turn rows this sink takes into the columns its writer takes, those of one slot only, in the order given.

        The result says what `Sink.encode` says of the same rows: equal keys, outputs and partitions, values of equal
        content.

        Args:
            rows: what `DirectSplit.read_text` gives, with the column `route` added.
            slot: number of the slot whose rows are kept.
        """
        ...


@runtime_checkable
class RelayEncoder(Protocol):
    """A picklable encoder of raw records."""

    def slot_of(self, partition: int) -> int:
        """Return the slot that writes a partition, always the same."""
        ...

    def relay(self, records: Any) -> Any:
        """Return the records with the output they go to."""
        ...


class DirectSink(Sink, Protocol):
    """A sink whose rows can be encoded in the reader's task."""

    def encoder(self, plan: Plan) -> DirectEncoder:
        """Return the picklable encoder of a plan."""
        ...
