"""Optional promises of a sink, asked for with `isinstance`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from databus.core.findings import Finding
from databus.core.protocols.sink import Sink
from databus.core.state.known_outputs import ChangedOutput, KnownOutputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.core.transactions import TransactionBoundary

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class FollowingSink(Protocol):
    """A sink that remembers which columns its keys are made of, and so has to know where statements move them."""

    def follow_columns(self, plan: SourcePlan, tables: Sequence[tuple[TableSchema, str]]) -> None:
        """Remember what `plan.columns_moved` says of (table, route) pairs, be there rows of them in the range or none.

        Asked before `prepare`; idempotent: a statement may come again, in another range. The tables say no columns.
        """
        ...


@runtime_checkable
class JudgingSink(Protocol):
    """A sink whose outputs, as they are, take rows of some tables only."""

    def judge(self, outputs: Sequence[tuple[TableSchema, str]]) -> Sequence[Finding]:
        """Return a finding for each (table, route) pair whose rows its output would refuse; changes nothing.

        Raises:
            SinkError: the outputs cannot be looked at.
        """
        ...


@runtime_checkable
class PinningSink(Sink, Protocol):
    """A sink whose outputs have ids, so that one made anew is distinguished from the one before."""

    def prepare_known(
        self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]], known: KnownOutputs
    ) -> SinkPlan:
        """Do what `prepare` does, and pin the outputs' ids; a known output that is gone is not made again.

        Raises:
            SinkOutputChangedError: a known output was deleted; nothing was made.
        """
        ...

    def make_unplanned(self, plan: Plan, outputs: Sequence[tuple[TableSchema, str]], known: KnownOutputs) -> None:
        """Make those outputs of (table, route) pairs that a plan in flight needs and does not name.

        Raises:
            SinkOutputChangedError: a known one was deleted; nothing was made.
        """
        ...

    def changed(self, known: Mapping[str, str]) -> Sequence[ChangedOutput]:
        """Return which outputs (output → id) are gone or are others now; changes nothing."""
        ...

    def written_of(self, plan: Plan) -> Mapping[str, int] | None:
        """Return how many records of a plan in flight its earlier attempts have committed, by "output[partition]".

        Returns:
            What has to be in the outputs as they were; {} where each attempt writes all anew. None where it cannot be
            determined.
        """
        ...

    def make_again(self, outputs: Mapping[str, int]) -> Mapping[str, str]:
        """Make outputs (output → partitions) that a plan in flight needs and a person has accepted to be gone.

        Returns:
            Output → id.
        """
        ...


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
class ImageEncoder(DirectEncoder, Protocol):
    """A direct encoder that takes images in a form of its own, and not as JSON text."""

    def image_form(self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None) -> Any:
        """Return the `ImageForm`; see `DirectSplit.read_text` for the arguments."""
        ...


@runtime_checkable
class FormEncoder(Protocol):
    """A picklable encoder that may take values in a form of its own."""

    @property
    def values(self) -> Any | None:
        """`ValueForm` in which it takes rows; None for the usual one."""
        ...

    def of_tables(self, tables: Sequence[TableSchema]) -> DirectEncoder:
        """Return the encoder for a plan's tables, as the flow's transforms leave them; asked before anything else."""
        ...


@runtime_checkable
class TransactionEncoder(DirectEncoder, Protocol):
    """A direct encoder that may write where transactions begin and end, beside their rows."""

    @property
    def transactions(self) -> bool:
        """Whether it does: rows then come with the columns `TOTAL_ORDER` and `TABLE_ORDER`."""
        ...

    def encode_boundaries(self, boundaries: Sequence[TransactionBoundary], slot: int) -> pa.RecordBatch | None:
        """Return boundaries as the writer takes them, `database` and `table` null; None in a slot that has none."""
        ...


@runtime_checkable
class TransactionSink(Protocol):
    """A sink that may write transactions, and takes their rows and boundaries as one DataFrame."""

    @property
    def transactions(self) -> bool:
        """Whether it does: `encode` then takes what `frames.transactions.with_boundaries` returns."""
        ...


@runtime_checkable
class RawRecordEncoder(Protocol):
    """A picklable encoder of raw records."""

    def slot_of(self, partition: int) -> int:
        """Return the slot that writes a partition, always the same."""
        ...

    def encode_raw(self, records: Any) -> Any:
        """Return the records with the output they go to."""
        ...


class DirectSink(Sink, Protocol):
    """A sink whose rows can be encoded in the reader's task."""

    def encoder(self, plan: Plan) -> DirectEncoder:
        """Return the picklable encoder of a plan."""
        ...
