"""The direct lane: rows are encoded where they are read and go straight to the writer, without a row inside the JVM.

A batch takes it when nothing of its flow needs a row as a DataFrame. That follows from the flow's definition and the
plan's tables alone, so that every attempt of a plan takes the same lane. One Spark task per slot reads the
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
from databus.runtime.context import FlowSession
from databus.runtime.direct.required import encoder_of
from databus.runtime.direct.row_checks import can_mark, image_marks, without_rows
from databus.runtime.direct.row_counts import Taker, TaskCounts
from databus.runtime.direct.task import Columns, DirectTask
from databus.runtime.dispatch import Dispatched, writing_order
from databus.runtime.plan import PlannedBatch
from databus.runtime.read import splits_of
from databus.runtime.sink_outage.outage import naming


def may_be_direct(flow: Flow) -> bool:
    """Return whether a flow's definition allows the direct lane.

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
    """Return whether a batch takes the direct lane: its flow may, and decoded columns decide its row checks."""
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
    from databus.runtime.direct.raw_records import RawRecordTask, gathered_shares, task_type

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
            )
            answers = session.slots.run(task, batch.plan.sinks[name].slots)
            shared = isinstance(task, RawRecordTask)
            done[name] = gathered_shares(name, planned, answers) if shared else _gathered(name, answers)
            kept = (row for _, seen in answers for row in seen.held)
            held += tuple(kept if passed is None else (replace(row, stage=name) for row in kept))
    return done, held


def _gathered(sink: str, answers: Sequence[tuple[WriteReceipt, TaskCounts]]) -> Dispatched:
    """Put the slots' shares together."""
    receipts = tuple(sorted((receipt for receipt, _ in answers), key=lambda receipt: receipt.slot))
    observed = answers[0][1]
    if any((seen.read, seen.mine) != (observed.read, observed.mine) for _, seen in answers):
        raise ReconciliationError(f"sink {sink}: the tasks of its slots did not read the same rows")
    given, whole = [seen.given for _, seen in answers], sum(observed.mine.values())
    if sum(given) != whole:
        raise ReconciliationError(f"sink {sink}: its slots were given {given} rows of {whole}")
    return Dispatched(receipts, observed.read, dict(observed.mine))
