"""Replay rows that were held back: read → transform → check → dispatch of a former range, for chosen rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import CHECK, RejectedRow, WriteReceipt
from databus.core.errors.batch import ReconciliationError
from databus.core.events import RowState
from databus.core.flow import Flow
from databus.core.positions.replaced_logs import is_of_former_log, of_former_log
from databus.core.protocols.sink import Sink, SlotWriter
from databus.core.state.known_outputs import known_outputs
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.trace import chunk_of
from databus.runtime import check, counts
from databus.runtime.context import FlowSession
from databus.runtime.copies import any_taken_by, row_id, taken_by, written_rows
from databus.runtime.dispatch import MINE, REFUSED, Dispatched, dispatch, quarantined_rows, shares_of
from databus.runtime.read import read
from databus.runtime.routing import outputs_of, prepare, require_unreserved
from databus.runtime.sink_rows import CheckedRows, changes_of_sink, rows_of_sink, with_stored_images
from databus.runtime.spark.errors import engine_errors
from databus.runtime.tables.column_lineage import written_tables
from databus.runtime.tables.hidden_loss import require_again
from databus.runtime.tables.sink_views import seen_by
from databus.runtime.transform import transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_GONE = "quarantine_rows_gone"
"""Code of the error for rows that the range which held them does not hold any more."""

_OF_LOG = (
    "The log was changed, or the flow's tables, row filters or routes by value no longer make them: discard them, or "
    "put the former definition back."
)
_OF_SNAPSHOT = (
    "A snapshot read rows snapshot-…, and no event of the log has them: `databus snapshot begin` with --table and "
    "--where reads their keys again; then discard these."
)


@dataclass(frozen=True)
class ReplayOutcome:
    """Replay result.

    Attributes:
        state: event id → where the row ends under the flow as it is now.
        taken: sink → event ids that the sink takes.
        rejected: rows that a check or a sink holds back again.
        receipts: what the sinks confirmed.
        tables: counts by table.
    """

    state: Mapping[str, str]
    taken: Mapping[str, frozenset[str]]
    rejected: tuple[RejectedRow, ...]
    receipts: tuple[WriteReceipt, ...]
    tables: Mapping[str, TableCounts]


@dataclass(frozen=True)
class _ReplaySink:
    """A sink that encodes as the flow does, and marks as the replay does."""

    sink: Sink
    live: Plan
    marked: Plan

    def accepts(self) -> frozenset[str]:
        return self.sink.accepts()

    def encode(self, rows: Any, plan: Plan) -> Any:  # noqa: ARG002 - the plan of the flow decides
        return self.sink.encode(rows, self.live)

    def writer(self, plan: Plan) -> SlotWriter:  # noqa: ARG002 - the plan of the replay decides
        return self.sink.writer(self.marked)


@contextmanager
def reopened(session: FlowSession, planned: Any) -> Iterator[SourcePlan]:
    """Describe a committed range again; what is staged for it is dropped at the end.

    Raises:
        SourceDivergedError: it is of a log that was replaced since.
    """
    standing = session.store.load(session.flow.name)
    if standing is not None and is_of_former_log(planned.end, standing.offset):
        raise of_former_log(f"flow {session.flow.name}: the range {planned}", standing.offset)
    source = session.source.reopen(planned)
    try:
        yield source
    finally:
        session.source.discard(source)


def pinned_sinks(session: FlowSession, source: SourcePlan, marks: Mapping[str, Sequence[int]]) -> dict[str, SinkPlan]:
    """Return what each sink pins for a replay of rows of a range.

    Args:
        session: the flow, open.
        source: the range.
        marks: sink → batch that the replay's marker of each slot holds.
    """
    pinned: dict[str, SinkPlan] = {}
    standing = session.store.load(session.flow.name)
    for spec in session.flow.sinks:
        view = seen_by(session.flow, spec)
        tables = written_tables(view, source.tables)
        require_unreserved(view, spec, tables, source.tables)
        outputs = outputs_of(session.flow, spec, tables)
        made = prepare(session.sinks[spec.sink_name], source, outputs, known_outputs(standing, spec.sink_name))
        known = tuple(marks.get(spec.sink_name, ()))
        # The sink looked at the flow's own markers; of a replay's only its own commits show it.
        pinned[spec.sink_name] = replace(made, prev=known, first=()).following(known, 0)
    return pinned


def replay(session: FlowSession, plan: Plan, source: SourcePlan, wanted: Mapping[str, str]) -> ReplayOutcome:
    """Write rows of a range to the sinks that lack them, with markers of the replay's own.

    Args:
        session: the flow, open.
        plan: the replay's plan; its range is the former one, its flow the name that its markers have.
        source: the former range.
        wanted: event id → stage that held it: "check" for every sink, else that sink alone.

    Raises:
        ReconciliationError: a row is not in the range, or a sink did not confirm what it was given.
    """
    if any(spec.needs_direct_lane() for spec in session.flow.sinks):
        from databus.runtime.beside.direct_replay import replay_decoded  # loads kernels

        return replay_decoded(session, plan, source, wanted)
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    flow = session.flow
    live = replace(plan, flow=flow.name)
    with engine_errors():
        rows, splits = read(session, source)
        changes = with_stored_images(flow, transform(flow, rows, source))
        require_again(session, source, changes)
        anywhere = F.lit(False)
        for name, sink in session.sinks.items():
            anywhere = anywhere | any_taken_by(flow, sink, session.sink_spec(name))
        entries: dict[str, list[str]] = {}
        for event_id in wanted:
            entries.setdefault(row_id(flow, event_id), []).append(event_id)
        checked = check.check(flow, changes, anywhere).where(F.col("event_id").isin(*sorted(entries)))
        of_flow = CheckedRows(checked, changes)
        for name, view in session.sink_views().items():
            require_again(view, source, changes_of_sink(flow, session.sink_spec(name), session.sinks[name], of_flow))
        written = written_rows(flow, checked)
        table = F.concat_ws(".", "database", "table").alias("name")
        taken = {name: taken_by(sink, session.sink_spec(name)) for name, sink in session.sinks.items()}
        mine = [column.alias(f"to_{number}") for number, column in enumerate(taken.values())]
        found = written.select("event_id", check.STATE, table, *mine).collect()
        meant = {row["event_id"]: _meant(flow, row, entries) for row in found}
        state = {event_id: row[check.STATE] for row in found for event_id in meant[row["event_id"]]}
        require_all(flow, source, wanted, state)
        done, names = [], counts.table_names(source)
        takes: dict[str, frozenset[str]] = {}
        for number, (name, sink) in enumerate(session.sinks.items()):
            spec, offered = session.sink_spec(name), [row for row in found if row[f"to_{number}"]]
            frame = written
            if spec.transforms:
                frame = rows_of_sink(flow, spec, sink, of_flow)
                shares = shares_of(flow, (spec, sink))
                offered = check.picked(frame, shares[MINE] | shares[REFUSED]).select("event_id", check.STATE).collect()
            given = {
                row["event_id"]: [each for each in _meant(flow, row, entries) if wanted[each] in (CHECK, name)]
                for row in offered
            }
            takes[name] = frozenset(event_id for entries in given.values() for event_id in entries)
            sent_ids = sorted(event_id for event_id, entries in given.items() if entries)
            share: DataFrame = frame.where(F.col("event_id").isin(*sent_ids) if sent_ids else F.lit(False))
            renamed: Any = _ReplaySink(sink, live, plan)
            sent = dispatch(flow, plan, share, (spec, renamed), names, splits)
            require_confirmed(flow, name, sent)
            done.append(sent)
        held = quarantined_rows(checked) if RowState.QUARANTINED in state.values() else ()
        held = tuple(replace(row, event_id=event_id) for row in held for event_id in meant[row.event_id])
    dispatched = (row for row in found if row[check.STATE] == RowState.DISPATCHED)
    names_of = {row_id(flow, row["event_id"]): str(row["name"]) for row in dispatched}
    return outcome_of(flow, state, names_of, takes, done, held)


def require_all(flow: Flow, source: SourcePlan, wanted: Mapping[str, str], state: Mapping[str, str]) -> None:
    """Refuse a replay of rows of which some were not found.

    Raises:
        ReconciliationError: code `ROWS_GONE`.
    """
    if gone := sorted(set(wanted) - set(state)):
        raise ReconciliationError(
            f"flow {flow.name}: {len(gone)} rows to be replayed are not in {source.range}, first {gone[0]}",
            hint=_OF_SNAPSHOT if any(map(chunk_of, gone)) else _OF_LOG,
            code=ROWS_GONE,
        )


def require_confirmed(flow: Flow, name: str, sent: Dispatched) -> None:
    """Refuse receipts of a sink that are not of all rows given to it.

    Raises:
        ReconciliationError: names the sink.
    """
    confirmed = sum(sum(r.rows.values()) + len(r.rejected) for r in sent.receipts)
    if confirmed != sum(sent.given.values()):
        raise ReconciliationError(
            f"flow {flow.name}: sink {name} confirmed {confirmed} of {sum(sent.given.values())} replayed rows"
        )


def outcome_of(
    flow: Flow,
    state: Mapping[str, str],
    dispatched: Mapping[str, str],
    takes: Mapping[str, frozenset[str]],
    done: Sequence[Dispatched],
    held: Sequence[RejectedRow],
) -> ReplayOutcome:
    """Return the outcome of a replay.

    Args:
        flow: the flow.
        state: event id → where the row ends.
        dispatched: event id of each row that is dispatched → its table's name; a row with copies stands once.
        takes: sink → event ids that it takes.
        done: what each sink was given and confirmed.
        held: rows that checks hold back again.
    """
    receipts = tuple(r for sent in done for r in sent.receipts)
    rejected = (*held, *(row for r in receipts for row in r.rejected))
    observed = Counter(dispatched.values())
    refused: dict[str, set[str]] = {}
    for row in (row for r in receipts for row in r.rejected):
        refused.setdefault(row.table, set()).add(row_id(flow, row.event_id))
    lost = {name: len(refused.get(name, ())) for name in observed}
    tables = {name: TableCounts(count, 0, lost[name], count - lost[name]) for name, count in observed.items()}
    return ReplayOutcome(state, takes, rejected, receipts, tables)


def _meant(flow: Flow, row: Any, entries: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the held entries that a row or copy answers: its own, that of its whole row, of a row those of its copies.

    A row that is dispatched and has no copies now does not answer for a copy that it had.
    """
    event_id, whole = row["event_id"], row_id(flow, row["event_id"])
    copies_too = event_id == whole and row[check.STATE] != RowState.DISPATCHED
    return [each for each in entries[whole] if each in (event_id, whole) or copies_too]
