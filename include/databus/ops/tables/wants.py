"""Table wants of a flow, each found there once or not (ADR 50), and what earlier runs left of them and hid.

A want keeps its name through upgrades: it is made of kinds, column names and table patterns alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from databus.checks.decodable import RowFilterLacks
from databus.checks.expected import row_rule
from databus.core.flow import Flow
from databus.core.flow_specs import CheckSpec, TransformSpec
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.selection import EVERY_TABLE
from databus.runtime.check import row_checks
from databus.runtime.context import Services
from databus.runtime.tables.sink_views import transforms_anywhere

_COLUMNS = frozenset({"column", "column_A", "column_B", "column_list", "column_set"})
"""Arguments of expectations that name columns."""


@dataclass(frozen=True)
class ColumnRequirement:
    """A transform or check, and the columns it wants; `told` where the source itself reports a missing one."""

    label: str
    want: str
    columns: ColumnsWanted
    told: bool = False


def wants_of(flow: Flow) -> frozenset[str]:
    """Return what a flow asks of its tables, in a form that an upgrade does not change."""
    asked = (*(asked_by(spec) for spec in transforms_anywhere(flow)), *asked_by_checks(flow))
    return frozenset(
        [
            *(table_want(pattern) for pattern in flow.source.datasets()),
            *(each.want for each in asked if each is not None),
            *(want("key", spec.sink_name) for spec in flow.sinks if spec.needs_key),
            row_filters_want(flow),
        ]
    )


def asked_by_checks(flow: Flow) -> Iterator[ColumnRequirement]:
    """Yield what checks want, and expectations that are judged over the rows of a run."""
    for check in (*row_checks(flow), *(each for each in flow.checks if not each.looks_at_rows)):
        asked = asked_by(check)
        if asked is not None:
            yield replace(asked, told=isinstance(check, RowFilterLacks))
    for expectation in flow.expectations:
        if row_rule(expectation) is None:
            given = [value for name, value in expectation.kwargs.items() if name in _COLUMNS]
            names = [name for value in given for name in ([value] if isinstance(value, str) else value)]
            columns = ColumnsWanted(tuple(names), expectation.tables or EVERY_TABLE, in_every=False)
            wanted = want("expectation", expectation.type, *columns.names, "@", *columns.tables)
            yield ColumnRequirement(f"expectation {expectation.name}", wanted, columns)


def asked_by(spec: TransformSpec | CheckSpec) -> ColumnRequirement | None:
    """Return what a transform or check wants, None where it does not say."""
    columns = spec.wants()
    if columns is None:
        return None
    kind = "check" if isinstance(spec, CheckSpec) else "transform"
    wanted = want(kind, spec.kind, *columns.names, "@", *columns.tables)
    return ColumnRequirement(f"{kind} {spec.label()}", wanted, columns)


def table_want(pattern: str) -> str:
    """Return the want of a pattern of the source."""
    return want("table", pattern)


def row_filters_want(flow: Flow) -> str:
    """Return the want of the source's row filters."""
    return want("row filters", json.dumps(flow.source.to_json().get("row_filters"), sort_keys=True))


def want(*parts: str) -> str:
    """Return a want by its parts, in 16 hex digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def accepted_of(flow: Flow, services: Services) -> frozenset[str]:
    """Return the wants of a flow that are not refused any more; all of them for one that ran before these were kept."""
    accepted = services.accepted.load(flow.name) if services.accepted is not None else None
    if accepted is None and services.store.load(flow.name) is not None:
        return wants_of(flow)
    return accepted or frozenset()


def remembered_of(flow: Flow, services: Services) -> RememberedHidden:
    """Return what a flow remembers of the columns that its transforms hide."""
    return services.hidden_columns.load(flow.name) if services.hidden_columns is not None else RememberedHidden()


def remembered_of_sinks(flow: Flow, services: Services) -> Mapping[str, RememberedHidden]:
    """Return sink → what is remembered of the columns that its transforms hide, of each that has some of its own."""
    hidden = services.hidden_columns
    own = [spec.sink_name for spec in flow.sinks if spec.transforms]
    return {sink: hidden.of_sink(sink).load(flow.name) for sink in own} if hidden is not None else {}
