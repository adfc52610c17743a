"""Hidden columns whose values may stand under a name that nothing hides, in rows that no run has looked at yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from databus.core.flow import Flow
from databus.core.flow_specs import TransformSpec
from databus.core.state.plan import SourcePlan
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import TableSchema
from databus.ops.quarantine.sample import HiddenColumnNames, hidden_names
from databus.ops.tables.wants import remembered_of, remembered_of_sinks
from databus.rows.frames.selection import EVERY_TABLE
from databus.runtime.context import Services
from databus.transforms.rename import RenameColumns
from databus.transforms.table_transform import ColumnsTransform, TableTransform


class LostNames:
    """Tables in which a hidden column is missing, or that have its values under another table's or column's name.

    Args:
        flow: the flow.
        services: where its memory of hidden columns is.
        from_checkpoint: whether the rows are read from the checkpoint on: then no table was renamed before them since a
            run looked at it.
    """

    def __init__(self, flow: Flow, services: Services, *, from_checkpoint: bool) -> None:
        of_sinks = remembered_of_sinks(flow, services)
        self._flow = flow
        self._chains: list[tuple[tuple[TransformSpec, ...], RememberedHidden]] = [
            (flow.transforms, remembered_of(flow, services)),
            *(
                ((*flow.transforms, *spec.transforms), of_sinks.get(spec.sink_name, RememberedHidden()))
                for spec in flow.sinks
                if spec.transforms
            ),
        ]
        self._renamed = set[str]()
        self._tables: tuple[TableSchema, ...] = ()
        everywhere = (name for transforms, _ in self._chains for name in _named(transforms))
        self.names_elsewhere = HiddenColumnNames(frozenset() if from_checkpoint else frozenset(everywhere))
        """Names that are hidden in some table: behind a place of somebody's choice it may have the name of another."""

    def note(self, planned: SourcePlan) -> None:
        """Take in what statements of a range rename, and the definitions of its tables."""
        self._tables = planned.tables
        for rename in planned.renamed:
            if rename.old in self._renamed or self._shows(rename.old, rename.new):
                self._renamed.add(rename.new)
        for table, pairs in planned.columns_renamed:
            hidden = hidden_names(self._flow, table)
            if any(hidden.hides(old.casefold()) and not hidden.hides(new.casefold()) for old, new in pairs):
                self._renamed.add(table)

    def any_in(self, table: str, row: Mapping[str, Any]) -> bool:
        """Return whether a row may have hidden values under a name that nothing hides.

        Args:
            table: `database.table`.
            row: as `databus.ops.runs.preview.peek` gives it.
        """
        if table in self._renamed:
            return True
        has = {name.casefold() for name in self._columns(table, row)}
        return any(
            _missing(transforms, table, frozenset(once.tables.get(table, ())), has) for transforms, once in self._chains
        )

    def _columns(self, table: str, row: Mapping[str, Any]) -> Iterator[str]:
        for image in (row.get("before"), row.get("after")):
            yield from image if isinstance(image, Mapping) else ()
        yield from row.get("absent") or ()
        number = row.get("schema_id", -1)
        if 0 <= number < len(self._tables) and self._tables[number].full_name == table:
            yield from (column.name for column in self._tables[number].columns)

    def _shows(self, old: str, new: str) -> bool:
        """Return whether something that is hidden in a table is not under its new name."""
        before, now = hidden_names(self._flow, old), hidden_names(self._flow, new)
        return any(not now.hides(name) for name in before.names) or before.kept not in (None, now.kept)


def _missing(transforms: Iterable[TransformSpec], table: str, once: frozenset[str], has: set[str]) -> bool:
    """Return whether a table lacks a column that is to be hidden in it, as a run refuses it.

    Args:
        transforms: in their order.
        table: `database.table`.
        once: columns that were hidden there.
        has: names of its columns, in lower case.
    """
    wanted, known, former = set[str](), set(has), set[str]()
    for spec in transforms:
        if not isinstance(spec, TableTransform) or not spec.applies_to(table):
            continue
        if isinstance(spec, RenameColumns):
            known |= {new.casefold() for old, new in spec.mapping.items() if old.casefold() in known}
        elif isinstance(spec, ColumnsTransform) and _hides(spec):
            names = {name.casefold() for name in spec.columns}
            wanted |= names if spec.tables != EVERY_TABLE else names & once
            former |= {name.rpartition(".")[2].casefold() for name in spec.former}
        else:
            known |= {name.casefold() for name in (*getattr(spec, "columns", ()), getattr(spec, "into", ""))}
    return bool(wanted - known - former)


def _named(transforms: Iterable[TransformSpec]) -> Iterator[str]:
    for spec in transforms:
        if isinstance(spec, ColumnsTransform) and _hides(spec):
            yield from (name.rpartition(".")[2].casefold() for name in (*spec.columns, *spec.former))


def _hides(spec: ColumnsTransform) -> bool:
    return spec.masking or spec.kind == "drop"
