"""A flow's definition as a person writes it: options by the names of a DAG file, durations as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from databus.core.flow import Flow
from databus.core.option_texts import exact_duration
from databus.core.spec import Spec
from databus.core.stored_options import stored_options

_MOST_ENTRIES = 10
"""Entries of a mapping, such as a Lookup's table, that are shown."""


def listed(flow: Flow, file: str) -> dict[str, str]:
    """Return a flow in a line of a list: its name, source, sinks and file."""
    return {
        "flow": flow.name,
        "source": f"{flow.source.kind} {', '.join(flow.source.datasets())}".strip(),
        "sinks": ", ".join(f"{s.kind} {' '.join(s.datasets())}".strip() for s in flow.sinks),
        "file": file,
    }


def as_written_by_people(spec: Spec) -> dict[str, Any]:
    """Return a spec's options as a DAG file names them, with its kind; for people, and not read back.

    Options that `to_json` leaves out are left out. A duration is text such as "6 h"; other values are plain JSON.
    """
    names = {how.name: how.option for how in stored_options(type(spec)).values()}
    found = {names.get(name, name): stored for name, stored in spec.to_json().items()}
    shown = {option: _shown(getattr(spec, option, stored), stored) for option, stored in found.items()}
    return {option: value for option, value in shown.items() if option != "kind" or value}


def _shown(value: Any, stored: Any) -> Any:
    if isinstance(value, Spec):
        return as_written_by_people(value)
    if isinstance(value, tuple) and value and all(isinstance(part, Spec) for part in value):
        return [as_written_by_people(part) for part in value]
    if isinstance(value, timedelta):
        return exact_duration(value)
    if isinstance(value, Mapping) and len(value) > _MOST_ENTRIES:
        some = dict(list(value.items())[:_MOST_ENTRIES])
        return {**some, "…": f"{len(value) - _MOST_ENTRIES} more"}
    if isinstance(value, str) and not isinstance(value, Enum):
        return value  # where the stored value is a former one
    return stored
