"""Compiler of choices by value: routes and keys that a transform chooses, from decoded columns of a table's images."""

from __future__ import annotations

from databus.expressions.errors import NotCompiledError
from databus.rows.frames.placing import Placing
from databus.runtime.direct.compiled_transforms.column_compiler import ColumnCompiler, presence_of
from databus.runtime.direct.compiled_transforms.column_programs import ColumnProgram
from databus.runtime.direct.compiled_transforms.compiled_sql import CompiledSql
from databus.runtime.direct.compiled_transforms.place_values import (
    ChosenKeyColumn,
    KeyColumns,
    PlaceValues,
    RouteConditions,
    RouteText,
)
from databus.runtime.direct.compiled_transforms.row_places import AskedColumn, TablePlacing

_Compiled = tuple[CompiledSql, dict[tuple[str, str], ColumnProgram | str]]


def table_placing(placing: Placing, schema_id: int, compiler: ColumnCompiler, *, hidden: bool) -> TablePlacing:
    """Return a choice of routes or keys of one table, compiled.

    Args:
        placing: the choice.
        schema_id: of the table.
        compiler: of its columns.
        hidden: whether a transform behind hides a column whose value a cause would show.

    Raises:
        NotCompiledError: with what of it is not compiled.
    """
    return TablePlacing(
        placing.kind,
        tuple(
            AskedColumn(field.column.name, presence_of(field, compiler), field.computed is None)
            for field in placing.judged[schema_id]
        ),
        _values(placing, schema_id, compiler, hidden=hidden),
        len(placing.routes),
        placing.follows,
        placing.kept(schema_id),
    )


def _values(placing: Placing, schema_id: int, compiler: ColumnCompiler, *, hidden: bool) -> PlaceValues:
    if placing.of == "key":
        columns = []
        for name in placing.names:
            field = placing.field(name, schema_id)
            if field is None:
                raise AssertionError(f"{placing.what}: {name} was there when the choice was noted")
            columns.append(ChosenKeyColumn(name, field.column, compiler.column(field)))
        return KeyColumns(tuple(columns))
    if placing.of == "route":
        (expression,) = placing.expressions
        text = f"CAST(({expression.text}) AS STRING)"
        return RouteText(*_compiled(placing, text, schema_id, compiler), placing.routes, hidden)
    conditions = [_compiled(placing, each.text, schema_id, compiler) for each in placing.expressions]
    for compiled, _ in conditions:
        if compiled.type not in ("boolean", "void"):
            raise NotCompiledError(f"{placing.what}: a condition of type {compiled.type}")
    return RouteConditions(tuple(conditions))


def _compiled(placing: Placing, text: str, schema_id: int, compiler: ColumnCompiler) -> _Compiled:
    return compiler.sql(
        text, placing.what, lambda name, _: placing.pseudo(name, schema_id) or placing.field(name, schema_id)
    )
