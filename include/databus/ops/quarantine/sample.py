"""Rows of the quarantine for a page: values that the flow hides now are hidden, long ones are cut.

What is held went through the transforms that the flow had then. One that hides more today is obeyed here as well: a
column that was masked after a leak does not stay readable in the quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from databus.core.batches.receipts import CHECK
from databus.core.batches.refusals import kind_of_cause
from databus.core.flow import Flow
from databus.core.flow_specs import TransformSpec
from databus.ops.quarantine.exact_json import ExactNumber, dumps, loads, number
from databus.records.quarantine.causes import SampledRow
from databus.records.quarantine.rows import HeldRows, Selection
from databus.runtime.routing import routes_named, takes
from databus.transforms.project import Project
from databus.transforms.rename import RenameColumns
from databus.transforms.table_transform import ColumnsTransform, TableTransform

HIDDEN = "***"
MOST_CHARS = 4096
"""Longest text that a page shows of one value."""

_BEFORE_AND_AFTER = ("before", "after")
_DATA_AND_OLD = ("data", "old")
_MEMBERS_BESIDE = {"database", "table", "type", "data"}
"""Members of Maxwell's and Canal's forms."""


@dataclass(frozen=True)
class HiddenColumnNames:
    """Columns of one table that a flow hides now.

    Attributes:
        names: hidden by name, in lower case.
        kept: the only ones that are shown, in lower case; None where no `Project` says so.
    """

    names: frozenset[str] = frozenset()
    kept: frozenset[str] | None = field(default=None)

    def __bool__(self) -> bool:
        return bool(self.names) or self.kept is not None

    def hides(self, name: str) -> bool:
        """Return whether a column is hidden, by its name in lower case."""
        return name in self.names or (self.kept is not None and name not in self.kept)


def hidden_names(flow: Flow, table: str, stage: str = CHECK) -> HiddenColumnNames:
    """Return what a flow hides in a table, under each name that the columns have in the images of a stage.

    A sink's rows are hidden by the flow's transforms and by its own. Rows that a check holds go to all sinks: what each
    sink that takes the table hides is hidden in them.

    Args:
        flow: the flow.
        table: `database.table`.
        stage: "check", or the name of a sink.
    """
    routes = routes_named(flow, table)
    mine = [spec for spec in flow.sinks if spec.sink_name == stage]
    taking = mine or [spec for spec in flow.sinks if any(takes(spec, route) for route in routes)]
    hidden = [_hidden_by((*flow.transforms, *spec.transforms), table) for spec in taking]
    return reduce(_in_both, hidden) if hidden else _hidden_by(flow.transforms, table)


def by_shown_cause(flow: Flow, rows: HeldRows, wanted: Selection) -> Selection:
    """Return a selection that compares causes as they are shown: else a hidden value is found by guessing parts of it.

    Args:
        flow: the flow.
        rows: its quarantine.
        wanted: the rows that are asked for.
    """
    if wanted.cause is None:
        return wanted
    kinds_alone: dict[str, set[str]] = {}
    for stage, table in rows.places():
        if hidden_names(flow, table, stage):
            kinds_alone.setdefault(stage, set()).add(table)
    return replace(wanted, kinds_alone=kinds_alone)


def _hidden_by(transforms: Iterable[TransformSpec], table: str) -> HiddenColumnNames:
    names, kept, former_of = set[str](), None, dict[str, str]()
    for spec in transforms:
        if not isinstance(spec, TableTransform) or not spec.applies_to(table):
            continue
        if isinstance(spec, Project):
            kept = {name.casefold() for name in spec.columns}
            kept |= {former_of[name] for name in kept & former_of.keys()}
        elif isinstance(spec, RenameColumns):
            new = {old.casefold(): name.casefold() for old, name in spec.mapping.items()}
            names |= {new[name] for name in names & new.keys()}
            kept = None if kept is None else kept | {name for old, name in new.items() if old in kept}
            former_of |= {name: former_of.get(old, old) for old, name in new.items()}
        elif isinstance(spec, ColumnsTransform) and (spec.masking or spec.kind == "drop"):
            former = {name.rpartition(".")[2] for name in spec.former}
            hidden = {name.casefold() for name in (*spec.columns, *former)}
            # A transform behind the renaming may have held the row: its image has the name from before.
            names |= hidden | {former_of[name] for name in hidden & former_of.keys()}
        elif kept is not None:
            added = getattr(spec, "columns", ())
            kept |= {name.casefold() for name in (*added, getattr(spec, "into", ""))}
    return HiddenColumnNames(frozenset(names), None if kept is None else frozenset(kept))


def _in_both(one: HiddenColumnNames, other: HiddenColumnNames) -> HiddenColumnNames:
    names = frozenset(name for name in one.names | other.names if one.hides(name) and other.hides(name))
    kept = None if one.kept is None or other.kept is None else one.kept | other.kept
    return HiddenColumnNames(names, kept)


def shown_row(row: SampledRow, hidden: HiddenColumnNames) -> dict[str, Any]:
    """Return a row as plain JSON; `payload` is null where it is too long to be shown, and `payload_chars` says so."""
    return {
        **{name: getattr(row, name) for name in ("event_id", "stage", "batch", "table", "cause", "position")},
        "cause": _cut(shown_cause(row, hidden)),
        "key": shown_key(row.key, hidden),
        "state": str(row.state),
        "who": row.who or None,
        "why": row.why or None,
        "held_at": row.held_at.isoformat(),
        "payload": None if row.payload is None else _cut(shown_payload(row.payload, hidden)),
        "payload_chars": row.payload_chars,
    }


def shown_payload(payload: str, hidden: HiddenColumnNames) -> Any:
    """Return a payload with what is hidden replaced, numbers as `ExactNumber`.

    One that is no JSON is hidden whole where anything is hidden, and so are the bytes of Avro and Protobuf.
    """
    try:
        found = loads(payload)
    except ValueError:
        return HIDDEN if hidden else payload
    return _without(found, hidden) if hidden else found


def shown_cause(row: SampledRow, hidden: HiddenColumnNames) -> str:
    """Return a row's cause; only its kind where anything is hidden: servers quote ids and values."""
    return kind_of_cause(row.stage, row.cause) if hidden else row.cause


def shown_key(key: str | None, hidden: HiddenColumnNames) -> str | None:
    """Return a row's key; a column that is hidden by name is replaced in it. A `Project` leaves keys as they are."""
    if key is None or not hidden.names:
        return key
    try:
        return dumps(_nested(loads(key), hidden))
    except ValueError:
        return HIDDEN


def _without(found: Any, hidden: HiddenColumnNames) -> Any:
    if not isinstance(found, Mapping):
        return _nested(found, hidden)
    if found.keys() == {"format", "base64"}:
        return {**found, "base64": HIDDEN}
    if found.keys() == {"schema", "payload"} and isinstance(found["payload"], Mapping):
        return {"schema": found["schema"], "payload": _without(found["payload"], hidden)}
    return _nested(found if hidden.kept is None else _kept(found, hidden.kept), hidden)


def _kept(found: Mapping[str, Any], kept: frozenset[str]) -> Any:
    """Return a row with the columns that a `Project` keeps, in any form; a table that has none of them passes whole."""
    members = _images(found)
    images = [each for name in members for each in _each(found.get(name))] if members else [found]
    # An image may have few of the columns, as Maxwell's `old` has: what the table has stands in all of them.
    if not any(name.casefold() in kept for image in images for name in image):
        return found
    if not members:
        return _image(found, kept)
    return {name: _image(value, kept) if name in members else value for name, value in found.items()}


def _images(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members that hold images of the row; none in a form whose members are its columns."""
    if any(isinstance(found.get(name), Mapping) for name in _BEFORE_AND_AFTER):
        return _BEFORE_AND_AFTER
    return _DATA_AND_OLD if found.keys() >= _MEMBERS_BESIDE and any(_each(found["data"])) else ()


def _each(found: Any) -> list[Mapping[str, Any]]:
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, Mapping)]


def _image(found: Any, kept: frozenset[str]) -> Any:
    if isinstance(found, list):
        return [_image(each, kept) for each in found]
    if not isinstance(found, Mapping):
        return found
    return {name: value if name.casefold() in kept else HIDDEN for name, value in found.items()}


def _nested(found: Any, hidden: HiddenColumnNames) -> Any:
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
    if isinstance(found, ExactNumber):
        return number(found)
    if isinstance(found, str) and len(found) > MOST_CHARS:
        return f"{found[:MOST_CHARS]}… ({len(found)} characters)"
    if isinstance(found, Mapping):
        return {name: _cut(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_cut(value) for value in found]
    return found
