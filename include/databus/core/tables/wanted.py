"""Wanted tables of a flow, and what the source's server says of them now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from databus.core.stored_form import Form
from databus.core.tables.schemas import TableSchema

ACCEPTED_WANTS = Form("accepted wants", "wants")


@dataclass(frozen=True)
class ColumnsWanted:
    """The columns that a transform or check must find.

    Attributes:
        names: their names as the transforms before it leave them; case does not matter where that is unambiguous.
        tables: fnmatch patterns of `database.table`.
        in_every: whether each of these tables must have them; else it is enough that one has.
        at_source: whether they are looked for as the source names them, in that case.
    """

    names: tuple[str, ...]
    tables: tuple[str, ...]
    in_every: bool = True
    at_source: bool = False


@dataclass(frozen=True)
class TablesNow:
    """Tables as the source's server defines them now, of those that a flow captures.

    Attributes:
        place: the server, for messages.
        captured: the tables that the flow captures; `schema_id` is the index.
        known: `database.table` of all tables that the account can see.
        unmatched: patterns of the flow that no table matches, as far as the account can see.
        partly_shown: `database.table` of captured tables of which the account may be shown some columns only.
        tells: whether the account would see a table of this name or pattern if there were one.
    """

    place: str
    captured: tuple[TableSchema, ...]
    known: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    partly_shown: frozenset[str] = frozenset()
    tells: Callable[[str], bool] = field(default=lambda _: True, compare=False)


class AcceptedWants(Protocol):
    """Remembers per flow what it asks of its tables and was found once: it is not refused for that again."""

    def load(self, flow: str) -> frozenset[str] | None:
        """Return the wants that were found, None before the first comparison."""
        ...

    def keep(self, flow: str, wants: Collection[str]) -> None:
        """Replace them; the last of two that do so at once stands."""
        ...


def wants_to_json(wants: Collection[str]) -> dict[str, Any]:
    """Return versioned JSON."""
    return ACCEPTED_WANTS.write({"wants": sorted(wants)})


def wants_from_json(data: Mapping[str, Any]) -> frozenset[str]:
    """Read what `wants_to_json` wrote.

    Raises:
        CheckpointFormatError: another version.
    """
    return frozenset(ACCEPTED_WANTS.read(data)["wants"])
