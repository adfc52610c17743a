"""PythonFunction: a column whose values a Python function computes from Arrow arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import spark_type_named
from databus.rows.frames.computing import computed, image_expression, quoted, require_name, with_added, with_computed
from databus.rows.frames.expression import PSEUDO_COLUMNS
from databus.rows.frames.selection import selected
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols
    from databus.rows.frames.python_function import Called

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class PythonFunction(TableTransform):
    """Compute a column by a Python function: `PythonFunction("shop.rules:risk", inputs=("amount",), into="risk")`.

    The function is called with a `pyarrow.Array` per input, in their order, and returns an array with a value, or null,
    for each row. It sees the rows of the tables that are meant, `before` and `after` apart, in batches of any size; an
    image that lacks an input is not given to it, and lacks the column. Inputs have the types of their columns: text as
    string, DECIMAL as decimal128, DATE as date32, DATETIME as timestamp[us], TIMESTAMP as timestamp[us, tz].

    It must be pure: the result follows from its arguments alone, row by row. A batch may be read again after a failure,
    and then has to give the same. No clock, no random numbers, no service, no state. An error in it stops the batch.

    Attributes:
        function: import path "module:function", importable on Airflow's and on Spark's workers, or a function at the
            top of such a module.
        inputs: columns, e.g. ("amount", "country"); each table that is meant must have them.
        into: name of the column, e.g. "risk". One of the inputs is replaced; another column that the table has is
            refused.
        type: Spark type of the result, e.g. "double"; default "string". As of `Cast`.
    """

    kind: ClassVar[str] = "python_function"

    function: str
    inputs: tuple[str, ...] = Field(min_length=1)
    into: str
    type: str = "string"

    def __init__(self, function: str | Callable[..., Any] | None = None, /, **options: Any):
        if function is not None:
            options["function"] = function
        super().__init__(**options)

    @field_validator("function", mode="before")
    @classmethod
    def _is_a_path(cls, value: Any) -> Any:
        text = f"{value.__module__}:{value.__qualname__}" if callable(value) else value
        if isinstance(text, str) and (not _PATH.fullmatch(text) or text.startswith(("__main__:", "unusual_prefix_"))):
            raise ValueError(
                f"{text!r} is no import path, which is module:function with the function at the top of a module that "
                "workers can import, and not of a DAG file"
            )
        return text

    @field_validator("inputs")
    @classmethod
    def _are_columns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        facts = sorted(name for name in value if name.lower() in PSEUDO_COLUMNS)
        if facts:
            raise ValueError(f"{', '.join(facts)} is the row's: a function is given columns of an image")
        return value

    @field_validator("into")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        return require_name(value)

    @field_validator("type")
    @classmethod
    def _is_a_type(cls, value: str) -> str:
        return spark_type_named(value)

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Add the column, or replace it.

        Raises:
            TransformError: the function cannot be imported, a table lacks an input, or has a column of the new name.
        """
        from databus.rows.frames.python_function import ArrowCall, function_at, register

        function_at(self.function)
        call = ArrowCall(self.function, self.type)
        if changes.rows is not None:
            register(changes.rows, call)
        for schema in selected(changes, self.tables):
            value = self._called(changes, schema, call)
            replaced = next((i for i in self.inputs if i.casefold() == self.into.casefold()), None)
            if replaced is None:
                changes = with_added(changes, schema, self.into, value, self.label())
            else:
                name = changes.require(replaced, schema, self.label()).column.name
                changes = with_computed(changes, schema, name, value)
        return changes

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is PythonFunction

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes with the column, whose value comes from the inputs."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the inputs, which each table that is meant must have."""
        return ColumnsWanted(self.inputs, self.tables)

    def label(self) -> str:
        """Return name, function and inputs."""
        return f"{self.into} = {self.function}({', '.join(self.inputs)})"

    def _called(self, changes: FrameChanges, schema: TableSchema, call: Any) -> Called:
        from databus.rows.frames.python_function import Called

        named = image_expression(f"struct({', '.join(map(quoted, self.inputs))})")
        value = computed(changes, schema, named, self.label(), self.type)
        return Called(
            value.expression, value.inputs, value.type, value.clear, call, self.inputs, schema_id=schema.schema_id
        )
