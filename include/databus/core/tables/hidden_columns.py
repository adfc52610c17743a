"""Columns that a flow's transforms hide, by table, as they were found there: one that is gone may have another name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from databus.core.stored_form import Form

HIDDEN_COLUMNS = Form("hidden columns", "tables", "renamed shown moved", "beside")

HiddenByTable = Mapping[str, Collection[str]]
"""`database.table` → columns that were hidden there, as the transforms name them, in lower case."""

_BETWEEN = "\0"
"""Stands in no name of a column."""


@dataclass(frozen=True)
class RememberedHidden:
    """Hidden columns of a flow as they are remembered; but for `shown` and `beside` nothing of it is ever taken back.

    Attributes:
        tables: `database.table` → columns that were hidden there, or in a table that was renamed to it.
        renamed: `database.table` → names that it had before, where columns were hidden under these.
        shown: `database.table` → columns that were hidden there, and that the flow was changed to show.
        moved: `database.table` → names that hidden columns had there before statements gave them others; what has such
            a name later is another column.
        beside: `database.table`, mostly none of the flow's → columns that statements gave other names there, of those
            that are hidden in other tables: see `column_pair`.
    """

    tables: HiddenByTable = field(default_factory=dict)
    renamed: HiddenByTable = field(default_factory=dict)
    shown: HiddenByTable = field(default_factory=dict)
    moved: HiddenByTable = field(default_factory=dict)
    beside: HiddenByTable = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.parts().values())

    def parts(self) -> dict[str, HiddenByTable]:
        """Return its parts by name, as they are stored."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def with_added(self, more: RememberedHidden) -> RememberedHidden:
        """Return both together."""
        others = more.parts()
        return RememberedHidden(**{name: with_added(part, others[name]) for name, part in self.parts().items()})

    def without(self, known: RememberedHidden) -> RememberedHidden:
        """Return what is not known yet."""
        others = known.parts()
        return RememberedHidden(**{name: _without(part, others[name]) for name, part in self.parts().items()})

    def shared(self, other: RememberedHidden) -> RememberedHidden:
        """Return what both have."""
        return self.without(self.without(other))

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        stored = {name: _sorted(part) for name, part in self.parts().items() if part or name == "tables"}
        return HIDDEN_COLUMNS.write(stored)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RememberedHidden:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version.
        """
        values = HIDDEN_COLUMNS.read(data)
        return cls(**{each.name: with_added({}, values.get(each.name, {})) for each in fields(cls)})


NOTHING_GONE = RememberedHidden()


class HiddenColumns(Protocol):
    """Remembers it per flow, before the first rows of a table are dispatched."""

    def of_sink(self, sink: str) -> HiddenColumns:
        """Return what remembers it of a flow's sink that has transforms of its own, beside the flow's."""
        ...

    def load(self, flow: str) -> RememberedHidden:
        """Return what was added so far. Raises CheckpointError."""
        ...

    def add(self, flow: str, found: RememberedHidden, gone: RememberedHidden = NOTHING_GONE) -> None:
        """Add to it, and take some of it back; nothing else that others added is lost. Raises CheckpointError."""
        ...


def column_pair_text(old: str, new: str) -> str:
    """Return two names of a column as they are stored."""
    return f"{old}{_BETWEEN}{new}"


def column_pair(text: str) -> tuple[str, str]:
    """Return the name that a column had first, in lower case, and one that it got."""
    old, _, new = text.partition(_BETWEEN)
    return old, new


def with_added(before: HiddenByTable, found: HiddenByTable) -> dict[str, frozenset[str]]:
    """Return both together."""
    return {table: frozenset({*before.get(table, ()), *found.get(table, ())}) for table in {**before, **found}}


def _without(found: HiddenByTable, known: HiddenByTable) -> dict[str, frozenset[str]]:
    left = {table: frozenset(names) - frozenset(known.get(table, ())) for table, names in found.items()}
    return {table: names for table, names in left.items() if names}


def _sorted(hidden: HiddenByTable) -> dict[str, list[str]]:
    return {table: sorted(names) for table, names in sorted(hidden.items())}
