"""Rehearsal: a successor reads the newest changes once before it has the lease, so that its first batch is no slower.

Compiled kernels are loaded, connections made and modules imported by it, in the run and in the live job's task. What is
read is staged under a name of its own and thrown away; no plan, no marker and no transaction is touched.
"""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from databus.binlog.segments.staged_beside import REHEARSAL
from databus.core.batching import Batching
from databus.core.state.known_outputs import known_outputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan

if TYPE_CHECKING:
    from databus.core.positions.offsets import Offset
    from databus.core.protocols.optional_sink import DirectSink
    from databus.core.protocols.source import Source
    from databus.core.protocols.splits import DirectSplit
    from databus.core.state.checkpoint import Checkpoint
    from databus.runtime.context import FlowSession
    from databus.runtime.direct.task import DirectTask
    from databus.runtime.live.job import LiveJob

_A_FEW = Batching(max_rows=200, max_bytes=1 << 20, max_wait=timedelta(seconds=0.5))


def rehearse(session: FlowSession, job: LiveJob) -> int:
    """Return how many rows were read and encoded, 0 when nothing lies behind the checkpoint.

    Raises:
        DatabusError: the source, the checkpoint store or the task cannot be used just now.
    """
    session.source.latest_offset()
    checkpoint = session.store.load(session.flow.name)
    if checkpoint is None or session.reopen_source is None:
        return 0
    with closing(session.reopen_source(REHEARSAL.format(session.flow.name))) as source:
        planned = _newest(source, checkpoint.offset)
        if planned is None:
            return 0
        try:
            return sum(job.call(_encode, task) for task in _tasks(session, checkpoint, source, planned))
        finally:
            source.discard(planned)


def _newest(source: Source, after: Offset) -> SourcePlan | None:
    planned = source.plan(after, _A_FEW)
    if planned is not None and planned.empty:
        source.discard(planned)
        return None
    return planned


def _tasks(session: FlowSession, checkpoint: Checkpoint, source: Source, planned: SourcePlan) -> list[DirectTask]:
    from databus.runtime.direct.lane import SinkForm, is_direct, takers_of
    from databus.runtime.direct.raw_records import task_type
    from databus.runtime.direct.required import encoder_of
    from databus.runtime.direct.row_checks import image_marks
    from databus.runtime.routing import outputs_of, prepare
    from databus.runtime.tables.column_lineage import written_tables
    from databus.runtime.tables.sink_views import seen_by

    flow = session.flow
    if not is_direct(flow, planned):
        return []
    views = {name: seen_by(flow, session.sink_spec(name)) for name in session.sinks}
    tables = {name: written_tables(view, planned.tables) for name, view in views.items()}
    sinks: dict[str, SinkPlan] = {
        name: prepare(
            sink, planned, outputs_of(flow, session.sink_spec(name), tables[name]), known_outputs(checkpoint, name)
        )
        for name, sink in session.sinks.items()
    }
    plan = Plan(session.settings.installation, flow.name, 0, planned.range, sinks, "", session.clock.now())
    splits = cast("tuple[DirectSplit, ...]", tuple(source.splits(planned, 1)))
    marks = image_marks(flow, planned)
    nobody: Any = None
    tasks = []
    for number, spec in enumerate(each for each in flow.sinks if each.sink_name in views):
        view = views[spec.sink_name]
        encoder = encoder_of(cast("DirectSink", session.sinks[spec.sink_name]), plan, view, planned)
        form = SinkForm.of(flow, spec, planned)
        tasks.append(
            task_type(splits, encoder)(
                flow, planned, splits, form.columns, marks, takers_of(session), number, False, encoder, nobody,
                program=form.program, flow_form=form.of_flow,
            )
        )  # fmt: skip
    return tasks


def _encode(task: DirectTask) -> int:
    return task.encode(0)
