"""One micro-batch: plan → read → transform → check → dispatch → commit → record."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.report import BatchReport, CheckResult
from databus.core.flow import Flow
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import SourcePlan
from databus.expressions.errors import SparkNeededError
from databus.observe.batch_points import StageTimes
from databus.runtime import check, counts
from databus.runtime.beside.held_by_flow import held_still
from databus.runtime.commit import commit
from databus.runtime.context import FlowSession
from databus.runtime.copies import any_taken_by
from databus.runtime.direct.both_lanes import SharedBatch, dispatch_both
from databus.runtime.direct.lane import dispatch_direct
from databus.runtime.direct.required import require_direct_values
from databus.runtime.direct.row_checks import without_rows
from databus.runtime.direct.spark_tables import spark_tables
from databus.runtime.dispatch import Dispatched, dispatch, quarantined_rows, writing_order
from databus.runtime.pacing.batch_sizing import Effort, Pace, log_change, turned_away
from databus.runtime.plan import PlannedBatch, next_plan
from databus.runtime.read import read, rows_of
from databus.runtime.record import log_batch, record
from databus.runtime.sink_outage.outage import naming
from databus.runtime.sink_rows import CheckedRows, changes_of_sink, rows_of_sink, with_stored_images
from databus.runtime.spark.errors import engine_errors
from databus.runtime.tables.hidden_loss import settle_hidden, settle_renames
from databus.runtime.transform import transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _EngineResult:
    """Engine result of a batch, before anything is committed."""

    tables: Mapping[str, TableCounts]
    receipts: tuple[WriteReceipt, ...]
    checks: tuple[CheckResult, ...]
    rejected: tuple[RejectedRow, ...]
    through_spark: tuple[str, ...] = ()


def run_batch(session: FlowSession, lease: Lease, checkpoint: Checkpoint) -> BatchReport | None:
    """Move one batch and commit it; None when the source has nothing new. Raises as `move_batch`."""
    moved = move_batch(session, lease, checkpoint)
    return moved[0] if moved is not None else None


def move_batch(
    session: FlowSession, lease: Lease, checkpoint: Checkpoint, *, settled: bool = False
) -> tuple[BatchReport, Checkpoint] | None:
    """Move one batch and commit it; return its report and the new checkpoint, None when the source has nothing new.

    Args:
        session: the flow, open.
        lease: the claim.
        checkpoint: where the flow stands.
        settled: whether no plan is in flight, as the caller knows from its last call under the same claim.

    Raises:
        DatabusError: the batch failed; the checkpoint is unmoved and the plan stays for the next attempt.
    """
    times = StageTimes()
    with times.stage("plan"):
        batch = next_plan(session, lease, checkpoint, settled=settled)
    if batch is None:
        return None
    with engine_errors():
        moved = _move_nothing(session, batch, times) if batch.source.empty else _move(session, batch, times)
    with times.stage("record"):
        if moved.rejected:
            session.recorder.quarantine(session.flow.name, batch.plan.batch, moved.rejected, plan_hash=batch.plan.hash)
    with times.stage("commit"):
        committed = commit(
            session, lease, batch, moved.tables, moved.receipts, _next_pace(session, batch, moved, times)
        )
        for memory in session.memories():
            memory.committed(batch.plan.batch)
        if session.snapshots is not None:
            session.snapshots.committed(batch.plan, committed.updated_at)
    report = BatchReport(
        plan=batch.plan,
        epoch=lease.epoch,
        run_id=session.identity.run_id,
        run_url=session.identity.run_url,
        tables=moved.tables,
        receipts=moved.receipts,
        checks=moved.checks,
        rejected=moved.rejected,
        durations_ms=times.durations_ms,
        bytes=batch.source.bytes,
        watermark=committed.watermark,
        committed_at=committed.updated_at,
        attempt=batch.attempt,
        pace=committed.pace,
        code_version=session.identity.code_version,
        columns=session.column_lineage.of(session.flow, batch.source),
        lost=batch.source.passes_over,
        through_spark=moved.through_spark,
        definition=session.definition,
    )
    with times.stage("record"):
        record(session.recorder, report)
        # A sink that is behind may have to pass the range yet.
        (session.source.discard if session.split else session.source.release)(batch.source)
    log_batch(report)
    return report, committed


def _next_pace(session: FlowSession, batch: PlannedBatch, moved: _EngineResult, times: StageTimes) -> Pace:
    """Judge by how the sinks took this batch how large the next one may be."""
    seconds = times.durations_ms.get("dispatch", 0.0) / 1000
    # While a sink is behind, a plan is tried again because of that sink, which has left.
    away, retried = turned_away(moved.receipts), batch.attempt > 1 and not session.split
    effort = Effort(batch.source.rows, batch.source.bytes, seconds, away, retried)
    batching = session.flow.batching
    before = Pace.of(batch.previous.pace, batching)
    after = before.after(effort, batching)
    log_change(session.flow.name, before, after, effort, batching)
    return after


def _move(session: FlowSession, batch: PlannedBatch, times: StageTimes) -> _EngineResult:
    """Read, transform, check and dispatch the rows of a planned range, each table's in its lane."""
    flow, planned, known = session.flow, batch.source, session.spark_tables
    passed = session.passed.over(planned.range) if session.passed else None
    # All lanes give a writer the same rows, and it goes on from the markers that another choice of lanes left.
    while (apart := spark_tables(flow, planned, known)) is not None:
        try:
            if not apart:
                return _move_direct(session, batch, times, passed)
            shared = SharedBatch.of(session, batch, apart)
            if shared is None:
                break
            return _move_both(session, batch, times, passed, shared)
        except SparkNeededError as error:
            require_direct_values(flow, batch.plan.batch, error)
            if not known.learn(flow.name, error):
                log.info("flow %s: batch %d goes through Spark: %s", flow.name, batch.plan.batch, error.message)
                break
    return _move_by_spark(session, batch, times, passed)


def _move_by_spark(
    session: FlowSession, batch: PlannedBatch, times: StageTimes, passed: frozenset[str] | None
) -> _EngineResult:
    """Move the rows of a planned range through Spark."""
    flow, planned = session.flow, batch.source
    names = counts.table_names(planned)
    session.slots.make_room("this batch needs its rows in Spark")
    with times.stage("read"):
        rows, splits = read(session, planned)
    checked, whole = _checked(session, batch, times, passed, rows)
    with times.stage("check"):
        if any(c.severity == "fail" for c in check.row_checks(flow)):
            check.enforce(flow, counts.check_results(flow, names, _observe(checked.rows, session, names)))
    with times.stage("dispatch"):
        done: dict[str, Dispatched] = {}
        for name in writing_order(flow, batch.plan, session.sinks):
            sink = (session.sink_spec(name), session.sinks[name])
            with naming(name):
                written = rows_of_sink(flow, *sink, checked)
                done[name] = dispatch(flow, batch.plan, written, sink, names, splits)
        by_state = counts.table_counts(names, next(iter(done.values())).observed)
        held = _held(session, checked.rows, passed) if any(c.quarantined for c in by_state.values()) else ()
    moved = _moved(flow, planned, done, whole, held)
    return replace(moved, through_spark=tuple(sorted(moved.tables)))


def _move_both(
    session: FlowSession, batch: PlannedBatch, times: StageTimes, passed: frozenset[str] | None, shared: SharedBatch
) -> _EngineResult:
    """Move the rows of a planned range in two lanes: Spark's join the direct ones in the dispatch."""
    flow, planned = session.flow, batch.source
    session.slots.make_room("some tables of this batch need their rows in Spark")
    with times.stage("read"):
        rows = rows_of(session, shared.spark)
    checked, whole = _checked(session, batch, times, passed, rows)
    with times.stage("dispatch"):
        done, held = dispatch_both(session, batch, shared, checked, passed)
        by_state = counts.table_counts(counts.table_names(planned), next(iter(done.values())).observed)
        if any(by_state[table].quarantined for table in shared.apart & by_state.keys()):
            held = (*held, *_held(session, checked.rows, passed))
    moved = _moved(flow, planned, done, whole, held)
    return replace(moved, through_spark=tuple(sorted(shared.apart & moved.tables.keys())))


def _checked(
    session: FlowSession, batch: PlannedBatch, times: StageTimes, passed: frozenset[str] | None, rows: DataFrame
) -> tuple[CheckedRows, tuple[CheckResult, ...]]:
    """Transform and check Spark's rows; return them, and the results of the checks that look at the batch as a whole.

    Raises:
        QualityGateError: such a check of severity "fail" is violated.
    """
    flow, planned = session.flow, batch.source
    with times.stage("transform"):
        changes = with_stored_images(flow, transform(flow, rows, planned))
        settle_hidden(session, batch, changes)
    with times.stage("check"):
        marked = check.check(flow, changes, _taken_by_any(session))
        checked = CheckedRows(held_still(session.spark, marked, passed) if passed else marked, changes)
        for name, view in session.sink_views().items():
            mine = changes_of_sink(flow, session.sink_spec(name), session.every_sink[name], checked)
            settle_hidden(view, batch, mine)
        whole = check.evaluate_batch_checks(flow, planned, batch.plan.clock)
        check.enforce(flow, whole)
    return checked, whole


def _held(session: FlowSession, checked: DataFrame, passed: frozenset[str] | None) -> Sequence[RejectedRow]:
    """Return the rows that checks hold back; of a sink that is behind, those that it alone lacks, under its name."""
    if passed is None:
        return quarantined_rows(checked)
    ((name, sink),) = session.sinks.items()
    mine = quarantined_rows(checked, any_taken_by(session.flow, sink, session.sink_spec(name)))
    return [replace(row, stage=name) for row in mine if row.event_id not in passed]


def _move_direct(
    session: FlowSession, batch: PlannedBatch, times: StageTimes, passed: frozenset[str] | None
) -> _EngineResult:
    """Move the rows of a planned range by the direct lane: they are read inside the dispatch."""
    flow, planned = session.flow, batch.source
    with times.stage("check"):
        for view in (session, *session.sink_views().values()):
            if view.flow.transforms:
                settle_hidden(view, batch, without_rows(view.flow, planned.tables))
        whole = check.evaluate_batch_checks(flow, planned, batch.plan.clock)
        check.enforce(flow, whole)
    with times.stage("dispatch"):
        done, held = dispatch_direct(session, batch, passed)
    return _moved(flow, planned, done, whole, held)


def _moved(
    flow: Flow,
    planned: SourcePlan,
    done: Mapping[str, Dispatched],
    whole: Sequence[CheckResult],
    held: Sequence[RejectedRow],
) -> _EngineResult:
    """Compare what each sink was given and wrote with what was read, and put the outcome together."""
    names, observed = counts.table_names(planned), next(iter(done.values())).observed
    receipts = {name: (d.given, d.receipts) for name, d in done.items()}
    tables = counts.reconcile(flow, planned, observed, counts.table_counts(names, observed), receipts)
    written = tuple(r for spec in flow.sinks if spec.sink_name in done for r in done[spec.sink_name].receipts)
    return _EngineResult(
        tables,
        written,
        (*counts.check_results(flow, names, observed), *whole),
        (*held, *(row for r in written for row in r.rejected)),
    )


def _move_nothing(session: FlowSession, batch: PlannedBatch, times: StageTimes) -> _EngineResult:
    """Close a batch whose range holds no row of the flow: every slot commits its marker, the checkpoint moves."""
    with times.stage("check"):
        # A range without bytes (rotations of an idle source) is no batch of data that could be too small or too old.
        idle = batch.source.bytes == 0
        whole = () if idle else check.evaluate_batch_checks(session.flow, batch.source, batch.plan.clock)
        check.enforce(session.flow, whole)
        for view in (session, *session.sink_views().values()):
            settle_renames(view, batch)
    with times.stage("dispatch"):
        receipts: list[WriteReceipt] = []
        for name, sink in session.sinks.items():
            slots = batch.plan.sinks[name].slots
            with naming(name):
                receipts += session.slots.run_empty(sink.writer(batch.plan), batch.source, slots)
    return _EngineResult(counts.with_chunks({}, batch.source), tuple(receipts), whole, ())


def _taken_by_any(session: FlowSession):  # type: ignore[no-untyped-def] # a pyspark Column, imported lazily
    from pyspark.sql import functions as F  # noqa: N812

    taken = F.lit(False)
    for name, sink in session.every_sink.items():
        taken = taken | any_taken_by(session.flow, sink, session.sink_spec(name))
    return taken


def _observe(checked, session: FlowSession, names: list[str]) -> Mapping[str, int]:  # type: ignore[no-untyped-def]
    """Count without dispatching: the extra pass that checks of severity `fail` cost."""
    row = checked.agg(*counts.aggregates(session.flow, names)).collect()[0]
    return {str(name): int(value) for name, value in row.asDict().items()}
