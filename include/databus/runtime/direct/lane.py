"""The direct lane: rows are encoded where they are read and go straight to the writer, without a row inside the JVM.

A batch takes it when nothing of its flow needs a row as a DataFrame: its transforms compile, its checks see columns.
That follows from the flow's definition and the plan's tables alone, so that every attempt of a plan takes the same
lane. One Spark task per slot reads the
splits in log order, keeps its slot's rows, and hands them to the same writer as the other lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors.batch import ReconciliationError
from databus.core.flow import Flow
from databus.core.protocols.optional_sink import DirectSink
from databus.core.protocols.splits import DirectSplit
from databus.core.state.plan import SourcePlan
from databus.expressions.errors import NotCompiledError
from databus.runtime.context import FlowSession
from databus.runtime.direct.reasons import refusal, row_program
from databus.runtime.direct.required import encoder_of
from databus.runtime.direct.row_checks import image_marks, unmarked, without_rows
from databus.runtime.direct.row_counts import Taker, TaskCounts
from databus.runtime.direct.task import Columns, DirectTask
from databus.runtime.dispatch import Dispatched, writing_order
from databus.runtime.plan import PlannedBatch
from databus.runtime.read import splits_of
from databus.runtime.sink_outage.outage import naming


def may_be_direct(flow: Flow) -> bool:
    """Return whether a flow's definition allows the direct lane; its tables decide then."""
    return not refusal(flow)


def is_direct(flow: Flow, planned: SourcePlan) -> bool:
    """Return whether a batch takes the direct lane: its flow may, and decoded columns decide on its rows.

    Raises:
        DatabusError: what a transform or a check raises in the other lane too.
    """
    return may_be_direct(flow) and not unmarked(flow, *planned.tables) and _compiles(flow, planned)


def _compiles(flow: Flow, planned: SourcePlan) -> bool:
    try:
        row_program(flow, planned)
    except NotCompiledError:
        return False
    return True


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
    from databus.runtime.direct.raw_records import RawRecordTask, gathered_shares, task_type

    flow, planned = session.flow, batch.source
    takers = tuple(Taker(spec.routes, session.every_sink[spec.sink_name].accepts()) for spec in flow.sinks)
    columns = image_columns(flow, planned)
    splits = cast("Sequence[DirectSplit]", splits_of(session, planned))
    marks, program = image_marks(flow, planned), row_program(flow, planned)
    done: dict[str, Dispatched] = {}
    held: tuple[RejectedRow, ...] = ()
    number_of = {spec.sink_name: number for number, spec in enumerate(flow.sinks)}
    for name in writing_order(flow, batch.plan, session.sinks):
        sink = session.sinks[name]
        with naming(name):
            encoder = encoder_of(cast("DirectSink", sink), batch.plan, flow, planned)
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
                program=program,
            )
            answers = session.slots.run(task, batch.plan.sinks[name].slots)
            shared = isinstance(task, RawRecordTask)
            done[name] = gathered_shares(name, planned, answers) if shared else gathered(name, answers)
            kept = (row for _, seen in answers for row in seen.held)
            held += tuple(kept if passed is None else (replace(row, stage=name) for row in kept))
    return done, held


def gathered(sink: str, answers: Sequence[tuple[WriteReceipt, TaskCounts]]) -> Dispatched:
    """Put the shares of a sink's slots together.

    Raises:
        ReconciliationError: their tasks did not read the same rows, or their shares are not the whole.
    """
    receipts = tuple(sorted((receipt for receipt, _ in answers), key=lambda receipt: receipt.slot))
    observed = answers[0][1]
    if any((seen.read, seen.mine) != (observed.read, observed.mine) for _, seen in answers):
        raise ReconciliationError(f"sink {sink}: the tasks of its slots did not read the same rows")
    given, whole = [seen.given for _, seen in answers], sum(observed.mine.values())
    if sum(given) != whole:
        raise ReconciliationError(f"sink {sink}: its slots were given {given} rows of {whole}")
    return Dispatched(receipts, observed.read, dict(observed.mine))
