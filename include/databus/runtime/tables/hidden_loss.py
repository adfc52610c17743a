"""Hidden columns before a batch is dispatched: what its tables lost of them, what would go out in clear (ADR 50)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress

from databus.core.positions.offsets import Ordering
from databus.core.protocols.optional_source import DefinedSource
from databus.core.state.plan import SourcePlan
from databus.core.tables.hidden_columns import HiddenByTable, RememberedHidden, with_added
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import TablesNow
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_loss import (
    HiddenLoss,
    but_for_those_here,
    in_clear,
    refuse_renamed,
    shown,
    shown_of_former,
)
from databus.runtime.beside.look import looking
from databus.runtime.context import FlowSession
from databus.runtime.plan import PlannedBatch

log = logging.getLogger(__name__)


def settle_hidden(session: FlowSession, batch: PlannedBatch, changes: FrameChanges) -> None:
    """Refuse tables that lost a column which transforms hide, and remember those that have one.

    What sinks behind and backfills move has definitions from before what the flow has seen: there the batch's own count
    alone. So it is in a flow that was set back, with those that it met on its way again.

    Raises:
        TransformError: a table lost a hidden column, or one that was hidden would go out in clear.
        CheckpointError: what is remembered cannot be read or written.
    """
    memory, planned, hidden = session.hidden, batch.source, changes.hidden
    if hidden is None or not session.flow.transforms:
        return
    if memory is None or session.passed is not None or session.replays:
        require_again(session, planned, changes)
        return
    if hides_again := _hidden_again(memory.known(), hidden, planned):
        memory.remember(RememberedHidden(), gone=RememberedHidden(shown=hides_again))
    again = batch.plan.mode == "replay"
    before = _before(session, batch, changes) if again else memory.known()
    loss = _loss(hidden, before, planned, memory.known())
    found = loss.require(planned.tables)
    carried = loss.require_new_names(again=again)
    for table, name in loss.waived:
        if memory.first_told(table, name):
            log.warning(
                "flow %s: %s has no column %s any more, which was hidden; `former` names it for all tables, so that "
                'none is watched for its loss: write former=("%s.%s",)',
                session.flow.name, table, name, table, name,
            )  # fmt: skip
    _refuse_shown(session, changes, carried.moved)
    beside, known = RememberedHidden(beside=loss.beside), RememberedHidden(beside=memory.known().beside)
    found = found.with_added(carried).with_added(beside)
    memory.remember(found, again=again)
    memory.take_back_behind(batch.plan.batch, known.without(beside), again=again)


def settle_renames(session: FlowSession, batch: PlannedBatch) -> None:
    """Remember what statements on tables that are none of the flow's renamed, in a range without rows of the flow.

    Raises:
        CheckpointError: what is remembered cannot be read or written.
    """
    if not batch.source.table_changes:
        return
    changes = FrameChanges(None, (), {}, hidden=Hidden())
    for spec in session.flow.transforms:
        with suppress(NotImplementedError):
            changes = spec.columns_after(changes)  # type: ignore[assignment] # the only implementation
    settle_hidden(session, batch, changes)


def require_again(session: FlowSession, planned: SourcePlan, changes: FrameChanges) -> None:
    """Refuse a range that was moved before, or lies before what the flow has seen, by its own definitions.

    A flow without transforms is not asked: it shows what it hid once.

    Raises:
        TransformError: a table lost a hidden column, or one that was hidden would go out in clear.
        SourceUnavailableError, SourceAccessError: the source cannot be asked.
        CheckpointError: what is remembered cannot be read or written.
    """
    if changes.hidden is None or not session.flow.transforms:
        return
    known = session.hidden.known() if session.hidden is not None else RememberedHidden()
    before = RememberedHidden(shown=known.shown)
    loss = _loss(changes.hidden, before, planned, known)
    loss.require(planned.tables)
    carried = loss.require_new_names(again=True)
    _refuse_shown(session, changes, carried.moved)


def _refuse_shown(session: FlowSession, changes: FrameChanges, moved: HiddenByTable) -> None:
    """Refuse rows whose columns were hidden and are not any more, where their table has the column no longer.

    A column that the table still has is shown because its flow was changed to do so; that is remembered. One that was
    renamed is another now, if the table has it.

    Args:
        session: the flow, open.
        changes: what the transforms leave.
        moved: table → names that hidden columns had before a statement of the range gave them others.

    Raises:
        TransformError: the rows are from before the column was renamed or dropped.
        SourceUnavailableError, SourceAccessError: the source cannot be asked.
        CheckpointError: what is remembered cannot be read or written.
    """
    memory = session.hidden
    if memory is None or changes.hidden is None or not session.flow.transforms:
        return
    found = in_clear(changes, memory.known())
    if not found:
        return
    renamed = memory.known().renamed
    for schema, name, _ in found:
        refuse_renamed(schema.full_name, renamed.get(schema.full_name, ()), (name,), changes.hidden)
    moved = with_added(memory.known().moved, moved)
    for schema, name, source in found:
        if not {name, source.casefold()}.isdisjoint(moved.get(schema.full_name, ())):
            raise shown_of_former(schema.full_name, source)
    now = _tables_now(session)
    if now is None:
        for schema, name, _ in found:
            if memory.first_told(schema.full_name, name):
                log.warning("flow %s: %s.%s was hidden, and is so no more", session.flow.name, schema.full_name, name)
        return
    for schema, name, source in found:
        if source.casefold() not in _columns_now(now, schema):
            table = schema.full_name
            raise shown(table, name, seen=now.tells(table) and table not in now.partly_shown)
    by_table: dict[str, set[str]] = {}
    for schema, name, _ in found:
        log.warning("flow %s: %s.%s was hidden, and is shown from here on", session.flow.name, schema.full_name, name)
        by_table.setdefault(schema.full_name, set()).add(name)
    memory.remember(RememberedHidden(shown=by_table))


def _before(session: FlowSession, batch: PlannedBatch, changes: FrameChanges) -> RememberedHidden:
    """Return what was hidden before a batch of a flow that was set back, as far as it reaches what it stood at."""
    memory, until = session.hidden, batch.previous.replay_until
    if memory is None or changes.hidden is None:
        return RememberedHidden()
    known, again = memory.known(), RememberedHidden(memory.again)
    if until is not None and until.compare(batch.plan.range.end) in (Ordering.AFTER, Ordering.EQUAL):
        return RememberedHidden(again.tables, known.renamed, known.shown, beside=known.beside)
    tables = but_for_those_here(batch.source.tables, changes.hidden, known.tables)
    return RememberedHidden(tables, known.renamed, known.shown, beside=known.beside).with_added(again)


def _loss(hidden: Hidden, before: RememberedHidden, planned: SourcePlan, known: RememberedHidden) -> HiddenLoss:
    renames, columns = planned.renamed, planned.columns_renamed
    return HiddenLoss(hidden, before, renames, columns, planned.table_changes, known.tables)


def _hidden_again(known: RememberedHidden, hidden: Hidden, planned: SourcePlan) -> HiddenByTable:
    """Return the columns that the flow was changed to show, and that it hides again."""
    here = hidden.by_table(planned.tables)
    found = {
        table: {name for name in names if name in here.get(table, ()) or hidden.hides(table, name)}
        for table, names in known.shown.items()
    }
    return {table: names for table, names in found.items() if names}


def _tables_now(session: FlowSession) -> TablesNow | None:
    if isinstance(session.source, DefinedSource):
        return session.source.tables_now()
    if session.reopen_source is None:
        return None
    with looking(session) as view:
        return view.source.tables_now() if isinstance(view.source, DefinedSource) else None


def _columns_now(now: TablesNow, schema: TableSchema) -> Collection[str]:
    names: Sequence[TableSchema] = [table for table in now.captured if table.full_name == schema.full_name]
    return {column.name.casefold() for table in names for column in table.columns}
