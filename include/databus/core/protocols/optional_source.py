"""Optional promises of a source, asked for with `isinstance`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from databus.core.batching import Batching
from databus.core.findings import Finding
from databus.core.positions.lag import PartitionLag
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan
from databus.core.state.snapshot import CaptureScope, ChunkFile, Snapshot, TableProgress
from databus.core.tables.wanted import TablesNow


class Turns(Protocol):
    """CPU turns of live flows, so that their batches do not slow each other down."""

    def take(self) -> None:
        """Wait for a turn, but not for long; does nothing while one is held."""
        ...

    def give_back(self) -> None:
        """End the turn; does nothing when none is held."""
        ...


@runtime_checkable
class StreamingSource(Protocol):
    """A source that can keep its reading open from one plan to the next."""

    def stream(self, *, on: bool, turns: Turns | None = None) -> None:
        """Keep what `plan` reads with open between plans that follow each other, or stop doing so.

        What is planned stays the same: only how soon a change is seen differs.

        Args:
            on: whether to keep it open.
            turns: a plan that waited for changes takes a turn once there are any, and reads then; who calls gives it
                back after the batch.
        """
        ...


@runtime_checkable
class SharedLogSource(Source, Protocol):
    """A source whose log holds changes of others, too."""

    def changed_since(self, after: Offset) -> bool:
        """Return cheaply whether anything that this flow reads was changed behind a place; True where not known.

        Many flows of one process may ask again and again: they share the reading.
        """
        ...

    def rest(self) -> None:
        """Close connections until something is asked again: a server has not enough for all flows that wait."""
        ...


@runtime_checkable
class DefinedSource(Source, Protocol):
    """Source whose server knows the present definitions of the tables that it reads."""

    def tables_now(self) -> TablesNow:
        """Ask for the definitions of all tables of the flow at once; changes nothing."""
        ...

    def tables_gone(self, standing: Offset | None = None) -> Sequence[str]:
        """Return names and patterns of the flow that no table which the account is shown matches, by one look.

        Args:
            standing: where the flow stands; tables that it names are looked for, too.
        """
        ...

    def tables_may_be_gone(self) -> bool:
        """Return whether something that was read since the last `tables_gone` says so; asks nobody."""
        ...


@runtime_checkable
class RotatingSource(Protocol):
    """A source whose logs come and go under a flow's patterns."""

    def unread(self, standing: Offset) -> Mapping[str, int]:
        """Return topic → places not read, of topics as this process saw them last, gone ones too; asks nobody.

        Args:
            standing: where the flow stands.
        """
        ...


@runtime_checkable
class StoppingSource(Protocol):
    """A source that may stop before something in its log until a person decides."""

    def plan_decided(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Plan as `Source.plan` where the flow has decided already: stop before nothing. Raises as it does else."""
        ...


@runtime_checkable
class BoundedSource(Protocol):
    """A source whose ranges, chosen freely, may end where they cannot be compared with a place that is wanted."""

    def plan_up_to(self, wanted: OffsetRange, limit: Batching) -> SourcePlan:
        """Return a range that begins where the wanted one does, and ends at its end or before; waits for nothing."""
        ...


@runtime_checkable
class PartitionedSource(Protocol):
    """A source that reads several logs side by side."""

    def partition_lags(self, committed: Offset) -> Sequence[PartitionLag]:
        """Measure the distance to the end of each log, by name and number; changes nothing."""
        ...

    def between(self, wanted: OffsetRange) -> Source:
        """Return a view, sharing the connections, of what lies between two places of each log, and no more.

        Its `plan` returns None at once where nothing is left; its lag is the distance to the range's end.
        """
        ...


@runtime_checkable
class SnapshotSource(Source, Protocol):
    """A source whose tables can be read as they stand, in chunks that batches take along."""

    def snapshot_tables(self, conditions: Mapping[str, str] | None = None) -> Sequence[TableProgress]:
        """Return the tables of the flow as they stand, in the order in which a snapshot reads them, none begun.

        Args:
            conditions: `database.table` → condition in SQL that its rows must meet; all rows of the others.

        Raises:
            SnapshotConditionError: a condition is none, or the server refuses it.
            SourceError: the tables cannot be listed.
        """
        ...

    def snapshot_tables_added(self, before: CaptureScope) -> Sequence[TableProgress]:
        """Return the tables of the flow that are there and that it did not capture before, as `snapshot_tables` does.

        Raises:
            SnapshotRefusedError: they cannot be read, or the account does not see whether they are there.
            SnapshotConditionError: a condition is none, or the server refuses it.
            SourceError: the tables cannot be listed.
        """
        ...

    def snapshot_findings(self) -> Sequence[Finding]:
        """Probe what reading the tables needs beyond the stream: grants, settings, keys; changes nothing."""
        ...

    def snapshot_load(self) -> str:
        """Return which bound the load of the servers passes, above which the flow lets no chunk be read; "" for none.

        Raises:
            SourceError: the source does not answer.
        """
        ...

    def plan_chunks(
        self, after: Offset, snapshot: Snapshot, limit: Batching
    ) -> tuple[SourcePlan, Snapshot | None] | None:
        """Read the next chunks in a view that covers `after`, and plan the range of the log that goes with them.

        Args:
            after: where the flow stands.
            snapshot: how far the snapshot has come; neither paused nor finished.
            limit: bounds of the batch.

        Returns:
            The plan, which may hold an empty range, and the snapshot as it stands behind it: None where the plan takes
            no chunk along, because tables were redefined meanwhile. None where no chunk can be read just now: the flow
            is far behind, or the server does not show yet what its log holds.

        Raises:
            SourceError: as `Source.plan`, or the tables cannot be read.
        """
        ...

    def with_chunks(self, plan: SourcePlan, chunks: Sequence[ChunkFile]) -> SourcePlan:
        """Return the plan of a range together with chunks that were planned with it.

        Raises:
            SourceError: a chunk file is gone or damaged.
        """
        ...


@runtime_checkable
class ComparableSource(SnapshotSource, Protocol):
    """A source whose tables can be read as they stand without the log, to be compared with what sinks hold."""

    def read_chunks(self, covers: Offset, snapshot: Snapshot, limit: Batching) -> tuple[SourcePlan, Snapshot, Offset]:
        """Read the next chunks by themselves in a view that shows at least `covers`.

        Args:
            covers: a place of the log, with GTIDs where the flow's places have them.
            snapshot: how far reading has come.
            limit: bounds of what is read at once.

        Returns:
            A plan of an empty range with the chunks; the snapshot as it stands behind it; the end of the log, behind
            all that the view can have shown.

        Raises:
            SnapshotNotYetVisibleError: the server does not show yet what lies before `covers`.
            SourceError: a table cannot be read.
        """
        ...

    def end_of_log(self, standing: Offset) -> Offset:
        """Return the end of the log as of now, counted as a place of the flow is; it may have no GTIDs."""
        ...

    def drop_chunks(self, plan: SourcePlan) -> None:
        """Delete the chunk files of `read_chunks`; safe to call twice."""
        ...
