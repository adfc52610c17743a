"""The direct lane: rows are encoded where they are read and go straight to the writer, without a row inside the JVM.

A batch takes it when nothing of its flow needs a row as a DataFrame. That follows from the flow's definition and the
plan's tables alone, so that every attempt of a plan takes the same lane. One Spark task per slot reads the
splits in log order, keeps its slot's rows, and hands them to the same writer as the other lane.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors import DatabusError, DecodeError, ReconciliationError
from databus.core.flow import Flow
from databus.core.protocols import DirectEncoder, DirectSink, DirectSplit, SlotWriter
from databus.core.state.plan import SourcePlan
from databus.rows.former_columns import former_columns_named
from databus.runtime.context import FlowSession
from databus.runtime.direct.gc_pause import collector_at_rest
from databus.runtime.direct.read_ahead import overlapped
from databus.runtime.direct.row_checks import can_mark, image_marks, without_rows
from databus.runtime.direct.row_counts import Observed, RowCounter, Taker
from databus.runtime.dispatch import Dispatched, writing_order
from databus.runtime.live.link import LinkLostError
from databus.runtime.plan import PlannedBatch
from databus.runtime.read import splits_of
from databus.runtime.sink_outage.outage import naming

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.violations import ImageMarks

log = logging.getLogger(__name__)

AHEAD = 2
"""Batches that are decoded and encoded ahead of the writer."""

_ONE_PIECE_ROWS = 1_000
"""So few rows are one piece: nothing is left to be made ahead, and a thread would cost more than it saves."""

Columns = Mapping[int, tuple[tuple[str, str], ...]]


def may_be_direct(flow: Flow) -> bool:
    """Tell whether a flow's definition allows the direct lane.

    It does, unless it says otherwise, when its source writes images as text, its transforms look at no value, and every
    sink encodes text.
    """
    return (
        flow.lane == "auto"
        and flow.source.direct
        and all(spec.by_table for spec in flow.transforms)
        and all(spec.direct for spec in flow.sinks)
    )


def is_direct(flow: Flow, planned: SourcePlan) -> bool:
    """Tell whether a batch takes the direct lane: its flow may, and its row checks can be judged on decoded columns."""
    return may_be_direct(flow) and can_mark(flow, planned)


def image_columns(flow: Flow, planned: SourcePlan) -> Columns:
    """Return schema_id → (name at the source, name after the transforms) of the tables whose columns they change.

    Raises:
        TransformError: what the transform raises in the other lane too.
    """
    changes = without_rows(flow, planned)
    return {
        schema_id: tuple((field.source, field.column.name) for field in changes.fields[schema_id])
        for schema_id in changes.edited
    }


def dispatch_direct(
    session: FlowSession, batch: PlannedBatch, passed: frozenset[str] | None = None
) -> tuple[dict[str, Dispatched], tuple[RejectedRow, ...]]:
    """Read the batch once per sink and slot, write it; return what each sink confirmed, and the rows checks held back.

    Args:
        session: the flow, open.
        batch: the batch.
        passed: of a sink that is behind, event ids of rows that the flow has held back: they are held still, and not
            returned. What a check holds beside them is held for that sink alone, under its name.

    Raises:
        DatabusError: what reading or writing raised.
        ReconciliationError: the slots' tasks did not read the same rows, or their shares are not the whole.
    """
    from databus.runtime.direct.raw_records import RelayTask, gathered_shares, task_type

    flow, planned = session.flow, batch.source
    takers = tuple(Taker(spec.routes, session.every_sink[spec.sink_name].accepts()) for spec in flow.sinks)
    columns = image_columns(flow, planned)
    splits = cast("Sequence[DirectSplit]", splits_of(session, planned))
    marks = image_marks(flow, planned)
    done: dict[str, Dispatched] = {}
    held: tuple[RejectedRow, ...] = ()
    number_of = {spec.sink_name: number for number, spec in enumerate(flow.sinks)}
    for name in writing_order(flow, batch.plan, session.sinks):
        sink = session.sinks[name]
        with naming(name):
            encoder = cast("DirectSink", sink).encoder(batch.plan)
            kind = DirectTask if passed else task_type(splits, encoder)  # raw records are not looked into
            task = kind(
                flow=flow,
                planned=planned,
                splits=tuple(splits),
                columns=columns,
                marks=marks,
                takers=takers,
                mine=number_of[name],
                keeps_held=not done,
                encoder=encoder,
                writer=sink.writer(batch.plan),
                passed=passed,
            )
            answers = _write(session, task, batch.plan.sinks[name].slots)
            shared = isinstance(task, RelayTask)
            done[name] = gathered_shares(name, planned, answers) if shared else _gathered(name, answers)
            kept = (row for _, seen in answers for row in seen.held)
            held += tuple(kept if passed is None else (replace(row, stage=name) for row in kept))
    return done, held


@dataclass(frozen=True)
class DirectTask:
    """What one Spark task per slot does; picklable, without credentials beyond the writer's.

    Attributes:
        flow: the flow, for routes.
        planned: the source's plan, for the tables' names.
        splits: what to read, in log order.
        columns: see `image_columns`.
        marks: see `image_marks`.
        takers: what each sink of the flow takes.
        mine: which of the takers is this sink.
        keeps_held: whether its first slot brings back the rows that checks hold back; each task of a batch sees them.
        encoder: the sink's encoder.
        writer: the sink's writer.
        passed: see `dispatch_direct`.
    """

    flow: Flow
    planned: SourcePlan
    splits: tuple[DirectSplit, ...]
    columns: Columns
    marks: ImageMarks | None
    takers: tuple[Taker, ...]
    mine: int
    keeps_held: bool
    encoder: DirectEncoder
    writer: SlotWriter
    passed: frozenset[str] | None = None

    def write(self, slot: int) -> tuple[WriteReceipt, Observed]:
        """Read everything, write the rows of one slot, and return the receipt with what was read.

        Reading and encoding run ahead of the writer in a thread, unless there are but few rows.

        Raises:
            DatabusError: what reading or writing raised.
        """
        keep_held = self.keeps_held and slot == 0
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine, keep_held=keep_held, passed=self.passed)
        encoded = self._encoded(slot, counter)
        ahead = overlapped(encoded, AHEAD) if self.planned.rows > _ONE_PIECE_ROWS else encoded
        with collector_at_rest(), closing(ahead) as rows:
            # The first batch is made before the writer opens a transaction, whose time is limited.
            first = list(islice(rows, 1))
            receipt = self.writer.write(chain(first, rows), slot)
        return receipt, counter.observed

    def encode(self, slot: int) -> int:
        """Read and encode everything of a slot and write nothing; return the rows."""
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine)
        return sum(rows.num_rows for rows in self._encoded(slot, counter))

    def _encoded(self, slot: int, counter: RowCounter) -> Generator[pa.RecordBatch]:
        for rows in in_order(batch for split in self.splits for batch in split.read_text(self.columns, self.marks)):
            taken = counter.take(rows)
            if taken.num_rows:
                with former_columns_named(f"sink {self.flow.sinks[self.mine].sink_name}"):
                    encoded = self.encoder.encode(taken, slot)
                if encoded.num_rows:
                    counter.give(encoded)
                    yield encoded


def in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass batches on after checking that their rows follow one another in the log; nothing sorts them later.

    Raises:
        DecodeError: a row stands before its predecessor; names both places.
    """
    import numpy as np

    before = (0, "", -1, -1, -1)
    for rows in batches:
        if not rows.num_rows:
            continue
        position, ordinal, part = (np.asarray(rows[name]).astype(np.int64) for name in ("place", "ordinal", "part"))
        file = rows["log"][0].as_py()
        first = (len(file), file, int(position[0]), int(ordinal[0]), int(part[0]))
        rising = (np.diff(position) > 0) | (
            (np.diff(position) == 0) & ((np.diff(ordinal) > 0) | ((np.diff(ordinal) == 0) & (np.diff(part) > 0)))
        )
        if first <= before or not rising.all():
            raise DecodeError(f"rows came out of order at {file}:{position[0]}, behind {before[1]}:{before[2]}")
        before = (len(file), file, int(position[-1]), int(ordinal[-1]), int(part[-1]))
        yield rows


def slot_runner(task: DirectTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function a Spark task runs: for each slot number it is given, one row with the pickled answer."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for slot in batch.column(0).to_pylist():
                answer: Any
                try:
                    answer = task.write(slot)
                except DatabusError as error:
                    answer = error
                yield pa.RecordBatch.from_pydict({"answer": pa.array([pickle.dumps(answer)], pa.binary())})

    return run


def _write(session: FlowSession, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, Observed]]:
    """Write all slots in the live job's task, else in a job of their own; a task that is lost has the latter finish."""
    if session.live is not None and session.live.takes(task.planned):
        try:
            return session.live.write(task, slots)
        except LinkLostError as error:
            log.warning("flow %s: a job of its own takes up the batch in hand: %s", session.flow.name, error.message)
    return _run(session.spark, task, slots)


def _run(spark: Any, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, Observed]]:
    numbers = spark.range(0, slots, 1, slots)
    rows = numbers.mapInArrow(slot_runner(task), "answer binary").collect()
    answers = [pickle.loads(row["answer"]) for row in rows]  # noqa: S301 - our own tasks wrote them
    for answer in answers:
        if isinstance(answer, DatabusError):
            raise answer
    return answers


def _gathered(sink: str, answers: Sequence[tuple[WriteReceipt, Observed]]) -> Dispatched:
    """Put the slots' shares together."""
    receipts = tuple(sorted((receipt for receipt, _ in answers), key=lambda receipt: receipt.slot))
    observed = answers[0][1]
    if any((seen.read, seen.mine) != (observed.read, observed.mine) for _, seen in answers):
        raise ReconciliationError(f"sink {sink}: the tasks of its slots did not read the same rows")
    given, whole = [seen.given for _, seen in answers], sum(observed.mine.values())
    if sum(given) != whole:
        raise ReconciliationError(f"sink {sink}: its slots were given {given} rows of {whole}")
    return Dispatched(receipts, observed.read, dict(observed.mine))
