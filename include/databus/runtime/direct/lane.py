"""The direct lane: rows are encoded where they are read and go straight to the writer, without a row inside the JVM.

A table takes it if nothing of the flow needs its rows as a DataFrame: its transforms compile, its checks see columns.
That follows from the flow's definition and the plan's tables, and from what the run found in their rows; each attempt
of a plan may take other lanes, for the rows that a writer sees are the same. One Spark task per slot reads the splits
in log order, keeps its slot's rows, and hands them to the same writer as the other lane. `both_lanes` is for batches of
which some tables go through Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors.batch import ReconciliationError
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec
from databus.core.protocols.optional_sink import DirectSink
from databus.core.protocols.splits import DirectSplit
from databus.core.state.plan import SourcePlan
from databus.runtime.context import FlowSession
from databus.runtime.direct.reasons import refusal, row_program, sink_program
from databus.runtime.direct.required import encoder_of
from databus.runtime.direct.row_checks import image_marks, without_rows
from databus.runtime.direct.row_counts import Taker, TaskCounts
from databus.runtime.direct.spark_tables import SparkTables, spark_tables, telling
from databus.runtime.direct.task import Columns, DirectTask
from databus.runtime.dispatch import Dispatched, with_own_shares, writing_order
from databus.runtime.plan import PlannedBatch
from databus.runtime.read import splits_of
from databus.runtime.sink_outage.outage import naming
from databus.runtime.tables.sink_views import seen_by

if TYPE_CHECKING:
    from databus.rows.row_program import RowProgram, SinkProgram
    from databus.rows.violations import ImageMarks


def may_be_direct(flow: Flow) -> bool:
    """Return whether a flow's definition allows the direct lane; its tables decide then."""
    return not refusal(flow)


def is_direct(flow: Flow, planned: SourcePlan) -> bool:
    """Return whether all tables of a batch take the direct lane: decoded columns decide on their rows.

    Raises:
        DatabusError: what a transform or a check raises in the other lane too.
    """
    return spark_tables(flow, planned, SparkTables()) == frozenset()


def image_columns(flow: Flow, planned: SourcePlan) -> Columns:
    """Return schema_id → (name at the source, name after the transforms) of the tables whose columns they change.

    Raises:
        TransformError: what the transform raises in the other lane too.
    """
    changes = without_rows(flow, planned.tables)
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
        SparkNeededError: a value of the batch is for Spark's lane, which may write the same plan.
        DatabusError: what reading or writing raised.
        ReconciliationError: the slots' tasks did not read the same rows, or their shares are not the whole.
    """
    from databus.runtime.direct.raw_records import RawRecordTask, gathered_shares

    tasks = DirectTasks.of(session, batch, passed)
    done: dict[str, Dispatched] = {}
    held: tuple[RejectedRow, ...] = ()
    for name in writing_order(session.flow, batch.plan, session.sinks):
        with naming(name):
            task = tasks.of_sink(name, keeps_held=not done)
            answers = session.slots.run(task, batch.plan.sinks[name].slots)
            shared = isinstance(task, RawRecordTask)
            done[name] = gathered_shares(name, batch.source, answers) if shared else gathered(name, answers)
            held += held_by_sink(name, answers, passed)
    return done, held


@dataclass(frozen=True)
class DirectTasks:
    """Tasks of one batch, a kind for each sink.

    Attributes:
        session: the flow, open.
        batch: the batch.
        passed: see `dispatch_direct`.
        splits: what they read.
        columns: see `image_columns`.
        marks: what row checks say of images.
        program: what transforms do with rows and values.
        apart: tables whose rows go through Spark.
    """

    session: FlowSession
    batch: PlannedBatch
    passed: frozenset[str] | None
    splits: tuple[DirectSplit, ...]
    columns: Columns
    marks: ImageMarks | None
    program: RowProgram | None
    apart: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        session: FlowSession,
        batch: PlannedBatch,
        passed: frozenset[str] | None,
        splits: Sequence[DirectSplit] | None = None,
        apart: frozenset[str] = frozenset(),
    ) -> DirectTasks:
        """Return the tasks of a batch.

        Args:
            session: the flow, open.
            batch: the batch.
            passed: see `dispatch_direct`.
            splits: what they read, without the rows of the tables `apart`; None for all of the range.
            apart: tables whose rows go through Spark.
        """
        flow, planned = session.flow, batch.source
        read = cast("Sequence[DirectSplit]", splits_of(session, planned)) if splits is None else splits
        mine = replace(planned, tables=tuple(t for t in planned.tables if t.full_name not in apart))
        program = row_program(flow, planned, apart)
        columns, marks = image_columns(flow, planned), image_marks(flow, mine)
        return cls(session, batch, passed, tuple(read), columns, marks, telling(program), apart)

    def of_sink(self, name: str, *, keeps_held: bool) -> DirectTask:
        """Return a sink's task.

        Args:
            name: the sink.
            keeps_held: whether its first slot brings back the rows that checks hold back.
        """
        from databus.runtime.direct.raw_records import task_type

        session, flow, plan = self.session, self.session.flow, self.batch.plan
        sink = session.sinks[name]
        spec = session.sink_spec(name)
        encoder = encoder_of(cast("DirectSink", sink), plan, seen_by(flow, spec), self.batch.source)
        kind = DirectTask if self.passed else task_type(self.splits, encoder)  # raw records are not looked into
        form = SinkForm(self.columns, self.program)
        if spec.transforms or spec.takes_numbers_alone():
            form = SinkForm.of(flow, spec, self.batch.source, self.apart)
        return kind(
            flow=flow,
            planned=self.batch.source,
            splits=self.splits,
            columns=form.columns,
            marks=self.marks,
            takers=takers_of(session),
            mine=flow.sinks.index(spec),
            keeps_held=keeps_held,
            encoder=encoder,
            writer=sink.writer(plan),
            passed=self.passed,
            program=form.program,
            flow_form=form.of_flow,
        )


@dataclass(frozen=True)
class SinkForm:
    """Columns and values of the rows that a sink is given.

    Attributes:
        columns: see `image_columns`.
        program: what transforms do with rows and values.
        of_flow: both as the flow leaves them, of a sink with transforms of its own; None of others.
    """

    columns: Columns
    program: RowProgram | SinkProgram | None
    of_flow: tuple[Columns, RowProgram | None] | None = None

    @classmethod
    def of(cls, flow: Flow, spec: SinkSpec, planned: SourcePlan, apart: frozenset[str] = frozenset()) -> SinkForm:
        """Return the form of a sink's rows, without the tables `apart`, whose rows go through Spark."""
        plain = image_columns(flow, planned), telling(row_program(flow, planned, apart))
        if not spec.transforms and not spec.takes_numbers_alone():
            return cls(*plain)
        program = telling(sink_program(flow, spec, planned, apart))
        return cls(image_columns(seen_by(flow, spec), planned), program, plain)


def takers_of(session: FlowSession) -> tuple[Taker, ...]:
    """Return what each sink of a flow takes."""
    return tuple(Taker.of(spec, session.every_sink[spec.sink_name]) for spec in session.flow.sinks)


def held_by_sink(
    name: str, answers: Sequence[tuple[WriteReceipt, TaskCounts]], passed: frozenset[str] | None
) -> tuple[RejectedRow, ...]:
    """Return the rows that checks hold back, as the tasks of a sink brought them; see `dispatch_direct`."""
    kept = (row for _, seen in answers for row in seen.held)
    return tuple(kept if passed is None else (replace(row, stage=name) for row in kept))


def gathered(sink: str, answers: Sequence[tuple[WriteReceipt, TaskCounts]]) -> Dispatched:
    """Put the slots' shares together.

    Raises:
        ReconciliationError: the tasks did not read the same rows, or their shares are not the whole.
    """
    receipts = tuple(sorted((receipt for receipt, _ in answers), key=lambda receipt: receipt.slot))
    observed = answers[0][1]
    if any(_seen(seen) != _seen(observed) for _, seen in answers):
        raise ReconciliationError(f"sink {sink}: the tasks of its slots did not read the same rows")
    given, whole = [seen.given for _, seen in answers], sum(observed.mine.values())
    if sum(given) != whole:
        raise ReconciliationError(f"sink {sink}: its slots were given {given} rows of {whole}")
    behind = with_own_shares(receipts, observed.left_out, [row for _, seen in answers for row in seen.refusals])
    return Dispatched(behind, observed.read, dict(observed.mine + observed.refused))


def _seen(counts: TaskCounts) -> tuple[Counter[str], ...]:
    return counts.read, counts.mine, counts.left_out, counts.refused
