"""Truncate: cut values to a length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from databus.core.errors.batch import TransformError
from databus.core.errors.config import ConfigError
from databus.core.spec import at_caller
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computing import computed, image_expression, quoted, with_computed
from databus.rows.frames.selection import EVERY_TABLE, columns_of, refuse_key_columns
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols

_CUT = re.compile(r"(?:(?:var)?(?:char|binary)|(?:tiny|medium|long)?(?:text|blob))\b", re.IGNORECASE)
"""Types of the source whose values are text or bytes, and no more."""


class Truncate(TableTransform):
    """Cut values of text columns to a number of characters, of binary ones to bytes: `Truncate("comment", 100)`.

    Characters are Unicode code points. Both images are cut; NULL stays NULL, absent stays absent, and the column keeps
    its type. Columns but CHAR, VARCHAR, TEXT, BINARY, VARBINARY and BLOB (of any size) are refused, as TIME, ENUM and
    JSON: what is left would mean something else; cast them to string before. Columns of the primary key are refused:
    their values stand in every record's key.

    Attributes:
        columns: name → length, e.g. Truncate({"comment": 100, "photo": 4096}), or one of them by position. For all
            tables ("*") those without the column pass unchanged.
    """

    kind: ClassVar[str] = "truncate"

    columns: dict[str, Annotated[int, Field(ge=1)]] = Field(min_length=1)

    def __init__(self, column: str | dict[str, int] | None = None, length: int | None = None, /, **options: Any):
        if column is not None:
            if length is None and not isinstance(column, Mapping):
                raise ConfigError(
                    at_caller(f"Truncate: no length is given for {column!r}"),
                    hint='Write Truncate("comment", 100), or Truncate({"comment": 100, "photo": 4096}).',
                )
            options["columns"] = {column: length} if isinstance(column, str) else column
        super().__init__(**options)

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Cut the columns.

        Raises:
            TransformError: a table meant by name lacks a column, or a column is no text and no bytes, or part of the
            key.
        """
        by_case = {name.casefold(): length for name, length in self.columns.items()}
        for schema, names in columns_of(changes, self.tables, tuple(self.columns), self.label()):
            refuse_key_columns(schema, names, self.label())
            for name in names:
                length = self.columns.get(name, by_case[name.casefold()])
                changes = self._cut(changes, changes.schema(schema.schema_id), name, length)
        return changes

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is Truncate

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes: each value comes from the one it replaces."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the columns: a table meant by name or pattern must have them all."""
        return ColumnsWanted(tuple(self.columns), self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return columns and lengths."""
        return "truncate " + ", ".join(f"{name} to {length}" for name, length in self.columns.items())

    def _cut(self, changes: FrameChanges, schema: TableSchema, name: str, length: int) -> FrameChanges:
        field = changes.require(name, schema, self.label())
        kind = field.column.spark_type
        if _CUT.match(field.column.type) is None:
            raise TransformError(
                f"{self.label()}: {name} of {schema.full_name} is {field.column.type}, which cannot be cut",
                hint=f'Put Cast({{"{name}": "string"}}) before it, or leave the column out.',
                code="column_not_text",
            )
        cut = image_expression(f"substring({quoted(name)}, 1, {length})")
        value = computed(changes, schema, cut, self.label(), kind)
        return with_computed(changes, schema, name, value, column=field.column)
