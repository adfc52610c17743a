"""Compiled Spark SQL that can be sent to a task: the text and its columns' types, compiled once in each process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.expressions.compiled import Compiled

Types = tuple[tuple[tuple[str, str], str], ...]


@dataclass(frozen=True)
class CompiledSql:
    """Compiled SQL expression over named columns.

    Attributes:
        text: the expression.
        types: (name, image) and Spark type of each column that it reads.
    """

    text: str
    types: Types

    @classmethod
    def of(cls, text: str, types: Callable[[str, str], str | None]) -> CompiledSql:
        """Compile an expression; `types` are those of `databus.expressions.compiled.compile_expression`.

        Raises:
            NotCompiledError: its meaning is not known to be Spark's.
        """
        from databus.expressions.compiled import compile_expression

        asked: dict[tuple[str, str], str] = {}

        def told(name: str, image: str) -> str | None:
            found = types(name, image)
            if found is not None:
                asked[name, image] = found
            return found

        compile_expression(text, told)
        return cls(text, tuple(sorted(asked.items())))

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(name, image) of the columns that it reads."""
        return _compiled(self.text, self.types).inputs

    @property
    def type(self) -> str:
        """Spark type of its value."""
        return _compiled(self.text, self.types).type

    def evaluate(self, columns: Mapping[tuple[str, str], pa.Array], rows: int) -> pa.Array:
        """Return its value for each row.

        Raises:
            ExpressionError: it fails for a row, as in Spark.
        """
        return _compiled(self.text, self.types).evaluate(columns, rows)


@lru_cache(1024)
def _compiled(text: str, types: Types) -> Compiled:
    from databus.expressions.compiled import compile_expression

    known = dict(types)
    return compile_expression(text, lambda name, image: known.get((name, image)))
