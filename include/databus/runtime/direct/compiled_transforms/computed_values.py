"""Computed values of decoded columns: expressions, tables of a Lookup and Python functions, as tasks evaluate them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.rows.frames.python_function import ArrowCall

if TYPE_CHECKING:
    from databus.core.tables.schemas import ColumnSchema
    from databus.runtime.direct.compiled_transforms.column_programs import ColumnProgram
    from databus.runtime.direct.compiled_transforms.compiled_sql import CompiledSql


class Evaluation(Protocol):
    """Evaluation of a value; picklable."""

    def values(self, inputs: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Return the value of each row, from its inputs by their names in the expression.

        Raises:
            DatabusError: it fails for one of the rows, as it does in Spark's lane.
        """
        ...


@dataclass(frozen=True, eq=False)
class ComputedProgram:
    """Program of a computed value; the same for all columns that show it, so that it is evaluated once.

    Attributes:
        column: of the value: its type, in the source's words and in Spark's.
        inputs: name in the expression → a column, or the name of one of the row shape ("ts_ms", "table", …).
        evaluation: of the rows that have all inputs, none of them flagged.
    """

    column: ColumnSchema
    inputs: tuple[tuple[str, ColumnProgram | str], ...]
    evaluation: Evaluation

    @property
    def columns(self) -> tuple[ColumnProgram, ...]:
        """Columns among the inputs."""
        return tuple(each for _, each in self.inputs if not isinstance(each, str))


@dataclass(frozen=True)
class SqlValue:
    """Evaluation of a compiled expression."""

    compiled: CompiledSql

    def values(self, inputs: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Return the expression's values.

        Raises:
            ExpressionError: it fails for a row, as in Spark.
        """
        return self.compiled.evaluate({(name, "row"): array for name, array in inputs.items()}, rows)


@dataclass(frozen=True, eq=False)
class TableValue:
    """Evaluation of a Lookup.

    Attributes:
        key: text of the key.
        value: value of a text, which is its one input `TEXT`.
        table: text of a key → text of its value.
    """

    key: CompiledSql
    value: CompiledSql
    table: Mapping[str, str]

    def values(self, inputs: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Return the values that the table has, null without."""
        keys = self.key.evaluate({(name, "row"): array for name, array in inputs.items()}, rows)
        return self._known.take(pc.index_in(keys, value_set=pa.array(self.table, pa.string())))

    @cached_property
    def _known(self) -> pa.Array:
        texts = pa.array(self.table.values(), pa.string())
        return self.value.evaluate({(TEXT, "row"): texts}, len(texts))


TEXT = "v"
"""Name of the text of which `TableValue.value` is."""


@dataclass(frozen=True)
class FunctionValue:
    """Evaluation of a Python function.

    Attributes:
        call: the function.
        arguments: the inputs, in the order of its arguments.
    """

    call: ArrowCall
    arguments: tuple[str, ...]

    def values(self, inputs: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Return the function's values.

        Raises:
            TransformError: it fails, or its result has not a value of the type for each row.
        """
        meant = pa.array(np.ones(rows, np.bool_))
        return self.call(meant, *(inputs[name] for name in self.arguments))
