"""Columns of a staged range whose names its statements give to others, for the tables of a flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from databus.binlog.log.capture import TableCapture
from databus.binlog.log.statements.column_renames import columns_moved
from databus.binlog.schema_history.actions import Action, AlterTable, CreateTable, DropTables
from databus.binlog.segments.segment import Segment
from databus.core.tables.column_moves import joined
from databus.core.tables.schemas import MovedColumns


@dataclass(frozen=True)
class StatementPlace:
    """Place of a statement in a staged range.

    Attributes:
        segment: number of its segment, which it ends where it is about a table of the flow.
        pos: file position behind it.
        schemas: number of schemas whose first rows come before it.
        rows: rows before it.
    """

    segment: int
    pos: int
    schemas: int
    rows: int


@dataclass(frozen=True)
class _StatedColumns:
    """Columns that a statement renames or drops, and the table's names under which it was reported, once each."""

    columns: tuple[tuple[str, str], ...]
    of: set[str] = field(default_factory=set)


def moved_columns(
    actions: Iterable[tuple[StatementPlace, Action, Sequence[tuple[str, str]], str]],
    segments: Sequence[Segment],
    capture: TableCapture,
) -> Iterator[MovedColumns]:
    """Yield what statements make of the columns of captured tables.

    A table that takes the name of another one stands for it, as after an online schema change: what became of its
    columns in the range came to the other's there.

    Args:
        actions: place, action, tables that it renames (before, behind), and for an ALTER its table behind it.
        segments: of the range.
        capture: tables of the flow.
    """
    so_far: dict[str, list[_StatedColumns]] = {}

    def told(place: StatementPlace, table: str) -> Iterator[MovedColumns]:
        columns: tuple[tuple[str, str], ...] = ()
        for said in so_far.get(table, ()):
            columns = columns if table in said.of else joined(columns, said.columns)
            said.of.add(table)
        if columns and capture(*table.split(".", 1)):
            first = tuple(_first_behind(segments, place))
            yield MovedColumns(table, columns, segments[place.segment].file, place.pos, place.rows, first)

    for place, action, tables, altered in actions:
        for old, new in tables:
            so_far[new] = so_far.pop(old, [])
            if not altered:
                yield from told(place, new)
        if isinstance(action, AlterTable):
            if columns := columns_moved(action):
                so_far.setdefault(altered, []).append(_StatedColumns(columns))
            yield from told(place, altered)
        elif isinstance(action, DropTables):
            for name in action.names:
                so_far.pop(str(name), None)
        elif isinstance(action, CreateTable) and not action.if_absent:
            so_far.pop(str(action.name), None)


def _first_behind(segments: Sequence[Segment], place: StatementPlace) -> Iterator[tuple[int, int]]:
    """Yield each schema with rows behind a statement, and how many rows lie before the first of them."""
    seen: set[int] = set()
    rows = place.rows
    for segment in segments[place.segment + 1 :]:
        yield from ((schema, rows) for schema in segment.rows if schema not in seen)
        seen |= segment.rows.keys()
        rows += sum(segment.rows.values())
