"""Replay of held rows where they are decoded: of flows with a sink that only the direct lane can write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.batches.receipts import CHECK, RejectedRow
from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.protocols.optional_sink import DirectSink
from databus.core.protocols.splits import DirectSplit, ImageSplit
from databus.core.state.plan import Plan, SourcePlan
from databus.core.tables.schemas import TableSchema
from databus.expressions.errors import SparkNeededError
from databus.rows.row_program import RowProgram
from databus.rows.violation_bits import MARKS
from databus.rows.violations import ImageMarks
from databus.runtime.beside.replay import ReplayOutcome, outcome_of, require_all, require_confirmed
from databus.runtime.context import FlowSession
from databus.runtime.direct.lane import SinkForm, gathered, image_columns, takers_of
from databus.runtime.direct.reasons import row_program
from databus.runtime.direct.required import encoder_of, require_direct_values, require_lane
from databus.runtime.direct.row_checks import held_rows, holding, image_marks, without_rows
from databus.runtime.direct.row_counts import Taker, held_back
from databus.runtime.direct.task import Columns, DirectTask, in_order
from databus.runtime.dispatch import Dispatched
from databus.runtime.read import splits_of
from databus.runtime.routing import route_of
from databus.runtime.sink_outage.outage import naming
from databus.runtime.spark.errors import engine_errors
from databus.runtime.tables.hidden_loss import require_again
from databus.runtime.tables.sink_views import seen_by


@dataclass(frozen=True)
class ChosenSplit:
    """Split of which the rows of some events are read alone.

    Attributes:
        split: the split.
        events: event ids.
    """

    split: DirectSplit
    events: frozenset[str]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield those rows of `read`."""
        return map(self._chosen, self.split.read())

    def read_text(self, *asked: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield those rows of `read_text`, whose arguments it takes."""
        return map(self._chosen, self.split.read_text(*asked, **options))

    def read_in(self, form: Any) -> Iterator[pa.RecordBatch]:
        """Yield those rows of `read_in`."""
        return map(self._chosen, cast("ImageSplit", self.split).read_in(form))

    def _chosen(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pc.is_in(rows["event_id"], pa.array(sorted(self.events), pa.string())))


@dataclass
class LookedRows:
    """Rows as a look found them.

    Attributes:
        state: event id → where the row ends.
        table: event id → `database.table`.
        takes: event id → for each sink of the flow, whether it takes the row by route and operation.
        held: rows that checks hold back.
    """

    state: dict[str, str] = field(default_factory=dict)
    table: dict[str, str] = field(default_factory=dict)
    takes: dict[str, tuple[bool, ...]] = field(default_factory=dict)
    held: list[RejectedRow] = field(default_factory=list)


@dataclass(frozen=True)
class LookTask:
    """Task that reads chosen rows and says where they end; picklable, and writes nothing."""

    flow: Flow
    planned: SourcePlan
    splits: tuple[ChosenSplit, ...]
    columns: Columns
    marks: ImageMarks | None
    takers: tuple[Taker, ...]
    program: RowProgram | None

    def write(self, slot: int) -> LookedRows:  # noqa: ARG002 - a task is asked for a slot
        """Return the rows; named as the tasks that write are."""
        found, tables = LookedRows(), {schema.schema_id: schema for schema in self.planned.tables}
        more = () if self.program is None else (self.program,)
        read = (rows for split in self.splits for rows in split.read_text(self.columns, self.marks, *more))
        for rows in in_order(read):
            marks = np.asarray(rows[MARKS]) if self.marks is not None else np.zeros(rows.num_rows, np.int64)
            held = held_back(rows, marks, holding(self.flow))
            kept = np.zeros(rows.num_rows, np.bool_)
            shape = (rows[name].to_pylist() for name in ("event_id", "op", "schema_id", "database", "table"))
            for number, (event, op, schema_id, database, name) in enumerate(zip(*shape, strict=True)):
                table = tables.get(schema_id) or TableSchema(-1, database, name, ())
                takes = tuple(self._takes(taker, route_of(self.flow, table), op) for taker in self.takers)
                kept[number] = held[number] and any(takes)
                ends = RowState.QUARANTINED if held[number] else RowState.DISPATCHED
                found.state[event] = str(ends) if any(takes) else str(RowState.FILTERED)
                found.table[event], found.takes[event] = f"{database}.{name}", takes
            if kept.any():
                found.held += held_rows(self.flow, rows.filter(pa.array(kept)))
        return found

    @staticmethod
    def _takes(taker: Taker, route: str, op: str) -> bool:
        return op in taker.offered and any(fnmatchcase(route, pattern) for pattern in taker.routes)


@dataclass(frozen=True)
class SinkLookTask:
    """Task that reads chosen rows and names those that reach a sink through transforms of its own; writes nothing.

    Attributes:
        task: the sink's.
    """

    task: DirectTask

    def write(self, slot: int) -> frozenset[str]:  # noqa: ARG002 - a task is asked for a slot
        """Return the event ids of the rows that the sink is given, or that its own transforms hold back."""
        return self.task.reaching()


def replay_decoded(session: FlowSession, plan: Plan, source: SourcePlan, wanted: Mapping[str, str]) -> ReplayOutcome:
    """Write rows of a range to the sinks that lack them; see `databus.runtime.beside.replay.replay`.

    Raises:
        ConfigError: code `lane_required`, the rows go through Spark now.
        ReconciliationError: a row is not in the range, or a sink did not confirm what it was given.
    """
    flow = session.flow
    require_lane(flow, source)
    for view in (session, *session.sink_views().values()):
        if view.flow.transforms:
            require_again(view, source, without_rows(view.flow, source.tables))
    try:
        with engine_errors():
            return _replay(session, plan, source, wanted)
    except SparkNeededError as error:
        require_direct_values(flow, plan.batch, error)
        raise


def _replay(session: FlowSession, plan: Plan, source: SourcePlan, wanted: Mapping[str, str]) -> ReplayOutcome:
    flow, live = session.flow, replace(plan, flow=session.flow.name)
    takers = takers_of(session)
    columns, marks, program = image_columns(flow, source), image_marks(flow, source), row_program(flow, source)
    splits = cast("Sequence[DirectSplit]", splits_of(session, source))
    look = LookTask(flow, source, _chosen(splits, wanted), columns, marks, takers, program)
    (found,) = cast("list[LookedRows]", session.slots.run(cast("DirectTask", look), 1))
    require_all(flow, source, wanted, found.state)
    done: list[Dispatched] = []
    takes: dict[str, frozenset[str]] = {}
    for number, spec in enumerate(flow.sinks):
        name = spec.sink_name
        if name not in session.sinks:
            continue
        sink, form = session.sinks[name], SinkForm.of(flow, spec, source)
        offered = frozenset(e for e, by in found.takes.items() if by[number] and wanted[e] in (CHECK, name))
        with naming(name):
            task = DirectTask(
                flow,
                source,
                cast("tuple[DirectSplit, ...]", _chosen(splits, offered)),
                form.columns,
                marks,
                takers,
                number,
                False,
                encoder_of(cast("DirectSink", sink), live, seen_by(flow, spec), source),
                sink.writer(plan),
                program=form.program,
                tells_transactions=False,
                flow_form=form.of_flow,
            )
            if form.of_flow is not None:
                look_of_sink = cast("DirectTask", SinkLookTask(task))
                (reaching,) = cast("list[frozenset[str]]", session.slots.run(look_of_sink, 1))
                # A row that a check holds again is the check's, whatever the sink would make of it.
                offered &= reaching | {e for e, ends in found.state.items() if ends != RowState.DISPATCHED}
            takes[name] = offered
            sent = gathered(name, session.slots.run(task, plan.sinks[name].slots))
        require_confirmed(flow, name, sent)
        done.append(sent)
    dispatched = {event: found.table[event] for event, ends in found.state.items() if ends == RowState.DISPATCHED}
    return outcome_of(flow, found.state, dispatched, takes, done, found.held)


def _chosen(splits: Sequence[DirectSplit], events: Mapping[str, str] | frozenset[str]) -> tuple[ChosenSplit, ...]:
    return tuple(ChosenSplit(split, frozenset(events)) for split in splits)
