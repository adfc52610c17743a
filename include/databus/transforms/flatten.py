"""Flatten: members of a JSON column as columns of their own, by declared paths and types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import spark_type_named
from databus.rows.frames.computing import require_name
from databus.rows.frames.selection import EVERY_TABLE
from databus.transforms.extract import Extract
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols

_NAMES = re.compile(r"[^.\[\]'*$?]+(?:\.[^.\[\]'*$?]+)*")


class Flatten(TableTransform):
    """Flatten a JSON column: `Flatten("doc", {"address.city": "string", "age": "int"})` adds `address_city` and `age`.

    Each member that is declared becomes a column of its type, in `before` and `after`, from that image's document; an
    image without the document lacks them. Values are those of `Extract`: objects and arrays as JSON text, NULL where
    the path leads to nothing. Types are declared, so that the columns of an output do not depend on the documents that
    come. The document itself stays: `DropColumns("doc")` behind it takes it out. Elements of arrays, and names that a
    path cannot say, are for `Extract`.

    Attributes:
        column: JSON or text column, e.g. "doc". For all tables ("*") those without it pass unchanged.
        fields: members, with dots between the levels → Spark type, e.g. {"address.city": "string"}; types as of `Cast`.
        delimiter: text between the levels in the name of a column, e.g. "."; default "_".
        prefix: text before the names, e.g. "doc_"; default "". A table that has a column of a name is refused.
        on_failure: "hold" (default): a row with a value that is not of its type is held back as
            "flatten(address_city)"; "null": the value becomes NULL.
    """

    kind: ClassVar[str] = "flatten"

    column: str
    fields: dict[str, str] = Field(min_length=1)
    delimiter: str = "_"
    prefix: str = ""
    on_failure: Literal["hold", "null"] = "hold"

    def __init__(self, column: str | None = None, fields: dict[str, str] | None = None, /, **options: Any):
        given = {"column": column, "fields": fields}
        super().__init__(**{name: value for name, value in given.items() if value is not None}, **options)

    @field_validator("fields")
    @classmethod
    def _are_paths_and_types(cls, value: dict[str, str]) -> dict[str, str]:
        for path in value:
            if not _NAMES.fullmatch(path):
                raise ValueError(f"{path!r} is no path of names: e.g. address.city")
        return {path: spark_type_named(kind) for path, kind in value.items()}

    @model_validator(mode="after")
    def _gives_columns_that_can_be(self) -> Flatten:
        for path in self.fields:
            require_name(self._name(path))
        names = [self._name(path).casefold() for path in self.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two members would be the column {', '.join(twice)}: choose another delimiter")
        return self

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Add the columns.

        Raises:
            TransformError: a table meant by name lacks the JSON column, or has a column of one of the names.
        """
        for part in self._parts:
            changes = part.transform(changes)
        return changes

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is Flatten

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes with the columns, whose values come from the JSON column."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the JSON column: a table meant by name or pattern must have it."""
        return ColumnsWanted((self.column,), self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return column and members."""
        return f"flatten {self.column} into {', '.join(map(self._name, sorted(self.fields)))}"

    def _name(self, path: str) -> str:
        return self.prefix + path.replace(".", self.delimiter)

    @property
    def _parts(self) -> list[_Member]:
        """Return what adds each member, in the order of their names: stored flows have their options in another."""
        return [
            _Member(
                column=self.column,
                path=f"$.{path}",
                into=self._name(path),
                type=kind,
                on_failure=self.on_failure,
                tables=self.tables,
            )
            for path, kind in sorted(self.fields.items())
        ]


class _Member(Extract):
    """Member of a document as a column."""

    kind: ClassVar[str] = "flatten"

    def label(self) -> str:
        """Return column, path and name."""
        return f"flatten {self.column} {self.path} into {self.into}"
