"""State of an index: owner, key, tables and fields, read from its mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from databus.sinks.elasticsearch import index_tables as tables

META = "databus"
"""Key of what we keep in the mapping's `_meta`."""


@dataclass
class IndexState:
    """Owner, key, tables and fields of an index, as its mapping and the mapping's `_meta` have them.

    Attributes:
        owner: the table it was made for; None where tables share it, or something else made it.
        key: names of the owner's key columns; empty where they are not known.
        keys: further key columns of which ids were made: columns got other names, or another key was accepted.
        forms: of `key` and of each of `keys`, how the columns' values are written; empty, or shorter, where that is
            not known.
        former: how many of `key` and `keys`, from the first, are not of the present ids, but of those before the last
            other key that was accepted; 0 where an earlier databus wrote them.
        since: version from which these are another key; 0 without any.
        places: of `key` and of each of `keys`, version of the place where columns were called so; empty, or shorter,
            where that is not known, which means before all that is known.
        moved: version of each statement that gave names of key columns to others, and these before and behind.
        emptied: table → greatest version of a statement that emptied it.
        tables: those that are known to write to it, where neither owner nor ids show them.
        typed: whether its mapping was made of a table's columns.
        fields: field → mapping.
        dynamic: the mapping's `dynamic`, "" where it says none.
    """

    owner: str | None = None
    key: tuple[str, ...] = ()
    emptied: dict[str, int] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()
    typed: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    dynamic: str = ""
    keys: tuple[tuple[str, ...], ...] = ()
    former: int = 0
    since: int = 0
    forms: tuple[tuple[str, ...], ...] = ()
    places: tuple[int, ...] = ()
    moved: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Return the state that the mappings of an index, or of those behind an alias, hold.

        Args:
            found: the answer of the mapping API.
        """
        state = cls()
        for mappings in (concrete.get("mappings", {}) for concrete in found.values()):
            ours = mappings.get("_meta", {}).get(META, {})
            if ours and state.owner is None:
                state.owner, state.key = ours.get("table"), tuple(ours.get("key", ()))
                state.tables = frozenset(ours.get("tables", ()))
                state.keys = tuple(tuple(each) for each in ours.get("keys", ()))
                state.forms = tuple(tuple(each) for each in ours.get("forms", ()))
                state.places = tuple(map(int, ours.get("at", ())))
                state.moved = tuple((int(at), tuple(map(tuple, of))) for at, of in ours.get("moved", ()))
                state.former, state.since = int(ours.get("former", 0)), int(ours.get("since", 0))
                state.emptied, state.typed = dict(ours.get("emptied", {})), bool(ours.get("typed"))
            said = tables.IndexTables.of(mappings.get("properties", {}))
            state.tables |= said.writers
            for table, version in said.emptied.items():
                state.emptied[table] = max(version, state.emptied.get(table, 0))
            state.fields = {**state.fields, **mappings.get("properties", {})}
            state.dynamic = state.dynamic or str(mappings.get("dynamic", ""))
        return state
