"""Columns that were hidden in a table and are not there any more: under another name, or under another table's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from databus.core.errors.batch import TransformError
from databus.core.tables.hidden_columns import HiddenByTable, RememberedHidden, with_added
from databus.core.tables.schemas import RenamedTable, TableChange, TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import ADDED
from databus.rows.frames.hidden import Hidden, Hiding
from databus.rows.frames.hidden_beside import Beside
from databus.rows.frames.hidden_renames import ColumnRenames, HiddenNames, carried_of, refuse_carried

GONE = "hidden_column_gone"
"""Code of the error for a column that was hidden and that its table has no longer."""

SHOWN = "hidden_column_shown"
"""Code of the error for a column that was hidden and that would go out in clear."""


@dataclass
class HiddenLoss:
    """Tables of a batch, compared with what was hidden in them before.

    Attributes:
        hidden: what the transforms looked for and found.
        before: what was hidden in earlier batches.
        renames: tables that are renamed in the batch.
        columns: columns that are renamed in it.
        changes: what statements of it do to names of tables and columns.
        ever: what was hidden in any batch, also in those behind this one.
        waived: `database.table` and column that is lacking, which `former` names for all tables.
        beside: what is to be remembered of columns renamed in tables in which they are not hidden; reported once
            `require_new_names` was asked.
    """

    hidden: Hidden
    before: RememberedHidden
    renames: Sequence[RenamedTable] = ()
    columns: ColumnRenames = ()
    changes: Sequence[TableChange] = ()
    ever: HiddenByTable = field(default_factory=dict)
    waived: list[tuple[str, str]] = field(default_factory=list)
    beside: HiddenByTable = field(default_factory=dict)
    _known: dict[str, set[str]] = field(default_factory=dict)
    _names: dict[str, set[str]] = field(default_factory=dict)

    def require(self, tables: Sequence[TableSchema]) -> RememberedHidden:
        """Refuse a definition of a table that lacks what was hidden in an earlier one.

        Args:
            tables: definitions in the order of the log, as `schema_id` numbers them.

        Returns:
            What is to be remembered of the batch.

        Raises:
            TransformError: the values may stand under another name, in clear.
        """
        renames = list(self.renames)
        for schema in sorted(tables, key=lambda each: each.schema_id):
            while renames and renames[0].behind <= schema.schema_id:
                self._rename(renames.pop(0))
            self._judge(schema)
        for rename in renames:
            self._rename(rename)
        here = self.hidden.by_table(tables)
        inherited = {new: known for new in self._names if (known := self._known_of(new))}
        renamed = {new: names for new, names in self._names.items() if new in inherited}
        return RememberedHidden(with_added(here, inherited), renamed)

    def require_new_names(self, *, again: bool) -> RememberedHidden:
        """Refuse a new name of a hidden column that nothing hides, be there rows of it or none; asked behind `require`.

        Args:
            again: whether the batch was moved before: a column that the flow was changed to show since is none.

        Returns:
            What is to be remembered of them.

        Raises:
            TransformError: the values would go out in clear.
        """
        carried = self._carried()
        refuse_carried(carried, self.hidden, self.before.shown if again else {})
        return RememberedHidden(
            {table: each.now for table, each in carried.items()},
            moved={table: {name.casefold() for name in each.former} for table, each in carried.items()},
        )

    def _rename(self, rename: RenamedTable) -> None:
        """Let a table inherit; the one that had the name may be back under it, as after an online schema change."""
        self._known_of(rename.new).update(self._known_of(rename.old))
        names = {rename.old, *self._lineage(rename.old)} - {rename.new}
        self._names.setdefault(rename.new, set()).update(names)

    def _judge(self, schema: TableSchema) -> None:
        table, found = schema.full_name, self.hidden.found.get(schema.schema_id, set())
        if not self.hidden.takes(table):
            self._known_of(table).update(found)
            return
        lacking = self._known_of(table) - found
        missed = self.hidden.missed.get(schema.schema_id, {})
        lost = sorted(told for name, told in missed.items() if name in lacking)
        if lost:
            raise _gone(schema, lost)
        waived = self.hidden.waived.get(schema.schema_id, {})
        refuse_renamed(table, self._lineage(table), lacking - waived.keys(), self.hidden)
        self.waived += [(table, name) for name in sorted(lacking) if waived.get(name)]
        self._known_of(table).update(found)

    def _known_of(self, table: str) -> set[str]:
        return self._known.setdefault(table, set(self.before.tables.get(table, ())))

    def _carried(self) -> dict[str, HiddenNames]:
        if not self.columns and not self.changes:
            self.beside = self.before.beside
            return {}
        lineages = {table: self._lineage(table) for table in self._tables()}
        kept = frozenset[str]().union(*(each.names for each in self.hidden.hiding if each.keeps))

        def known(table: str) -> Collection[str]:
            if not self.hidden.takes(table):
                return ()
            ever = (name for each in (table, *lineages[table]) for name in self.ever.get(each, ()))
            return self._known_of(table).union(ever) - kept - frozenset(self.before.shown.get(table, ()))

        def hides(table: str, name: str) -> bool:
            if not self.hidden.takes(table):
                return False
            names = (table, *lineages.get(table, ()))
            return any(self.hidden.hides(each, name) for each in names) or name in known(table)

        watched = self.hidden.watched().union(*self.before.tables.values(), *self.ever.values()) - kept
        beside = Beside.of(self.before.beside, self.changes, watched, hides)
        self.beside = beside.remembered()
        return carried_of(self.hidden, self.columns, lineages, known, beside)

    def _tables(self) -> set[str]:
        named = (name for each in self.changes for name in (each.table, each.becomes))
        return {*self._names, *self.before.renamed, *(table for table, _ in self.columns), *named}

    def _lineage(self, table: str) -> set[str]:
        return {*self._names.get(table, ()), *self.before.renamed.get(table, ())}


def refuse_renamed(table: str, before: Collection[str], lacking: Collection[str], hidden: Hidden) -> None:
    """Refuse a table whose columns a transform hid under the table's former name, and does not hide under this one.

    Args:
        table: the table.
        before: names that it had.
        lacking: columns that were hidden then, and are not now.
        hidden: the transforms.

    Raises:
        TransformError: the values may go out in clear.
    """
    for old in sorted(before) if hidden.takes(table) else ():
        for hiding in hidden.hiding:
            names = sorted(hiding.names.intersection(lacking))
            if names and hiding.means(old) and not hiding.means(table):
                raise _renamed(table, old, ", ".join(names), hiding)


def in_clear(changes: FrameChanges, remembered: RememberedHidden) -> list[tuple[TableSchema, str, str]]:
    """Return definitions with a column that was hidden once and is not now, and its name in the stored rows.

    Args:
        changes: what the transforms leave.
        remembered: what was hidden.
    """
    found: list[tuple[TableSchema, str, str]] = []
    hidden = changes.hidden or Hidden()
    for schema in changes.tables:
        number, table = schema.schema_id, schema.full_name
        once = frozenset(remembered.tables.get(table, ())) - frozenset(remembered.shown.get(table, ()))
        if not hidden.takes(table):
            continue
        sources = hidden.sources.get(number, set())
        for each in changes.fields[number] if once else ():
            name = each.column.name.casefold()
            if each.source in sources or name in hidden.found.get(number, ()):
                continue
            stored = each.source if not each.source.startswith(ADDED) else next(iter(each.leaves()), "")
            found += [(schema, one, stored) for one in sorted({name, each.source.casefold()} & once) if stored]
    return found


def but_for_those_here(tables: Sequence[TableSchema], hidden: Hidden, before: HiddenByTable) -> HiddenByTable:
    """Return what was hidden before, without what some definition of the same table has in this batch.

    What is moved again may begin before a column was there: of one that comes the order in the batch counts alone.
    """
    here = hidden.by_table(tables)
    return {table: frozenset(names) - here.get(table, set()) for table, names in before.items()}


def _gone(schema: TableSchema, lost: Sequence[tuple[str, str]]) -> TransformError:
    names = list(dict.fromkeys(name for _, name in lost))
    labels = "; ".join(dict.fromkeys(what for what, _ in lost))
    now = ", ".join(column.name for column in schema.columns)
    former = "".join(f'"{schema.full_name}.{name}", ' for name in names).rstrip(" ")
    former = former if len(names) == 1 else former.rstrip(",")
    told = ", ".join(names)
    return TransformError(
        f"{labels}: {schema.full_name} has no column {told} any more, which was hidden in its earlier rows: the "
        "values may stand under another name; the batch is refused before any of it is written",
        hint=f"Columns of {schema.full_name} now: {now}. Name the new column, and add former=({former}): it is hidden "
        f"in rows of {schema.full_name} that still have it, and not missed there in others. Where {told} was dropped, "
        "former alone is enough.",
        code=GONE,
    )


def _renamed(table: str, old: str, names: str, hiding: Hiding) -> TransformError:
    return TransformError(
        f"{hiding.label}: {table} was {old}, in which it hides {names}, and its tables do not mean {table}: the values "
        "may go out in clear; the batch is refused before any of it is written",
        hint=f'Add "{table}" to tables={list(hiding.tables)}. Where the column has another name there: hide that by a '
        f'transform for {table}, with former=("{table}.{names.partition(",")[0]}",).',
        code=SHOWN,
    )


def shown(table: str, name: str, *, seen: bool) -> TransformError:
    """Return the error for a column that was hidden, would go out in clear, and is gone from its table since.

    Args:
        table: its `database.table`.
        name: the column.
        seen: whether the account would be shown the column if the table still had it.
    """
    what = "which the table has no longer" if seen else "of which this account is not shown whether it is still there"
    grant = "" if seen else f"Where the column is still there and is to be shown: GRANT SELECT on {table}. "
    return TransformError(
        f"{table} has a column {name} in these rows, which the flow hid until now and hides no more, and {what}: they "
        "may be rows from before it was renamed or dropped, and would show its values",
        hint=f"{grant}"
        f'Add former=("{table}.{name}",) to the transform that hides it under its new name, or that hid it: older '
        "rows are hidden by that. A flow of another name remembers nothing of this one.",
        code=SHOWN,
    )


def shown_of_former(table: str, name: str) -> TransformError:
    """Return the error for a column that was hidden, would go out in clear, and whose name went to another since."""
    return TransformError(
        f"{table} has a column {name} in these rows, which the flow hid until now and hides no more; a statement of "
        "the log gave its values another name: rows from before it would show them",
        hint=f"Keep {name} hidden, whatever stands under that name now: add "
        f'former=("{table}.{name}",) to the transform that hides it under its new name. A flow of another name '
        "remembers nothing of this one.",
        code=SHOWN,
    )
