"""What the parts of the path promise each other. Each method states its guarantee."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from databus.core.batches.checked_batches import BatchPlan, CheckedBatch
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.batching import Batching
from databus.core.findings import Finding
from databus.core.positions.lag import Headroom, Lag, PartitionLag
from databus.core.positions.offsets import Offset, OffsetRange
from databus.core.state.amendments import SinkEffect
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.known_outputs import ChangedOutput, KnownOutputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import TablesNow

if TYPE_CHECKING:
    import pyarrow as pa


class Clock(Protocol):
    """Tells the time; tests bring their own."""

    def now(self) -> datetime:
        """Return the time, aware UTC."""
        ...


class Changes(Protocol):
    """Rows on their way through transforms and checks: a DataFrame plus a typed view of each table's columns."""

    @property
    def rows(self) -> Any:
        """The DataFrame with the columns of `ROW_COLUMNS`, `route`, and whatever the path added."""
        ...


class Split(Protocol):
    """A picklable piece of a range that one Spark task reads; a login it carries shows in no repr."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns `ROW_COLUMNS`, in log order; the same bytes at every call."""
        ...


class DirectSplit(Split, Protocol):
    """A split that can write its row images as JSON text, for sinks that take them so."""

    def read_text(
        self, columns: Mapping[int, Sequence[tuple[str, str]]], marks: Any | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read`, the same at every call, with `before` and `after` as JSON objects (binary).

        The objects say what Spark's `to_json` of the VARIANT images says: the same fields, equal values.

        Args:
            columns: schema_id → (name at the source, name in the image) of the columns wanted; a schema that is not
                named gives all of them.
            marks: `ImageMarks`, what row checks say of the after-images; then there is a column `marks` of them.
        """
        ...


@runtime_checkable
class RelaySplit(Protocol):
    """A split whose records can be handed on as they are, without becoming rows."""

    def relay(self, mine: Callable[[int], bool]) -> Generator[tuple[Any, int]]:
        """Yield `RawRecords` of the partitions that are mine, and how many were left out; the same at every call.

        Args:
            mine: tells of a partition's number whether it is wanted.
        """
        ...

    def offsets(self, mine: Callable[[int], bool]) -> int:
        """Return how many offsets of those partitions the split passes."""
        ...


class Source(Protocol):
    """An open source; used by one thread of the control process."""

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Probe settings, grants, retention and the start offset; changes nothing."""
        ...

    def start_offset(self) -> Offset:
        """Resolve where a flow without a checkpoint begins (its spec's `start`)."""
        ...

    def earliest_offset(self) -> Offset:
        """Return the first offset still held by the server."""
        ...

    def latest_offset(self) -> Offset:
        """Return the head of the log."""
        ...

    def offset_at(self, when: datetime) -> Offset:
        """Return the last transaction boundary at which every later transaction committed at or after `when`."""
        ...

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Choose the next range; None when nothing new came within `limit.max_seconds`, which it may block."""
        ...

    def reopen(self, planned: OffsetRange) -> SourcePlan:
        """Describe exactly a range that was planned before; raises rather than describe another."""
        ...

    def splits(self, plan: SourcePlan, count: int) -> Sequence[Split]:
        """Cut a planned range into at most about `count` pieces in log order; together they are the whole range."""
        ...

    def discard(self, plan: SourcePlan) -> None:
        """Drop what was staged for a range; it can be planned or opened again, by this flow or by a sink behind."""
        ...

    def release(self, plan: SourcePlan) -> None:
        """Discard a committed range, and drop what only ranges up to its end need; no sink stands before its end."""
        ...

    def lag(self, committed: Offset) -> Lag:
        """Measure the distance to the head."""
        ...

    def headroom(self, committed: Offset) -> Headroom | None:
        """Measure how long the server still keeps what follows an offset; None for a source that deletes nothing."""
        ...

    def close(self) -> None:
        """Close every connection; safe to call twice and from a signal's aftermath."""
        ...


class Turns(Protocol):
    """What live flows take turns by, so that their batches do not slow each other down."""

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
        """Tell cheaply whether anything that this flow reads was changed behind a place; True where it cannot be told.

        Many flows of one process may ask again and again: they share the reading.
        """
        ...

    def rest(self) -> None:
        """Close connections until something is asked again: a server has not enough for all flows that wait."""
        ...


@dataclass(frozen=True)
class NeededSegments:
    """Staged segments that are still needed under a name.

    Attributes:
        ranges: of the plans in flight.
        over: whether nothing is moved under the name any more, so that nothing kept for it is needed.
    """

    ranges: Collection[OffsetRange] = ()
    over: bool = False


class StagedPlans(Protocol):
    """Tells what is still needed of that which a flow's source staged, for itself or beside it."""

    def in_flight(self) -> Collection[OffsetRange]:
        """Return the ranges of all plans of the flow that are in flight, those of sinks behind included."""
        ...

    def places(self) -> Collection[Offset] | None:
        """Return where the flow and its sinks behind stand, and both ends of their plans in flight; None at first."""
        ...

    def beside(self, name: str) -> NeededSegments | None:
        """Return what is needed of what was staged under a name beside the flow's; None when that cannot be told."""
        ...

    def held(self, name: str) -> AbstractContextManager[bool]:
        """Keep others from beginning to move anything under such a name; False when somebody does just now."""
        ...


@runtime_checkable
class DefinedSource(Source, Protocol):
    """A source whose server tells how the tables that it reads are defined now."""

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
        """Tell whether something that was read since the last `tables_gone` says so; asks nobody."""
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
class StagingSource(Protocol):
    """A source that stages what it plans, and may leave it when it is killed."""

    def sweep(self, plans: StagedPlans) -> None:
        """Delete what was staged long ago and is in no plan; only under the flow's lease.

        Args:
            plans: tells what is planned.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        ...


@runtime_checkable
class StoppingSource(Protocol):
    """A source that may stop before something in its log until a person decides."""

    def plan_decided(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Plan as `Source.plan` where the flow has decided already: stop before nothing. Raises as it does else."""
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


class SlotWriter(Protocol):
    """A picklable writer that runs in a Spark task, one per slot.

    Guarantee: exactly once per (installation, flow, sink, batch, slot) for transactional sinks, else idempotent.
    """

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Write all rows of the slot, in the order given, or nothing visible; return the receipt."""
        ...


class FencedPlan(Protocol):
    """A plan in flight whose writers a sink has fenced in every slot.

    Guarantee: what is found holds until it is closed or put back. A writer that begins anew in between fails that call
    with SinkFencedError; the plan is then fenced again.
    """

    def held(self) -> Sequence[int]:
        """Return the slots that hold a part of the plan or all of it."""
        ...

    def abandon(self) -> Mapping[int, str]:
        """Close the plan in every slot, none of which holds anything of it; idempotent.

        Returns:
            Slot → "abandoned".

        Raises:
            SinkFencedError: a writer began anew; some slots may be closed, and hold nothing.
            MarkerDivergedError: a slot's marker has nothing to do with the plan; no slot was closed.
        """
        ...

    def put_back(self) -> None:
        """Open the plan again in the slots where `abandon` closed it: it can be finished; idempotent.

        What an amendment has closed stays closed.

        Raises:
            SinkFencedError: a writer began anew; some slots may be closed still.
        """
        ...

    def remember(self) -> None:
        """Write what a slot held before the plan again, where the slot holds nothing at all; idempotent.

        Raises:
            SinkFencedError: a writer began anew; some slots may hold it, and nothing else.
        """
        ...

    def discard(self) -> None:
        """Close the clients; safe to call twice."""
        ...


class Sink(Protocol):
    """An open sink."""

    def preflight(self) -> Sequence[Finding]:
        """Probe reachability, rights and settings; changes nothing."""
        ...

    def accepts(self) -> frozenset[str]:
        """Return the operations (`Op` values) it takes; rows of others count as filtered."""
        ...

    def prepare(self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]]) -> SinkPlan:
        """Make missing outputs for (table, route) pairs and pin slots, partitions; idempotent. The path sets `prev`.

        Tables have the columns that the flow's transforms leave, or none where a transform does not tell.
        """
        ...

    def wrote_any_of(self, plan: Plan) -> bool:
        """Tell whether any slot is already marked with this plan; False for sinks whose writes are idempotent."""
        ...

    def abandon(self, plan: Plan) -> Mapping[int, str]:
        """Close a plan that will not be finished, so that no writer of it can write any more; idempotent.

        Returns:
            Slot → "abandoned" or "written", what its marker now says of the plan; empty for sinks without markers.
        """
        ...

    def fence(self, plan: Plan) -> FencedPlan | None:
        """Fence the writers of a plan in every slot, then look at its markers; None for sinks without markers.

        Raises:
            SinkFencedError: a writer began anew in between; nothing was closed, and it may be called again.
            SinkUnavailableError: no answer.
        """
        ...

    def effect_of(self, outputs: Sequence[str], *, back: bool) -> SinkEffect:
        """Say what a move of the flow's checkpoint, back or forward, does to this sink's readers; changes nothing.

        Args:
            outputs: names, in receipts or of ids, of what was written in the range that is passed.
            back: whether the move goes back.
        """
        ...

    def encode(self, rows: Any, plan: Plan) -> Any:
        """Turn the DataFrame of checked rows into this sink's columns plus `slot`; pure, row by row."""
        ...

    def writer(self, plan: Plan) -> SlotWriter:
        """Return the picklable writer of a plan."""
        ...

    def close(self) -> None:
        """Close clients; safe to call twice."""
        ...


@runtime_checkable
class FollowingSink(Protocol):
    """A sink that remembers which columns its keys are made of, and so has to know where statements move them."""

    def follow_columns(self, plan: SourcePlan, tables: Sequence[tuple[TableSchema, str]]) -> None:
        """Remember what `plan.columns_moved` says of (table, route) pairs, be there rows of them in the range or none.

        Asked before `prepare`; idempotent: a statement may come again, in another range. The tables say no columns.
        """
        ...


@runtime_checkable
class PinningSink(Sink, Protocol):
    """A sink whose outputs have ids, so that one that was deleted and made anew can be told from the one before."""

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
            told.
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


class Recorder(Protocol):
    """Stores reports; may lag, never fails a batch."""

    def record(self, *reports: BatchReport) -> None:
        """Store reports, all or none; idempotent by (flow, batch).

        Raises:
            RecordingError: they could not be stored; the caller logs and goes on.
        """
        ...

    def paged(self, flow: str) -> int:
        """Return the number of the newest history entry that has a ledger page, 0 without any."""
        ...

    def page(self, flow: str, entries: Sequence[HistoryEntry]) -> int:
        """Write ledger pages of history entries, and reports of commits that have none; idempotent.

        Args:
            flow: flow name.
            entries: in ascending order of their numbers; those that have a page are compared with it.

        Returns:
            The greatest number up to which every given entry equals its page; ZooKeeper may let those go.

        Raises:
            RecordingError: they could not be stored; they stay in the checkpoint store.
        """
        ...

    def quarantine(self, flow: str, batch: int, rows: Sequence[RejectedRow], plan_hash: str = "") -> None:
        """Store rows held back, before the commit that counts them; upserts by event id and stage.

        Args:
            flow: flow name.
            batch: batch number.
            rows: the rows.
            plan_hash: hash of the batch's plan; "" leaves what is stored, for rows that a replay holds back again.

        Raises:
            RecordingError: they could not be stored; the batch fails, because a row must not vanish.
        """
        ...

    def checked_batches(self, flow: str, after: int) -> Sequence[CheckedBatch]:
        """Return the batches behind a number of which a check holds rows.

        Raises:
            RecordingError: they could not be read.
        """
        ...

    def held_by_checks(self, flow: str, batches: Collection[BatchPlan]) -> frozenset[str]:
        """Return the event ids of rows that a check held in some batches, whatever became of them since.

        Raises:
            RecordingError: they could not be read.
        """
        ...
