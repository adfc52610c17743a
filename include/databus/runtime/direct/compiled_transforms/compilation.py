"""Compilation of a flow's transforms for decoded columns: the direct and live lanes apply them where rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch, Transactions
from databus.core.tables.schemas import TableSchema
from databus.expressions.errors import NotCompiledError
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import ADDED
from databus.rows.frames.holding import Failure, FlaggedInput, Holding
from databus.rows.frames.leaving import Condition
from databus.rows.frames.placing import Placing, Unplacing
from databus.rows.row_program import FatedRows
from databus.runtime.direct.compiled_transforms.batch_images import BatchImages
from databus.runtime.direct.compiled_transforms.column_compiler import ColumnCompiler, presence_of
from databus.runtime.direct.compiled_transforms.column_programs import ShownColumn
from databus.runtime.direct.compiled_transforms.placing_compiler import table_placing
from databus.runtime.direct.compiled_transforms.row_fates import TableCondition, TableStep, TableUnplacing, judged
from databus.runtime.direct.compiled_transforms.row_holding import Failing, FlaggedInputs, TableHolding
from databus.runtime.direct.compiled_transforms.row_places import TablePlacing
from databus.runtime.direct.compiled_transforms.stored_values import refuse_far_times


@dataclass(frozen=True)
class TableProgram:
    """Program of one table.

    Attributes:
        steps: filters, what else holds rows back, and choices of routes and keys, in order.
        columns: those whose values are replaced or computed.
    """

    steps: tuple[TableStep, ...]
    columns: tuple[ShownColumn, ...]


@dataclass(frozen=True)
class CompiledRows:
    """Compiled transforms of a flow (`RowProgram`).

    Attributes:
        tables: schema_id → its program; tables that are not named keep all rows as they are.
    """

    tables: Mapping[int, TableProgram]

    @property
    def places(self) -> bool:
        """Flag of a program that chooses routes or keys of rows of some table by value; see `RowProgram`."""
        return any(isinstance(step, TablePlacing) for table in self.tables.values() for step in table.steps)

    def judged(self, batch: TableBatch, transactions: Transactions, rows: FatedRows) -> FatedRows:
        """Return the rows after all filters; see `RowProgram`."""
        table = self.tables.get(batch.schema.schema_id)
        if table is None or not table.steps:
            return rows
        return judged(table.steps, BatchImages(batch, transactions), rows)

    def shown(self, batch: TableBatch, transactions: Transactions) -> TableBatch:
        """Return the batch with the values that transforms replaced and computed; see `RowProgram`."""
        table = self.tables.get(batch.schema.schema_id)
        if table is None or not table.columns:
            return batch
        images = BatchImages(batch, transactions)
        arrays, columns, exceptions = batch.images.columns, list(batch.schema.columns), dict(batch.exceptions)
        sets = list(batch.presence_sets)
        for shown in table.columns:
            values = images.values(shown.program)
            refuse_far_times(values, shown.column.name.lstrip(ADDED))
            if shown.added:
                arrays.append(values)
                columns.append(shown.column)
                carried = images.carried_sets(shown.program)
                sets = [np.append(each, more) for each, more in zip(sets, carried, strict=True)]
            else:
                place = images.place(shown.column.name)
                arrays[place], columns[place] = values, shown.column
                exceptions.pop(place, None)
        return replace(
            batch,
            schema=replace(batch.schema, columns=tuple(columns)),
            images=pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns]),
            presence_sets=tuple(sets),
            exceptions=exceptions,
        )


def table_program(changes: FrameChanges, stored: TableSchema) -> TableProgram | None:
    """Return the program of one table, None where it keeps all rows and values as they are.

    Args:
        changes: the columns and steps as the transforms leave them.
        stored: the table as the source has it.

    Raises:
        NotCompiledError: with what of the flow is not compiled.
    """
    number = stored.schema_id
    compiler = ColumnCompiler(stored)
    steps: list[TableStep] = []
    for each in changes.steps:
        if isinstance(each, Holding):
            if found := each.columns.get(number):
                steps.append(TableHolding(each.kind, tuple(_held(one, compiler) for one in found)))
        elif isinstance(each, Unplacing):
            steps += [TableUnplacing()] if number in each.tables else []
        elif isinstance(each, Placing):
            if number in each.fields:
                steps.append(table_placing(each, number, compiler, hidden=changes.hides_told(number)))
        elif number in each.fields:
            steps.append(_condition(each, number, compiler))
    of_source = {column.name for column in stored.columns}
    columns = tuple(
        ShownColumn(
            compiler.column(field),
            replace(field.column, name=field.source),
            added=field.source not in of_source,
        )
        for field in changes.fields[number]
        if field.rewrites or field.computed is not None
    )
    return TableProgram(tuple(steps), columns) if steps or columns else None


def _held(found: Failure | FlaggedInput, compiler: ColumnCompiler) -> Failing | FlaggedInputs:
    if isinstance(found, Failure):
        made = compiler.column(found.made)
        return Failing(found.name, compiler.presence(found.old), made)
    stored = (each.source for each in found.computed.inputs.values() if each.computed is None)
    return FlaggedInputs(found.name, tuple(dict.fromkeys(stored)), found.but)


def _condition(condition: Condition, schema_id: int, compiler: ColumnCompiler) -> TableCondition:
    compiled, read = compiler.sql(
        condition.expression.text,
        condition.what,
        lambda name, image: condition.pseudo(name, image, schema_id) or condition.field(name, schema_id),
    )
    if compiled.type not in ("boolean", "void"):
        raise NotCompiledError(f"{condition.what}: a condition of type {compiled.type}")
    fields = condition.judged[schema_id]
    return TableCondition(
        compiled,
        read,
        tuple((presence_of(field, compiler), field.column.name) for field in fields),
        condition.leaving,
        _names_computed(condition, schema_id),
    )


def _names_computed(condition: Condition, schema_id: int) -> bool:
    fields = (condition.field(found.name, schema_id) for found in condition.expression.identifiers)
    return any(field is not None and field.computed is not None for field in fields)
