"""Column lineage of a batch: the flow's transforms are asked what they make of the columns of its tables, without rows.

What a transform does not declare is unknown: nothing is concluded from its name or its code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from databus.checks.decodable import Decodable, RowFilterLacks
from databus.checks.row_check import RowCheck
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flow_specs import SinkSpec, TransformSpec
from databus.core.state.plan import SourcePlan
from databus.core.tables.column_lineage import ColumnStep, FieldLineage, TableLineage
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field, fields_of
from databus.runtime.check import row_checks
from databus.runtime.routing import outputs_of
from databus.runtime.tables.sink_views import own_transforms

log = logging.getLogger(__name__)


class ColumnLineage:
    """Column lineage of a flow's outputs; cached for the tables last seen, since batches repeat them."""

    def __init__(self) -> None:
        self._flow: Flow | None = None
        self._tables: tuple[TableSchema, ...] = ()
        self._found: tuple[TableLineage, ...] = ()

    def of(self, flow: Flow, planned: SourcePlan) -> tuple[TableLineage, ...]:
        """Return the lineage of a plan's tables, for all sinks; a table that no sink takes has none."""
        if self._flow is flow and self._tables == planned.tables:
            return self._found
        try:
            found = tuple(_lineage(flow, planned.tables))
        except Exception as error:  # of any user's transform: a batch that is committed does not fail for it
            unexpected = None if isinstance(error, DatabusError) else error
            log.warning("flow %s: no column lineage: %s", flow.name, error, exc_info=unexpected)
            found = ()
        self._flow, self._tables, self._found = flow, planned.tables, found
        return found


def _lineage(flow: Flow, tables: Sequence[TableSchema]) -> Iterator[TableLineage]:
    walk_of_flow = _Walk(flow, tables)
    for sink in flow.sinks:
        walk = _Walk(flow, tables, own_transforms(flow, sink)) if sink.transforms else walk_of_flow
        for table, route in outputs_of(flow, sink, tables):
            output = sink.output_of(table, route, flow.name)
            if output is None:
                continue
            if walk.unknown:
                yield TableLineage(table.full_name, sink.sink_name, output, unknown=walk.unknown)
            else:
                fields = tuple(dict.fromkeys(walk.fields(sink, table)))
                filters = tuple(dict.fromkeys(walk.filters[table.schema_id]))
                yield TableLineage(table.full_name, sink.sink_name, output, fields, filters)


_Path = tuple[str, tuple[ColumnStep, ...]]


class _Walk:
    """The columns of tables on their way through the transforms, with the steps that each column took."""

    def __init__(self, flow: Flow, tables: Sequence[TableSchema], own: Sequence[TransformSpec] = ()) -> None:
        self.unknown = ""
        self.filters: dict[int, list[FieldLineage]] = {t.schema_id: [] for t in tables}
        self._paths: dict[tuple[int, str], tuple[_Path, ...]] = {}
        self._changes = FrameChanges(None, tuple(tables), {t.schema_id: fields_of(t) for t in tables})
        for table in tables:
            for column, label in flow.source.row_filter_columns(table):
                self.filters[table.schema_id].append(FieldLineage("", column, (ColumnStep(label),)))
        if not self._through(flow.transforms, tables):
            return
        for check in row_checks(flow):
            # What a row filter is in want of was reported with the filter.
            if isinstance(check, RowCheck) and check.severity == "quarantine" and not isinstance(check, RowFilterLacks):
                # Decodable looks at columns of the source, the others at what the transforms leave.
                for table in tables if isinstance(check, Decodable) else self._changes.tables:
                    self._judged(f"check {check.check_name}", table, check.source_columns(self._changes, table))
        self._through(own, tables)

    def _through(self, transforms: Sequence[TransformSpec], tables: Sequence[TableSchema]) -> bool:
        """Follow the columns through transforms; return whether each says what it makes of them."""
        for spec in transforms:
            try:
                for table in tables:
                    self._judged(spec.label(), table, spec.judges(self._changes, table))
                after = spec.columns_after(self._changes)
            except NotImplementedError:
                self.unknown = f"transform {spec.label()!r} does not say which columns its values come from"
                return False
            self._rewritten(after, ColumnStep(spec.label(), spec.masking))  # type: ignore[arg-type] # the only one
            self._changes = after  # type: ignore[assignment]
        return True

    def fields(self, sink: SinkSpec, table: TableSchema) -> Iterator[FieldLineage]:
        """Yield the fields of a sink's output that come from a table, its record key's first."""
        key = self._changes.keys.get(table.schema_id)
        for name in table.primary_key if key is None else ():
            for shown, step in sink.key_fields(name):
                yield FieldLineage(shown, name, (ColumnStep(step),) if step else ())
        for field in key.fields if key is not None else ():
            for shown, step in sink.key_fields(field.column.name):
                for column, steps in self._paths_of(table.schema_id, field):
                    yield FieldLineage(shown, column, (*steps, *((ColumnStep(step),) if step else ())))
        for field in self._changes.fields[table.schema_id]:
            for shown in sink.image_fields(field.column.name):
                for column, steps in self._paths_of(table.schema_id, field):
                    yield FieldLineage(shown, column, steps)

    def _judged(self, label: str, table: TableSchema, columns: tuple[str, ...]) -> None:
        self.filters[table.schema_id] += [FieldLineage("", name, (ColumnStep(label),)) for name in columns]

    def _paths_of(self, number: int, field: Field) -> tuple[_Path, ...]:
        """Return (column at the source, steps) of each column that a value comes from."""
        return self._paths.get((number, field.source), ((field.source, ()),))

    def _rewritten(self, after: FrameChanges, step: ColumnStep) -> None:
        for number, fields in after.fields.items():
            before = {field.source: field for field in self._changes.fields[number]}
            found: dict[tuple[int, str], tuple[_Path, ...]] = {}
            for field in fields:
                former = before.get(field.source)
                if former is not None and (field.rewrites, field.computed) == (former.rewrites, former.computed):
                    continue
                comes_from = [field]
                if field.computed is not None and (former is None or field.computed != former.computed):
                    comes_from = list(field.computed.inputs.values())
                paths = dict.fromkeys(path for each in comes_from for path in self._paths_of(number, each))
                found[number, field.source] = tuple((column, (*steps, step)) for column, steps in paths)
            self._paths.update(found)


def written_tables(flow: Flow, tables: Sequence[TableSchema], *, compared: bool = False) -> tuple[TableSchema, ...]:
    """Return the tables as the transforms leave them; without columns where a transform does not declare them.

    The primary key stays the source's: it is that of the record.

    Args:
        flow: the flow.
        tables: as the source reads them.
        compared: whether a comparison reports missing columns, so that nothing is logged of them.
    """
    if not flow.transforms:
        return tuple(tables)
    changes = FrameChanges(
        None, tuple(tables), {table.schema_id: fields_of(table) for table in tables}, compared=compared
    )
    try:
        for spec in flow.transforms:
            changes = spec.columns_after(changes)  # type: ignore[assignment] # the only implementation
    except Exception as error:  # noqa: BLE001 - of any user's transform; where it matters, reading raises it again
        log.debug("flow %s: columns behind the transforms are not known: %s", flow.name, error)
        return tuple(replace(table, columns=()) for table in tables)
    return tuple(
        replace(table, columns=tuple(field.column for field in changes.fields[table.schema_id])) for table in tables
    )
