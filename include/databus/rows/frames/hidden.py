"""Columns that transforms hide in each table: looked for, and found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from databus.core.tables.schemas import TableSchema

NewNames = tuple[tuple[str, ...], Mapping[str, str]]


@dataclass(frozen=True)
class Hiding:
    """A transform that hides columns.

    Attributes:
        label: what messages call it.
        tables: fnmatch patterns of the tables that it means.
        names: the columns that it looks for, in lower case.
        only_in: column → fnmatch pattern of the tables in which alone it is looked for.
        keeps: whether these columns are kept, and all others hidden.
        after: names that columns have got before it: patterns of tables, and names before and after, in lower case.
    """

    label: str
    tables: tuple[str, ...]
    names: frozenset[str]
    only_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keeps: bool = False
    after: tuple[NewNames, ...] = ()

    def means(self, table: str) -> bool:
        """Return whether a table of this name is meant."""
        return _matches(table, self.tables)

    def hides(self, table: str, column: str) -> bool:
        """Return whether a column of a table is hidden, if the table has one of this name in the stored rows."""
        if self.keeps or not self.means(table):
            return False
        name = column.casefold()
        for tables, names in self.after:
            name = names.get(name, name) if _matches(table, tables) else name
        return name in self.names and _matches(table, self.only_in.get(name, ("*",)))


def _every_table(_table: str) -> bool:
    return True


@dataclass
class Hidden:
    """Hidden columns that the transforms of a flow looked for in the tables of a batch.

    Attributes:
        missed: schema_id → column that was not found, in lower case → the transform and the name as it has it.
        found: schema_id → columns that were found, in lower case.
        sources: schema_id → the names that these have in the stored rows.
        concealed: the same of those that are not found to be kept.
        waived: schema_id → columns that were not found and are not missed, as `former` says → whether it says so of
            all tables.
        hiding: the transforms.
        new_names: names that transforms have given to columns so far.
        takes: where one sink looks at the rows: returns whether it takes a table. What others have hides nothing and
            shows nothing there, until one of them gets the name of a table that it takes.
    """

    missed: dict[int, dict[str, tuple[str, str]]] = field(default_factory=dict)
    found: dict[int, set[str]] = field(default_factory=dict)
    sources: dict[int, set[str]] = field(default_factory=dict)
    concealed: dict[int, set[str]] = field(default_factory=dict)
    waived: dict[int, dict[str, bool]] = field(default_factory=dict)
    hiding: list[Hiding] = field(default_factory=list)
    new_names: list[NewNames] = field(default_factory=list)
    takes: Callable[[str], bool] = _every_table

    def looks_for(
        self,
        label: str,
        tables: tuple[str, ...],
        names: Iterable[str],
        former: Iterable[tuple[str, str]] = (),
        *,
        keeps: bool = False,
    ) -> None:
        """Note a transform, whichever tables there are.

        Args:
            label: what messages call it.
            tables: patterns of the tables that it means.
            names: the columns that it looks for.
            former: further ones, each with the pattern of the tables in which it is looked for.
            keeps: whether these columns are kept, and all others hidden.
        """
        everywhere = frozenset(name.casefold() for name in names)
        only_in: dict[str, tuple[str, ...]] = {}
        for pattern, name in former:
            if name.casefold() not in everywhere:
                only_in[name.casefold()] = (*only_in.get(name.casefold(), ()), pattern)
        after = tuple(self.new_names)
        self.hiding.append(Hiding(label, tables, everywhere | only_in.keys(), only_in, keeps, after))

    def renames(self, tables: tuple[str, ...], names: Mapping[str, str]) -> None:
        """Note a transform that gives columns other names, before those that are noted behind it."""
        self.new_names.append((tables, {old.casefold(): new.casefold() for old, new in names.items()}))

    def hides(self, table: str, column: str) -> str:
        """Return what hides a column of a table, by the name that it has in the stored rows; "" where nothing does."""
        if not self.takes(table):
            return ""
        return next((each.label for each in self.hiding if each.hides(table, column)), "")

    def watched(self) -> set[str]:
        """Return the columns that are hidden in any table, in lower case, by all names that stored rows may have."""
        found: set[str] = set()
        for hiding in self.hiding:
            names = set() if hiding.keeps else set(hiding.names)
            for _, given in reversed(hiding.after):
                names |= {old for old, new in given.items() if new in names}
            found |= names
        return found

    def note(
        self,
        schema: TableSchema,
        what: str,
        *,
        found: Iterable[tuple[str, str]],
        missed: Iterable[str],
        waived: Mapping[str, bool],
        keeps: bool = False,
    ) -> None:
        """Note what a transform found and missed in a table.

        Args:
            schema: the table.
            what: the transform.
            found: columns that it hides, by the name that it looked for and the one in the stored rows.
            missed: columns that it would hide.
            waived: columns that it would hide and may miss, and whether that holds for all tables.
            keeps: whether it keeps what it finds, and hides all else.
        """
        number = schema.schema_id
        for name, source in found:
            self.found.setdefault(number, set()).add(name.casefold())
            self.sources.setdefault(number, set()).add(source)
            if not keeps:
                self.concealed.setdefault(number, set()).add(source)
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


def _matches(table: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(table, pattern) for pattern in patterns)
