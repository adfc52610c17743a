"""Columns that a flow's transforms hide, by table, as they were found there: one that is gone may have another name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from databus.core.stored_form import Form

HIDDEN_COLUMNS = Form("hidden columns", "tables")

HiddenByTable = Mapping[str, Collection[str]]
"""`database.table` → columns that were hidden there, as the transforms name them, in lower case."""


class HiddenColumns(Protocol):
    """Remembers it per flow, before the first rows of a table are dispatched."""

    def load(self, flow: str) -> Mapping[str, frozenset[str]]:
        """Return what was added so far. Raises CheckpointError."""
        ...

    def add(self, flow: str, found: HiddenByTable) -> None:
        """Add to it; nothing of what others added is lost. Raises CheckpointError."""
        ...


def with_added(before: HiddenByTable, found: HiddenByTable) -> dict[str, frozenset[str]]:
    """Return both together."""
    return {table: frozenset({*before.get(table, ()), *found.get(table, ())}) for table in {**before, **found}}


def hidden_to_json(hidden: HiddenByTable) -> dict[str, Any]:
    """Return versioned JSON."""
    return HIDDEN_COLUMNS.write({"tables": {table: sorted(columns) for table, columns in sorted(hidden.items())}})


def hidden_from_json(data: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Read what `hidden_to_json` wrote.

    Raises:
        CheckpointFormatError: another version.
    """
    return {table: frozenset(columns) for table, columns in HIDDEN_COLUMNS.read(data)["tables"].items()}
