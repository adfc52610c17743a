"""Compiler of Spark SQL expressions to Arrow: one definition, the values of Spark.

An expression is parsed (`parser.py`), typed with Spark's rules of coercion (ANSI mode, session zone UTC), and its
functions are resolved to kernels over Arrow arrays (`functions/`). What is not proved to mean the same is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from databus.expressions.binding import Binding
from databus.expressions.errors import NotCompiledError
from databus.expressions.nodes import Key, Rows, TypedNode, as_array
from databus.expressions.parser import parse
from databus.expressions.types import VOID, arrow_of, type_named

Types = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Compiled:
    """An expression that gives Spark's values for Arrow columns.

    Attributes:
        inputs: (name, image) of the columns that it reads, in no order.
        type: Spark type of its values.
        root: the typed expression.
    """

    inputs: tuple[Key, ...]
    type: str
    root: TypedNode
    types: tuple[str, ...]

    def evaluate(self, columns: Mapping[Key, pa.Array], rows: int) -> pa.Array:
        """Return the expression's value for each row.

        Args:
            columns: (name, image) → values, `rows` of them; arrays of the Arrow type of the column's Spark type, or of
                one that casts to it.
            rows: number of rows.

        Raises:
            ExpressionError: Spark fails for one of the rows.
        """
        kind = arrow_of(self.type)
        if not rows:
            return pa.array([], kind)
        held = {key: _column(columns[key], name) for key, name in zip(self.inputs, self.types, strict=True)}
        try:
            found = self.root.values(Rows(held, rows))
        except Exception:  # noqa: BLE001 - of rows that Spark does not look at, perhaps
            found = self.root.values(Rows(held, rows, exact=True))
        return as_array(found, rows).cast(kind)


def compile_expression(text: str, types: Types, *, ansi: bool = True) -> Compiled:
    """Compile one Spark SQL expression over a row.

    Args:
        text: the expression, deterministic, over one row.
        types: (name, image) → Spark type of the column, None where there is none; image is "row", "before" or "after".
        ansi: whether Spark's ANSI mode is on.

    Raises:
        NotCompiledError: its meaning is not known to be Spark's; `reason` names the function, type or operator.
    """
    if not ansi:
        raise NotCompiledError("ANSI mode off")
    binding = Binding(types)
    root = binding.node(parse(text))
    if root.type == VOID:
        raise NotCompiledError("an expression that is always NULL")
    inputs = tuple(binding.columns)
    return Compiled(inputs, root.type, root, tuple(binding.columns[key] for key in inputs))


def _column(values: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = arrow_of(type_named(name))
    return values if values.type == kind else values.cast(kind)
