"""Views of a flow by sink: the flow as one sink has its rows, with the sink's own transforms behind the flow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import SerializeAsAny

from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec, TransformSpec
from databus.core.protocols.splits import Changes
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted

_KEPT = 64
_views: dict[tuple[int, int], tuple[Flow, SinkSpec, Flow]] = {}


class SinkTransform(TransformSpec):
    """Transform of one sink: rows of tables that the sink does not take pass it unchanged.

    Attributes:
        inner: the transform.
        sink: name of the sink.
        routes: patterns of the routes that the sink takes.
        routed_by: the flow's transforms, which choose routes.
    """

    inner: SerializeAsAny[TransformSpec]
    sink: str
    routes: tuple[str, ...]
    routed_by: tuple[SerializeAsAny[TransformSpec], ...]

    @property
    def kind(self) -> str:  # type: ignore[override] # messages name the inner one
        """Kind of the transform."""
        return self.inner.kind

    @property
    def by_table(self) -> bool:  # type: ignore[override]
        """True for a transform that looks at no value."""
        return self.inner.by_table

    @property
    def masking(self) -> bool:  # type: ignore[override]
        """True where the values that it replaces are hidden by that."""
        return self.inner.masking

    def apply(self, changes: Changes) -> Changes:
        """Return the changed rows."""
        return self._of_mine(self.inner.apply, changes)

    def reshape(self, changes: Changes) -> Changes:
        """Return the changes with other columns."""
        return self._of_mine(self.inner.reshape, changes)

    def columns_after(self, changes: Changes) -> Changes:
        """Return the changes with the columns that it leaves."""
        return self._of_mine(self.inner.columns_after, changes)

    def compilable(self) -> bool:
        """Return whether the direct lane may compile it."""
        return self.inner.compilable()

    def applies_to(self, table: str) -> bool:
        """Return whether it may change rows of a table; "" asks whether it may of all tables."""
        return self.inner.applies_to(table) and (self._takes(table) if table else "*" in self.routes)

    def wants(self) -> ColumnsWanted | None:
        """Return which columns it must find."""
        return self.inner.wants()

    def judges(self, changes: Changes, table: TableSchema) -> tuple[str, ...]:
        """Return the columns by whose values it leaves rows of a table out."""
        return self.inner.judges(changes, table) if self._takes(table.full_name) else ()

    def label(self) -> str:
        """Return the transform's."""
        return self.inner.label()

    def _of_mine(self, change: Callable[[Any], Any], changes: Any) -> Changes:
        if changes.hidden is not None:
            changes.hidden.takes = self._takes
        mine = tuple(table for table in changes.tables if self._takes(table.full_name))
        after = change(replace(changes, tables=mine))
        left = {table.schema_id: table for table in after.tables}
        found: Changes = replace(after, tables=tuple(left.get(t.schema_id, t) for t in changes.tables))
        return found

    def _takes(self, table: str) -> bool:
        routes: tuple[str, ...] = (table,)
        for each in self.routed_by:
            routes = tuple(dict.fromkeys(route for one in routes for route in each.all_routes(table, one)))
        return any(fnmatchcase(route, pattern) for route in routes for pattern in self.routes)


def seen_by(flow: Flow, spec: SinkSpec) -> Flow:
    """Return the flow with a sink's own transforms behind its own; the flow itself for a sink that has none.

    The same object for the same arguments, by which programs are cached.
    """
    if not spec.transforms:
        return flow
    known = _views.get((id(flow), id(spec)))
    if known is None or known[0] is not flow or known[1] is not spec:
        own = tuple(
            SinkTransform(inner=each, sink=spec.sink_name, routes=spec.routes, routed_by=flow.transforms)
            for each in spec.transforms
        )
        known = flow, spec, flow.model_copy(update={"transforms": (*flow.transforms, *own)})
        while len(_views) >= _KEPT:
            _views.pop(next(iter(_views)))
        _views[id(flow), id(spec)] = known
    return known[2]


def own_transforms(flow: Flow, spec: SinkSpec) -> tuple[TransformSpec, ...]:
    """Return a sink's own transforms, limited to the tables that it takes."""
    return seen_by(flow, spec).transforms[len(flow.transforms) :]


def views_of(flow: Flow) -> Iterator[Flow]:
    """Yield the flow, and its view by each sink that has transforms of its own."""
    yield flow
    yield from (seen_by(flow, spec) for spec in flow.sinks if spec.transforms)


def transforms_anywhere(flow: Flow) -> Iterator[TransformSpec]:
    """Yield the transforms of a flow, and those of its sinks."""
    yield from flow.transforms
    for spec in flow.sinks:
        yield from own_transforms(flow, spec)
