"""Columns that transforms hide in each table: looked for, and found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from databus.core.tables import TableSchema


@dataclass(frozen=True)
class Hiding:
    """A transform that hides columns.

    Attributes:
        label: what messages call it.
        tables: fnmatch patterns of the tables that it means.
        names: the columns that it looks for, in lower case.
    """

    label: str
    tables: tuple[str, ...]
    names: frozenset[str]

    def means(self, table: str) -> bool:
        """Tell whether a table of this name is meant."""
        return any(fnmatchcase(table, pattern) for pattern in self.tables)


@dataclass
class Hidden:
    """What the transforms of a flow looked for in the tables of a batch so as to hide it.

    Attributes:
        missed: schema_id → column that was not found, in lower case → the transform and the name as it has it.
        found: schema_id → columns that were found, in lower case.
        sources: schema_id → the names that these have in the stored rows.
        waived: schema_id → columns that were not found and are not missed, as `former` says → whether it says so of
            all tables.
        hiding: the transforms.
    """

    missed: dict[int, dict[str, tuple[str, str]]] = field(default_factory=dict)
    found: dict[int, set[str]] = field(default_factory=dict)
    sources: dict[int, set[str]] = field(default_factory=dict)
    waived: dict[int, dict[str, bool]] = field(default_factory=dict)
    hiding: list[Hiding] = field(default_factory=list)

    def looks_for(self, label: str, tables: tuple[str, ...], names: Iterable[str]) -> None:
        """Note a transform, whichever tables there are."""
        self.hiding.append(Hiding(label, tables, frozenset(name.casefold() for name in names)))

    def note(
        self,
        schema: TableSchema,
        what: str,
        *,
        found: Iterable[tuple[str, str]],
        missed: Iterable[str],
        waived: Mapping[str, bool],
    ) -> None:
        """Note what a transform found and missed in a table.

        Args:
            schema: the table.
            what: the transform.
            found: columns that it hides, by the name that it looked for and the one in the stored rows.
            missed: columns that it would hide.
            waived: columns that it would hide and is told not to miss, and whether it is told so of all tables.
        """
        number = schema.schema_id
        for name, source in found:
            self.found.setdefault(number, set()).add(name.casefold())
            self.sources.setdefault(number, set()).add(source)
        lacking = self.missed.setdefault(number, {})
        for name in missed:
            lacking.setdefault(name.casefold(), (what, name))
        self.waived.setdefault(number, {}).update(
            (name.casefold(), all_of_them) for name, all_of_them in waived.items()
        )

    def by_table(self, tables: Sequence[TableSchema]) -> dict[str, set[str]]:
        """Return `database.table` → columns that are hidden in any of its definitions."""
        hidden: dict[str, set[str]] = {}
        for schema in tables:
            if names := self.found.get(schema.schema_id):
                hidden.setdefault(schema.full_name, set()).update(names)
        return hidden
