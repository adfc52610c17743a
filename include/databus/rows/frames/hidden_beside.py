"""Columns renamed in tables in which nothing is hidden, and which may take the place of one in which something is.

Tools that change a table online do so: they alter a copy, fill it, and let it take the table's name, hours later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from databus.core.tables.hidden_columns import HiddenByTable, column_pair, column_pair_text
from databus.core.tables.schemas import TableChange

Pairs = set[tuple[str, str]]
"""Names of columns: the one from before all statements, in lower case, and one that it got."""


@dataclass
class Beside:
    """Columns that statements renamed in tables in which nothing is hidden.

    Attributes:
        earlier: table → what statements of earlier ranges made of its columns.
        here: the same of statements of this range.
        taken: table of the flow → what it brought along of earlier ranges when it got its name.
        others: tables that are none of the flow's.
    """

    earlier: dict[str, Pairs] = field(default_factory=dict)
    here: dict[str, Pairs] = field(default_factory=dict)
    taken: dict[str, Pairs] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        known: HiddenByTable,
        changes: Sequence[TableChange],
        watched: Collection[str],
        hides: Callable[[str, str], bool],
    ) -> Beside:
        """Follow the statements of a range.

        Args:
            known: what is remembered of earlier ranges.
            changes: the statements.
            watched: columns that are hidden in any table.
            hides: returns whether a column of a table is hidden: the table's own rows decide what becomes of it.
        """
        beside = cls({table: set(map(column_pair, texts)) for table, texts in known.items()})
        for change in changes:
            if change.becomes and not change.captured:
                beside.others.add(change.becomes)
            own = hides if change.captured else _nothing
            beside._rename_columns(change, watched, own)
            if change.becomes != change.table:
                beside._rename(change, own)
        return beside

    def remembered(self) -> dict[str, frozenset[str]]:
        """Return what is to be remembered from here on, as `known` is."""
        tables = {table: self._of(table) for table in (*self.earlier, *self.here)}
        return {table: frozenset(column_pair_text(*pair) for pair in pairs) for table, pairs in tables.items() if pairs}

    def _of(self, table: str) -> Pairs:
        return self.earlier.get(table, set()) | self.here.get(table, set())

    def _rename_columns(self, change: TableChange, watched: Collection[str], own: Callable[[str, str], bool]) -> None:
        before = self._of(change.table)
        for old, new in change.columns:
            name = old.casefold()
            first = {origin for origin, got in before if got.casefold() == name}
            first |= {name} if not first and name in watched and not own(change.table, name) else set()
            self.here.setdefault(change.table, set()).update((origin, new) for origin in first)

    def _rename(self, change: TableChange, own: Callable[[str, str], bool]) -> None:
        brought = set(self.taken.get(change.table, ()))
        for part in (self.earlier, self.here):
            pairs = part.pop(change.table, set())
            if not change.becomes:
                continue
            brought |= pairs if part is self.earlier else set()
            left = {pair for pair in pairs if not own(change.becomes, pair[0])}
            part.setdefault(change.becomes, set()).update(left)
        if change.captured and brought:
            self.taken.setdefault(change.becomes, set()).update(brought)


def _nothing(_table: str, _column: str) -> bool:
    return False


def in_statements(taken: Mapping[str, Pairs]) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return what tables brought along, each as one statement would say it."""
    return [(table, tuple(sorted(pairs))) for table, pairs in taken.items()]
