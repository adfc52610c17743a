"""Compiler of single columns: the rewrites and computed values of a table's fields as programs over decoded columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from databus.core.tables.schemas import TableSchema
from databus.expressions.errors import NotCompiledError
from databus.rows.frames.computed import Computed, LookedUp, computed_column
from databus.rows.frames.expression import PSEUDO_COLUMNS
from databus.rows.frames.fields import Field
from databus.rows.frames.python_function import Called
from databus.runtime.direct.compiled_transforms.column_programs import VALUE, ColumnProgram, Rewriting
from databus.runtime.direct.compiled_transforms.compiled_sql import CompiledSql
from databus.runtime.direct.compiled_transforms.computed_values import (
    TEXT,
    ComputedProgram,
    Evaluation,
    FunctionValue,
    SqlValue,
    TableValue,
)

_HASHED = f"sha2(`{VALUE}`, 256)"
_WITHOUT_TEXT = ("float", "double")
"""Types whose text is Java's, which differs between its versions."""


@dataclass
class ColumnCompiler:
    """Compiler of the columns of one table.

    Attributes:
        stored: the table as the source has it.
    """

    stored: TableSchema
    _computed: dict[int, tuple[Computed, ComputedProgram]] = field(default_factory=dict)

    def column(self, field: Field) -> ColumnProgram:
        """Return the program of a column.

        Raises:
            NotCompiledError: with what of it is not compiled.
        """
        computed = None if field.computed is None else self._program(field.computed, field.column.name)
        if not field.rewrites:
            return ColumnProgram(field.source, computed=computed)
        spark_type = self._stored_type(field.source) if field.computed is None else field.computed.type
        return ColumnProgram(field.source, _rewriting(field, spark_type), computed)

    def presence(self, field: Field) -> ColumnProgram:
        """Return a program that has a value where the column has one, and none where it has none.

        It may do without the value itself, which Spark alone may know.
        """
        computed = field.computed
        if computed is None or id(computed) in self._computed or isinstance(computed, Called | LookedUp):
            return self.column(replace(field, rewrites=()))
        there = replace(computed.expression, text=f"CASE WHEN ({computed.expression.text}) IS NOT NULL THEN true END")
        found = self._compiled(replace(computed, expression=there, type="boolean"), field.column.name)
        return ColumnProgram(field.source, computed=found)

    def sql(
        self, text: str, what: str, read: Callable[[str, str], Field | str | None]
    ) -> tuple[CompiledSql, dict[tuple[str, str], ColumnProgram | str]]:
        """Return compiled SQL over columns of the table, and programs of the columns that it reads.

        Args:
            text: the SQL.
            what: its name in an error.
            read: (name, qualifier) → field of the table, name of a column of the row shape, or None for neither.

        Raises:
            NotCompiledError: with what of it is not compiled.
        """
        columns: dict[tuple[str, str], ColumnProgram | str] = {}

        def type_of(name: str, image: str) -> str | None:
            found = read(name, image)
            if found is None:
                return None
            columns[name, image] = found if isinstance(found, str) else self.column(found)
            if isinstance(found, str):
                return "bigint" if found == "ts_ms" else "string"
            return found.column.spark_type

        try:
            compiled = CompiledSql.of(text, type_of)
        except NotCompiledError as error:
            raise NotCompiledError(f"{what}: {error.reason}") from None
        return compiled, {at: columns[at] for at in compiled.inputs}

    def _stored_type(self, source: str) -> str:
        return next(column.spark_type for column in self.stored.columns if column.name == source)

    def _program(self, computed: Computed, name: str) -> ComputedProgram:
        """Return the program of a computed value; by its identity, so that each is evaluated once."""
        found = self._computed.get(id(computed))
        if found is None:
            made = self._compiled(computed, name)
            found = self._computed[id(computed)] = (computed, made)
        return found[1]

    def _compiled(self, computed: Computed, name: str) -> ComputedProgram:
        inputs: dict[str, ColumnProgram | str] = {n: self.column(each) for n, each in computed.inputs.items()}
        for found in computed.expression.identifiers:
            inputs.setdefault(found.name, PSEUDO_COLUMNS.get(found.name.lower(), ""))
        try:
            evaluation = _evaluation(computed)
        except NotCompiledError as error:
            raise NotCompiledError(f"the value of {name}: {error.reason}") from None
        return ComputedProgram(computed_column(name, computed.type), tuple(inputs.items()), evaluation)


def presence_of(field: Field, compiler: ColumnCompiler) -> ColumnProgram:
    """Return a program that the images carry which have a column."""
    return ColumnProgram(field.source) if field.computed is None else compiler.column(field)


def _evaluation(computed: Computed) -> Evaluation:
    if isinstance(computed, Called):
        return FunctionValue(computed.call, computed.arguments)

    def type_of(name: str, _: str) -> str:
        found = computed.inputs.get(name)
        return found.column.spark_type if found is not None else "bigint" if name.lower() == "_ts_ms" else "string"

    if isinstance(computed, LookedUp):
        ((key, _),) = computed.inputs.items()
        quoted = "`" + key.replace("`", "``") + "`"
        return TableValue(
            CompiledSql.of(f"CAST({quoted} AS string)", type_of),
            CompiledSql.of(f"CAST(`{TEXT}` AS {computed.type})", lambda *_: "string"),
            dict(computed.table),
        )
    return SqlValue(CompiledSql.of(f"CAST(({computed.expression.text}) AS {computed.type})", type_of))


def _rewriting(field: Field, spark_type: str) -> Rewriting:
    text = f"`{VALUE}`"
    for rewrite in field.rewrites:
        text = rewrite(text)
    as_bytes = field.stored_binary or text == _HASHED
    what = f"the new value of {field.column.name}"
    try:
        compiled = CompiledSql.of(text, lambda *_: "binary" if as_bytes else "string")
    except NotCompiledError as error:
        raise NotCompiledError(f"{what}: {error.reason}") from None
    if compiled.type != "string":
        raise NotCompiledError(f"{what}: text of type {compiled.type}")
    if not compiled.inputs:
        return Rewriting(compiled, "nothing")
    if spark_type in _WITHOUT_TEXT:
        raise NotCompiledError(f"{what}: the text of a {spark_type}")
    return Rewriting(compiled, "bytes" if as_bytes else "text")
