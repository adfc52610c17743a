"""Extract: a value inside a JSON column as a column of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import spark_type_named
from databus.rows.frames.computing import computed, image_expression, quoted, require_name, with_added
from databus.rows.frames.fields import sql_string
from databus.rows.frames.held import with_failures_held
from databus.rows.frames.selection import EVERY_TABLE, columns_of
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols

_PATH = re.compile(r"\$(?:\.[^.\[\]'*]+|\[\d+\]|\['[^'\[\]*?]+'\])+")


class Extract(TableTransform):
    """Extract a value of a JSON column into a column: `Extract("doc", path="$.address.city", into="city")`.

    It is added in `before` and `after`, from that image's document; an image without the document lacks it. Values are
    those of Spark's `get_json_object`: texts without quotes, objects and arrays as JSON. Where the path leads to
    nothing or to `null`, where the column is NULL or no JSON, the value is NULL.

    Attributes:
        column: JSON or text column, e.g. "doc". For all tables ("*") those without it pass unchanged.
        path: members and numbered elements, e.g. "$.address.city", "$.items[0].sku" or "$['odd name']".
        into: name of the added column, e.g. "city"; a table that has it is refused.
        type: Spark type of the added column, e.g. "bigint"; default "string". As of `Cast`.
        on_failure: "hold" (default): a row with a value that is not of the type is held back as "extract(into)";
            "null": the value becomes NULL.
    """

    kind: ClassVar[str] = "extract"

    column: str
    path: str
    into: str = Field(min_length=1)
    type: str = "string"
    on_failure: Literal["hold", "null"] = "hold"

    def __init__(self, column: str | None = None, /, **options: Any):
        if column is not None:
            options["column"] = column
        super().__init__(**options)

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, value: str) -> str:
        if not _PATH.fullmatch(value):
            raise ValueError(f"{value!r} is no path to one value: e.g. $.address.city, $.items[0], $['odd name']")
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
        """Add the column.

        Raises:
            TransformError: a table meant by name lacks the JSON column, or has a column of the new name.
        """
        added = self._with(changes, self.type)
        if self.on_failure == "null" or self.type == "string":
            return added
        names = {schema.schema_id: [(self.into, self.into)] for schema, _ in self._tables(changes)}
        return with_failures_held(self._with(changes, "string"), added, self.kind, names)

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is Extract

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes with the column, whose value comes from the JSON column."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the JSON column: a table meant by name or pattern must have it."""
        return ColumnsWanted((self.column,), self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return column, path and name."""
        return f"extract {self.column} {self.path} into {self.into}"

    def _tables(self, changes: FrameChanges) -> Iterator[tuple[TableSchema, list[str]]]:
        return columns_of(changes, self.tables, (self.column,), self.label())

    def _with(self, changes: FrameChanges, spark_type: str) -> FrameChanges:
        """Return the changes with the value as of a type; what is not of it is NULL."""
        for schema, (name,) in self._tables(changes):
            text = f"get_json_object({quoted(name)}, {sql_string(self.path)})"
            found = image_expression(text if spark_type == "string" else f"try_cast({text} AS {spark_type})")
            value = computed(changes, schema, found, self.label(), spark_type)
            changes = with_added(changes, schema, self.into, value, self.label())
        return changes
