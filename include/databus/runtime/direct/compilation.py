"""Compilation of a flow's transforms for decoded columns: what the direct and live lanes apply where rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch, Transactions
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.expressions.errors import NotCompiledError
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field
from databus.rows.frames.leaving import Condition
from databus.rows.row_program import FatedRows
from databus.runtime.direct.column_programs import VALUE, ColumnProgram, Rewriting
from databus.runtime.direct.compiled_sql import CompiledSql
from databus.runtime.direct.row_fates import BatchImages, TableCondition, judged

_HASHED = f"sha2(`{VALUE}`, 256)"
_WITHOUT_TEXT = ("float", "double")
"""Types whose text is Java's, which differs between its versions."""


@dataclass(frozen=True)
class TableProgram:
    """Program of one table.

    Attributes:
        conditions: of the filters, in order.
        columns: those whose values are replaced.
    """

    conditions: tuple[TableCondition, ...]
    columns: tuple[ColumnProgram, ...]


@dataclass(frozen=True)
class CompiledRows:
    """Compiled transforms of a flow (`RowProgram`).

    Attributes:
        tables: schema_id → its program; tables that are not named keep all rows as they are.
    """

    tables: Mapping[int, TableProgram]

    def judged(self, batch: TableBatch, transactions: Transactions, rows: FatedRows) -> FatedRows:
        """Return the rows after all filters; see `RowProgram`."""
        table = self.tables.get(batch.schema.schema_id)
        if table is None or not table.conditions:
            return rows
        return judged(table.conditions, BatchImages(batch, transactions), rows)

    def shown(self, batch: TableBatch) -> TableBatch:
        """Return the batch with the values that transforms replaced; see `RowProgram`."""
        table = self.tables.get(batch.schema.schema_id)
        if table is None or not table.columns:
            return batch
        images, columns, exceptions = batch.images.columns, list(batch.schema.columns), dict(batch.exceptions)
        for column in table.columns:
            place = column.place(batch)
            images[place] = column.seen(batch)
            columns[place] = replace(columns[place], type="text", spark_type="string")
            exceptions.pop(place, None)
        return replace(
            batch,
            schema=replace(batch.schema, columns=tuple(columns)),
            images=pa.RecordBatch.from_arrays(images, names=batch.images.schema.names),
            exceptions=exceptions,
        )


def table_program(changes: FrameChanges, stored: TableSchema) -> TableProgram | None:
    """Return the program of one table, None where it keeps all rows and values as they are.

    Args:
        changes: the columns and conditions as the transforms leave them.
        stored: the table as the source has it.

    Raises:
        NotCompiledError: with what of the flow is not compiled.
    """
    of_source = {column.name: column for column in stored.columns}
    conditions = [each for each in changes.conditions if stored.schema_id in each.fields]
    fields = [field for field in changes.fields[stored.schema_id] if field.rewrites]
    if not conditions and not fields:
        return None
    return TableProgram(
        tuple(_condition(each, stored.schema_id, of_source) for each in conditions),
        tuple(_column(field, of_source) for field in fields),
    )


def _condition(condition: Condition, schema_id: int, of_source: Mapping[str, ColumnSchema]) -> TableCondition:
    columns: dict[tuple[str, str], ColumnProgram | str] = {}

    def type_of(name: str, image: str) -> str | None:
        pseudo = condition.pseudo(name, image, schema_id)
        if pseudo is not None:
            columns[name, image] = pseudo
            return "bigint" if pseudo == "ts_ms" else "string"
        field = condition.field(name, schema_id)
        if field is None:
            return None
        columns[name, image] = _column(field, of_source)
        return "string" if field.rewrites else field.column.spark_type

    try:
        compiled = CompiledSql.of(condition.expression.text, type_of)
    except NotCompiledError as error:
        raise NotCompiledError(f"{condition.what}: {error.reason}") from None
    if compiled.type not in ("boolean", "void"):
        raise NotCompiledError(f"{condition.what}: a condition of type {compiled.type}")
    judged = tuple((field.source, field.column.name) for field in condition.judged[schema_id])
    read = {at: columns[at] for at in compiled.inputs}
    return TableCondition(compiled, read, judged, condition.leaving)


def _column(field: Field, of_source: Mapping[str, ColumnSchema]) -> ColumnProgram:
    if not field.rewrites:
        return ColumnProgram(field.source)
    text = f"`{VALUE}`"
    for rewrite in field.rewrites:
        text = rewrite(text)
    spark_type = of_source[field.source].spark_type
    as_bytes = field.stored_binary or text == _HASHED
    what = f"the new value of {field.column.name}"
    try:
        compiled = CompiledSql.of(text, lambda *_: "binary" if as_bytes else "string")
    except NotCompiledError as error:
        raise NotCompiledError(f"{what}: {error.reason}") from None
    if compiled.type != "string":
        raise NotCompiledError(f"{what}: text of type {compiled.type}")
    if not compiled.inputs:
        return ColumnProgram(field.source, Rewriting(compiled, "nothing"))
    if spark_type in _WITHOUT_TEXT:
        raise NotCompiledError(f"{what}: the text of a {spark_type}")
    return ColumnProgram(field.source, Rewriting(compiled, "bytes" if as_bytes else "text"))
