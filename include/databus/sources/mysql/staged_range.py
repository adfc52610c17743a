"""Staged ranges as plans of a batch, and their segments shared out to tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.expansion import MOST_EXPANDED_BYTES
from databus.binlog.log.statements.column_renames import columns_renamed
from databus.binlog.log.statements.identifiers import lowered
from databus.binlog.log.statements.scope import subjects_of
from databus.binlog.log.statements.statements import StatementKind
from databus.binlog.log.walk import LoggedStatement
from databus.binlog.log.walker import Walker
from databus.binlog.schema_history.actions import (
    Action,
    AlterTable,
    CreateTable,
    DropTables,
    RenameTables,
    action_of,
    renamed_to,
)
from databus.binlog.schema_history.definition import TableName
from databus.binlog.schema_history.definitions import PinnedDefinitions
from databus.binlog.schema_history.sql_tokens import UndecidedError
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.binlog.segments.store import SegmentStore, load_segment
from databus.core.events import Op
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import RenamedTable, TableChange, TableSchema
from databus.sources.mysql.tables.moved_columns import StatementPlace, moved_columns


def source_plan(index: RangeIndex, store: SegmentStore, capture: TableCapture) -> SourcePlan:
    """Return the plan that reads exactly this range.

    Args:
        index: what is staged.
        store: where it is staged.
        capture: tables of the flow.

    Raises:
        SourceUnavailableError: a segment with statements cannot be read.
    """

    def at(stamp_ms: int | None) -> datetime | None:
        return None if stamp_ms is None else datetime.fromtimestamp(stamp_ms / 1000, UTC)

    statements = sum(len(segment.table_events) for segment in index.segments)
    first, newest = at(index.first_ts_ms), at(index.max_ts_ms)
    unlogged = tuple(change for segment in index.segments for change in segment.unlogged)
    capture = replace(capture, folds=index.folds)
    logged = list(_statements(index, store))
    named = tuple(dict.fromkeys(subject for _, each in logged for subject in _named(each, capture)))
    actions = [(place, action) for place, each in logged for action in _actions(each, index)]
    changes = [tuple(_table_changes(each, index, capture)) for _, each in actions]
    altered = [_altered(action, index) for _, action in actions]
    comes, becomes = _come(altered, changes)
    places = [place.schemas for (place, _), each in zip(actions, changes, strict=True) for _ in each]
    renamed = tuple(_tables_renamed(list(zip(places, chain.from_iterable(changes), becomes, strict=True)), capture))
    columns = tuple(
        told
        for (_, action), name, later in zip(actions, altered, comes, strict=True)
        for told in _columns_renamed(action, name, capture, later=later)
    )
    return SourcePlan(
        index.range,
        index.tables,
        index.rows,
        index.bytes,
        first,
        newest,
        index.more,
        statements,
        unlogged=unlogged,
        named=named,
        renamed=renamed,
        columns_renamed=columns,
        table_changes=tuple(chain.from_iterable(changes)),
        rows_before=_rows_before(index),
        columns_moved=tuple(moved_columns(_acted(actions, index), index.segments, capture)),
    )


def _rows_before(index: RangeIndex) -> tuple[int, ...]:
    """Return how many rows lie in segments before the first one of each schema; a statement ends a segment."""
    before: dict[int, int] = {}
    rows = 0
    for segment in index.segments:
        for schema in segment.rows:
            before.setdefault(schema, rows)
        rows += sum(segment.rows.values())
    return tuple(before.get(table.schema_id, 0) for table in index.tables)


def _statements(index: RangeIndex, store: SegmentStore) -> Iterator[tuple[StatementPlace, LoggedStatement]]:
    """Yield each statement, as a task reads them, with its place; one of the flow's tables ends its segment.

    The segments show it, whichever version staged them.
    """
    behind = rows = 0
    for number, segment in enumerate(index.segments):
        behind = max(behind, 1 + max(segment.rows, default=-1))
        rows += sum(segment.rows.values())
        if not segment.table_events and not segment.others:
            continue
        pinned = PinnedDefinitions(index.definitions)
        walker = Walker(segment.file, segment.start_pos, definitions=pinned, passes_statements=True)
        data, at = load_segment(store.address(index, segment)), 0
        while at < len(data):
            walk = walker.walk(data[at:], MOST_EXPANDED_BYTES)
            ends = [*walk.transactions.end_pos.tolist(), segment.end_pos]
            for logged in walk.statements:
                yield StatementPlace(number, ends[min(logged.transaction, len(ends) - 1)], behind, rows), logged
            if not walk.consumed_bytes:
                break  # reading the range says what is wrong with it
            at += walk.consumed_bytes


def _named(logged: LoggedStatement, capture: TableCapture) -> Iterator[tuple[str, TableSchema]]:
    """Yield op and table of a statement, once for each table under which it is delivered."""
    op = Op.TRUNCATE if logged.statement.kind is StatementKind.TRUNCATE else Op.DDL
    for database, table in subjects_of(capture, logged):
        yield op.value, TableSchema(-1, database, table, ())


def _actions(logged: LoggedStatement, index: RangeIndex) -> Iterator[Action]:
    """Yield what a definition statement is about, where that is known."""
    start = index.range.start
    if isinstance(start, BinlogOffset) and logged.statement.kind is StatementKind.DEFINITION:
        action = action_of(logged.query, start.flavor, fold=index.folds)
        if action is not None:
            yield action


def _renamed(action: Action, index: RangeIndex) -> Iterator[tuple[str, str]]:
    """Yield the tables that a statement renames, before and after."""
    if isinstance(action, RenameTables):
        pairs: Iterable[tuple[TableName, TableName]] = action.pairs
    else:
        pairs = [(action.name, new) for new in _new_names(action, index)] if isinstance(action, AlterTable) else ()
    for old, fresh in pairs:
        yield str(old), str(fresh)


def _tables_renamed(changes: Iterable[tuple[int, TableChange, bool]], capture: TableCapture) -> Iterator[RenamedTable]:
    """Yield the tables that get other names and are the flow's, were so in this range or become so later."""
    ours: set[str] = set()
    for behind, change, comes in changes:
        if change.becomes in {"", change.table}:
            continue
        if change.table in ours or capture(*change.table.split(".", 1)):
            ours.add(change.becomes)
        elif not change.captured and not comes:
            continue
        yield RenamedTable(change.table, change.becomes, behind)


def _altered(action: Action, index: RangeIndex) -> str:
    """Return what the table of an ALTER is called behind it; "" of other statements."""
    return str((*_new_names(action, index), action.name)[0]) if isinstance(action, AlterTable) else ""


def _acted(
    actions: Iterable[tuple[StatementPlace, Action]], index: RangeIndex
) -> Iterator[tuple[StatementPlace, Action, Sequence[tuple[str, str]], str]]:
    """Yield each action with the tables that it renames, and of an ALTER its table as it is called behind it."""
    for place, action in actions:
        yield place, action, list(_renamed(action, index)), _altered(action, index)


def _columns_renamed(
    action: Action, table: str, capture: TableCapture, *, later: bool
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield the table, as it is called behind the statement, of which a statement renames columns, and these.

    It is one of the flow's, or becomes one by a later statement.
    """
    pairs = columns_renamed(action) if isinstance(action, AlterTable) else ()
    if pairs and (later or capture(*table.split(".", 1))):
        yield table, pairs


def _come(altered: Sequence[str], changes: Sequence[Sequence[TableChange]]) -> tuple[list[bool], list[bool]]:
    """Return, of what statements leave, whether later ones make it one of the flow's tables; in one pass from the last.

    Args:
        altered: of each statement, the table that it alters.
        changes: of each statement, what it does to names.

    Returns:
        Of each altered table, and of each change's table, whether it becomes one.
    """
    comes: dict[str, bool] = {}
    of_altered: list[bool] = []
    of_changes: list[bool] = []
    for table, here in zip(reversed(altered), reversed(changes), strict=True):
        of_altered.append(comes.get(table, False))
        for change in reversed(here):
            of_changes.append(comes.get(change.becomes, False))
            if change.becomes != change.table:
                comes[change.table] = change.captured or comes.get(change.becomes, False)
    return of_altered[::-1], of_changes[::-1]


def _table_changes(action: Action, index: RangeIndex, capture: TableCapture) -> Iterator[TableChange]:
    """Yield what a statement does to names, table by table."""
    if isinstance(action, AlterTable) and (pairs := columns_renamed(action)):
        yield TableChange(str(action.name), str(action.name), capture(*action.name), pairs)
    for old, new in _renamed(action, index):
        yield TableChange(old, new, capture(*new.split(".", 1)))
    if isinstance(action, DropTables):
        yield from (TableChange(str(name), "") for name in action.names)
    if isinstance(action, CreateTable) and not action.if_absent:
        yield TableChange(str(action.name), "")


def _new_names(action: AlterTable, index: RangeIndex) -> list[TableName]:
    with suppress(UndecidedError):
        new = renamed_to(action)
        return [TableName(*map(lowered, name)) for name in new] if index.folds else new
    return []


def shared_out(index: RangeIndex, count: int) -> Sequence[Sequence[Segment]]:
    """Group the segments that hold anything into at most `count` groups of about equal size, in log order."""
    wanted = [s for s in index.segments if s.rows or s.table_events]
    share = sum(s.size_bytes for s in wanted) / max(1, count)
    groups: dict[int, list[Segment]] = {}
    passed = 0
    for segment in wanted:
        group = min(max(1, count) - 1, int((passed + segment.size_bytes / 2) / share))
        groups.setdefault(group, []).append(segment)
        passed += segment.size_bytes
    return [segments for _, segments in sorted(groups.items())]
