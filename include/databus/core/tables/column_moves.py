"""Names of columns before and behind the statements of a log that give them to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import MovedColumns

Columns = Sequence[tuple[str, str]]
"""Names before and behind a statement, all of one moment; "" behind for a column that is dropped."""

GONE = ""
"""Stands for the name of a column that is not there."""


@dataclass(frozen=True)
class ColumnStretch:
    """Rows of a table between two statements that move its columns.

    Attributes:
        moved: the statement before it, None for the first stretch of a range.
        first: (`schema_id`, rows of the plan before its first one here) of each schema with rows, in their order; -1
            rows where the source does not report.
    """

    moved: MovedColumns | None
    first: tuple[tuple[int, int], ...]


def names_behind(names: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Return what columns are called behind a statement; GONE for those that it drops."""
    new = {old.casefold(): name for old, name in columns}
    return tuple(new.get(name.casefold(), name) for name in names)


def names_before(names: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Return what columns were called before a statement; GONE for those that it adds under a name it takes away."""
    old = {name.casefold(): before for before, name in columns if name}
    left = {before.casefold() for before, _ in columns}
    return tuple(old.get(each := name.casefold(), GONE if each in left else name) if name else GONE for name in names)


def names_at(names: Sequence[str], place: int, wanted: int, moves: Sequence[tuple[int, Columns]]) -> tuple[str, ...]:
    """Return what columns are called at another place of the log.

    Args:
        names: what they are called at `place`.
        place: version of a place; statements that end there lie before it.
        wanted: version of the other one.
        moves: version and columns of each statement, in the order of the log.
    """
    found = tuple(names)
    if wanted >= place:
        for at, columns in moves:
            found = names_behind(found, columns) if place < at <= wanted else found
    else:
        for at, columns in reversed(moves):
            found = names_before(found, columns) if wanted < at <= place else found
    return found


def joined(first: Columns, then: Columns) -> tuple[tuple[str, str], ...]:
    """Return two statements as one."""
    of_first = {old.casefold() for old, _ in first} | {name.casefold() for _, name in first}
    further = [(old, name) for old, name in then if old.casefold() not in of_first]
    behind = names_behind([name for _, name in first], then)
    return (*((old, name) for (old, _), name in zip(first, behind, strict=True)), *further)


def stretches(plan: SourcePlan, table: str) -> Iterator[ColumnStretch]:
    """Yield the stretches of a table's rows, in the order of the log.

    Args:
        plan: the range.
        table: its `database.table`.
    """
    mine = [each.schema_id for each in plan.tables if each.full_name == table]
    moves = [each for each in plan.columns_moved if each.table == table]
    told = dict(enumerate(plan.rows_before))
    found: Sequence[tuple[int, int]] = [(number, told.get(number, -1)) for number in mine]
    moved: MovedColumns | None = None
    for following in (*moves, None):
        here = [each for each in found if each[0] in mine and (following is None or each[1] < following.rows)]
        yield ColumnStretch(moved, tuple(sorted(here, key=lambda each: (each[1], each[0]))))
        moved, found = following, following.first if following is not None else ()
