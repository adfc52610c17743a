"""Column programs: values that the compiled transforms make of one column of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from databus.core.tables.schemas import ColumnSchema
    from databus.runtime.direct.compiled_transforms.compiled_sql import CompiledSql
    from databus.runtime.direct.compiled_transforms.computed_values import ComputedProgram

VALUE = "v"
"""Name of the value's text in a rewrite."""


@dataclass(frozen=True)
class Rewriting:
    """Rewriting of a column's text.

    Attributes:
        compiled: the new text; over `VALUE`, or over nothing.
        of: what `VALUE` is: "text", the "bytes" of a text or of a binary column, or "nothing".
    """

    compiled: CompiledSql
    of: Literal["text", "bytes", "nothing"]


@dataclass(frozen=True)
class ColumnProgram:
    """Column of an image as the transforms so far leave it.

    Attributes:
        source: its name at the source; of a column that a transform adds, one that no row holds.
        rewriting: of its value; None where that is as it was.
        computed: its value before the rewriting; None where it is the stored one.
    """

    source: str
    rewriting: Rewriting | None = None
    computed: ComputedProgram | None = None


@dataclass(frozen=True)
class ShownColumn:
    """Column of a table whose values are not the stored ones.

    Attributes:
        program: its values.
        column: its name in the stored image, and the types that it has now.
        added: whether the table has no such column.
    """

    program: ColumnProgram
    column: ColumnSchema
    added: bool
