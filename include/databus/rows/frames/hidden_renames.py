"""Hidden columns that a statement of the log gives another name, whatever takes their old one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from databus.core.errors.batch import TransformError
from databus.core.tables.hidden_columns import HiddenByTable
from databus.rows.frames.hidden import Hidden
from databus.rows.frames.hidden_beside import Beside, in_statements

ColumnRenames = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Of each statement, in the order of the log: table, and columns before and after, all names from before it."""


@dataclass
class HiddenNames:
    """Names that hidden columns of one table have got.

    Attributes:
        by: what hides them under their first name, "" where that was done by an earlier definition of the flow.
        names: name in lower case → as it is written; also names that they have no longer.
        now: those that they have behind all statements.
        former: names that they had before.
        brought: whether a table that took this one's name brought some of them along.
    """

    by: str = ""
    names: dict[str, str] = field(default_factory=dict)
    now: set[str] = field(default_factory=set)
    former: list[str] = field(default_factory=list)
    brought: bool = False


def carried_of(
    hidden: Hidden,
    columns: ColumnRenames,
    names: Mapping[str, Collection[str]],
    known: Callable[[str], Collection[str]],
    beside: Beside | None = None,
) -> dict[str, HiddenNames]:
    """Return table → names that its hidden columns have got.

    Where rows lie between the statements is not looked at: a name counts for all of the batch.

    Args:
        hidden: the transforms.
        columns: the statements.
        names: table → names that it had before; what is hidden under one of these is hidden.
        known: returns what was hidden in a table so far.
        beside: what tables that take a name of the flow's bring along.
    """
    carried: dict[str, HiddenNames] = {}
    beside = beside or Beside()
    brought = [((table,), pairs) for table, pairs in in_statements(beside.taken)]
    said = [((table, *(new for new, old in names.items() if table in old)), pairs) for table, pairs in columns]
    for number, (tables, pairs) in enumerate((*brought, *said)):
        for each in tables:
            if each in beside.others:
                continue
            so_far = carried.get(each, HiddenNames())
            got = [
                (by, old, new)
                for old, new in pairs
                for by in [_hides(hidden, (each, *names.get(each, ())), old)]
                if by or old.casefold() in so_far.names or old.casefold() in known(each)
            ]
            if not got:
                continue
            carried[each] = so_far
            so_far.brought = so_far.brought or number < len(brought)
            so_far.by = so_far.by or next((by for by, _, _ in got if by), "")
            so_far.now -= {old.casefold() for old, _ in pairs}
            for _, old, new in got:
                so_far.former.append(old)
                so_far.names[new.casefold()] = new
                so_far.now.add(new.casefold())
    return carried


def refuse_carried(carried: Mapping[str, HiddenNames], hidden: Hidden, shown: HiddenByTable) -> None:
    """Refuse a hidden column's new name that nothing hides.

    Args:
        carried: table → names that its hidden columns have got.
        hidden: the transforms.
        shown: table → columns that the flow was changed to show, since it came past these statements.

    Raises:
        TransformError: the values would go out in clear.
    """
    for table, each in carried.items():
        if not hidden.takes(table):
            continue
        bare = [name for name in each.names if not hidden.hides(table, name) and name not in shown.get(table, ())]
        if bare:
            raise _renamed(table, each, bare)


def _hides(hidden: Hidden, tables: Sequence[str], column: str) -> str:
    return next((by for table in tables if (by := hidden.hides(table, column))), "")


def _renamed(table: str, carried: HiddenNames, bare: Sequence[str]) -> TransformError:
    told = ", ".join(carried.names[name] for name in bare)
    add = [carried.names[name] for name in bare if name in carried.now]
    gone = [carried.names[name] for name in bare if name not in carried.now]
    new = {name.casefold() for name in (*add, *gone)}
    old = [name for name in dict.fromkeys(carried.former) if name.casefold() not in new]
    former = ", ".join(f'"{table}.{name}"' for name in (*old, *gone))
    former += "," if len(old) + len(gone) == 1 else ""
    copy = " (it altered a table that took this one's name later)" if carried.brought else ""
    name_it = f"Name {', '.join(add)} as well, and add" if add else "Add"
    return TransformError(
        f"{carried.by or 'hidden columns'}: in {table} a statement of the log gives {', '.join(old)}, which is hidden, "
        f"the name {told}, which is not{copy}: the values would go out in clear; the batch is refused before any of it "
        "is written",
        hint=f"{name_it} former=({former}): old and new names are hidden then, in rows from before the statement and "
        "behind it, whatever stands under the old name now.",
        code="hidden_column_gone",
    )
