"""Rows of the quarantine for a page: values that the flow hides now are hidden, long ones are cut.

What is held went through the transforms that the flow had then. One that hides more today is obeyed here as well: a
column that was masked after a leak does not stay readable in the quarantine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from databus.core.flow import Flow
from databus.records.quarantine_causes import SampledRow
from databus.transforms.project import Project
from databus.transforms.rename import RenameColumns
from databus.transforms.table_transform import ColumnsTransform, TableTransform

HIDDEN = "***"
MOST_CHARS = 4096
"""Longest text that a page shows of one value."""

_IMAGES = ("before", "after")


@dataclass(frozen=True)
class HiddenNames:
    """Columns of one table that a flow hides now.

    Attributes:
        names: hidden by name, in lower case.
        kept: the only ones that are shown, in lower case; None where no `Project` says so.
    """

    names: frozenset[str] = frozenset()
    kept: frozenset[str] | None = field(default=None)

    def __bool__(self) -> bool:
        return bool(self.names) or self.kept is not None


def hidden_names(flow: Flow, table: str) -> HiddenNames:
    """Return what the transforms of a flow hide in a table, under the names that columns have behind them.

    Args:
        flow: the flow.
        table: `database.table`.
    """
    names, kept = set[str](), None
    for spec in flow.transforms:
        if not isinstance(spec, TableTransform) or not spec.applies_to(table):
            continue
        if isinstance(spec, Project):
            kept = {name.casefold() for name in spec.columns}
        elif isinstance(spec, RenameColumns):
            new = {old.casefold(): name.casefold() for old, name in spec.mapping.items()}
            names |= {new[name] for name in names & new.keys()}
            kept = None if kept is None else kept | {name for old, name in new.items() if old in kept}
        elif isinstance(spec, ColumnsTransform) and (spec.masking or spec.kind == "drop"):
            former = {name.rpartition(".")[2] for name in spec.former}
            names |= {name.casefold() for name in (*spec.columns, *former)}
        elif kept is not None:
            added = getattr(spec, "columns", ())
            kept |= {name.casefold() for name in (*added, getattr(spec, "into", ""))}
    return HiddenNames(frozenset(names), None if kept is None else frozenset(kept))


def shown_row(row: SampledRow, hidden: HiddenNames) -> dict[str, Any]:
    """Return a row as plain JSON; `payload` is null where it is too long to be shown, and `payload_chars` says so."""
    return {
        **{name: getattr(row, name) for name in ("event_id", "stage", "batch", "table", "cause", "position")},
        "cause": _cut(row.cause),
        "key": shown_key(row.key, hidden),
        "state": str(row.state),
        "who": row.who or None,
        "why": row.why or None,
        "held_at": row.held_at.isoformat(),
        "payload": None if row.payload is None else _cut(shown_payload(row.payload, hidden)),
        "payload_chars": row.payload_chars,
    }


def shown_payload(payload: str, hidden: HiddenNames) -> Any:
    """Return a payload with what is hidden replaced; one that is no JSON is hidden whole where anything is hidden."""
    try:
        found = json.loads(payload)
    except ValueError:
        return HIDDEN if hidden else payload
    return _without(found, hidden) if hidden else found


def shown_key(key: str | None, hidden: HiddenNames) -> str | None:
    """Return a row's key; a column that is hidden by name is replaced in it. A `Project` leaves keys as they are."""
    if key is None or not hidden.names:
        return key
    named = HiddenNames(hidden.names)
    try:
        return json.dumps(_without(json.loads(key), named), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return HIDDEN


def _without(found: Any, hidden: HiddenNames) -> Any:
    if not isinstance(found, Mapping):
        return _nested(found, hidden)
    if hidden.kept is not None and any(isinstance(found.get(image), Mapping) for image in _IMAGES):
        shown = {name: _image(value, hidden) if name in _IMAGES else value for name, value in found.items()}
        return _nested(shown, hidden)
    return _nested(found if hidden.kept is None else _image(found, hidden), hidden)


def _image(found: Any, hidden: HiddenNames) -> Any:
    """Return an image with the columns that a `Project` keeps; a table that has none of them passes it whole."""
    if not isinstance(found, Mapping) or hidden.kept is None:
        return found
    if not any(name.casefold() in hidden.kept for name in found):
        return found
    return {name: value if name.casefold() in hidden.kept else HIDDEN for name, value in found.items()}


def _nested(found: Any, hidden: HiddenNames) -> Any:
    """Replace what is hidden by name at any depth: a column may hold JSON with members of that name."""
    if isinstance(found, Mapping):
        return {
            name: HIDDEN if name.casefold() in hidden.names and value is not None else _nested(value, hidden)
            for name, value in found.items()
        }
    if isinstance(found, list):
        return [_nested(value, hidden) for value in found]
    return found


def _cut(found: Any) -> Any:
    if isinstance(found, str) and len(found) > MOST_CHARS:
        return f"{found[:MOST_CHARS]}… ({len(found)} characters)"
    if isinstance(found, Mapping):
        return {name: _cut(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_cut(value) for value in found]
    return found
