"""Lookup: a column whose values stand in a small table of the flow's definition."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from databus.core.errors.batch import TransformError
from databus.core.errors.config import ConfigError
from databus.core.spec import at_caller
from databus.core.tables.schemas import TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.computed import LookedUp, spark_type_named
from databus.rows.frames.computing import computed, quoted, require_name, with_added
from databus.rows.frames.expression import Expression, Identifier
from databus.rows.frames.fields import sql_string
from databus.rows.frames.held import with_failures_held
from databus.rows.frames.selection import EVERY_TABLE, columns_of
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols

MOST_BYTES = 64 * 1024
"""Size of a table as JSON that a flow's definition may hold: it is part of every plan's hash and of Spark's query."""

_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_KEYS = (*_WHOLE, "string", "boolean", "date")


class Lookup(TableTransform):
    """Add the value that a small table has for a column's value: `Lookup("country", {"de": "Germany"}, into="name")`.

    It is added in `before` and `after`. A NULL key gives NULL; an image without the key column lacks the added one.
    Keys are compared as text, byte by byte: whole numbers as "7" (a TINYINT(1) too), dates as "2024-01-31", booleans as
    "true". A key that no value of the column can equal is refused.

    The table is part of the flow's definition: it is read when the DAG file is, up to 64 KiB as JSON. A changed table
    counts for batches that are planned from then on. `Lookup.of_csv("country", text, key="code", value="name",
    into="x")` takes it from a CSV text with a header, e.g. of a file beside the DAG.

    Attributes:
        column: key column, e.g. "country". For all tables ("*") those without it pass unchanged.
        values: key → value, e.g. {"de": "Germany"}; no value is None.
        into: name of the added column; a table that has it is refused.
        type: Spark type of the values: string (default), a whole number, double, decimal(p,s), boolean or date.
        missing: "null" (default): a key that is not in the table gives NULL; "hold": its row is held back as
            "lookup(column)".
    """

    kind: ClassVar[str] = "lookup"

    column: str
    values: dict[str, str | bool | int | float] = Field(min_length=1)
    into: str
    type: str = "string"
    missing: Literal["null", "hold"] = "null"

    def __init__(self, column: str | None = None, values: Mapping[Any, Any] | None = None, /, **options: Any):
        if column is not None:
            options["column"] = column
        if values is not None:
            options["values"] = values
        super().__init__(**options)

    @classmethod
    def of_csv(cls, column: str, text: str, *, key: str, value: str, **options: Any) -> Self:
        """Return it with a table of CSV text.

        Args:
            column: key column of the rows.
            text: CSV with a header.
            key: the table's column of keys.
            value: the table's column of values.
            options: the others, as `into`.

        Raises:
            ConfigError: the text lacks a column, a key comes twice, or an option is bad.
        """
        rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
        lacking = [name for name in (key, value) if name not in (rows.fieldnames or ())]
        if lacking:
            known = ", ".join(rows.fieldnames or ()) or "none"
            raise ConfigError(
                at_caller(f"Lookup: the CSV text has no column {', '.join(lacking)}"), hint=f"Its columns are: {known}."
            )
        values: dict[str, str] = {}
        for row in rows:
            if None in row or None in row.values():
                raise ConfigError(
                    at_caller(f"Lookup: line {rows.line_num} of the CSV text has not as many fields as its header"),
                    hint="Correct the line: a value with a comma or a line break stands in quotes.",
                )
            if row[key] in values:
                raise ConfigError(
                    at_caller(f"Lookup: the CSV text has the key {row[key]!r} twice"), hint="Leave one of the rows."
                )
            values[row[key]] = row[value]
        return cls(column, values, **options)

    @field_validator("values", mode="before")
    @classmethod
    def _have_keys_as_text(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        wrong = [key for key in value if not isinstance(key, str | int) and type(key) is not date]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no key: texts, whole numbers, booleans and dates are")
        keyed = {(str(k).lower() if isinstance(k, bool) else str(k)): v for k, v in value.items()}
        if len(keyed) < len(value):
            raise ValueError("two keys are the same text")
        size = len(json.dumps(keyed, default=str).encode())
        if size > MOST_BYTES:
            raise ValueError(f"{len(keyed)} values, {size} bytes as JSON, and a small table has at most {MOST_BYTES}")
        return {name: str(v) if isinstance(v, Decimal | date) else v for name, v in keyed.items()}

    @field_validator("into")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        return require_name(value)

    @field_validator("type")
    @classmethod
    def _is_a_type(cls, value: str) -> str:
        name = spark_type_named(value)
        if _reader(name) is None:
            raise ValueError(f"values of a table are no {name}: string, whole numbers, double, decimal, boolean, date")
        return name

    @model_validator(mode="after")
    def _are_of_the_type(self) -> Self:
        read = _reader(self.type)
        for key, value in self.values.items():
            text = _text(value)
            try:
                if read is None or (self.type != "string" and ("_" in text or text != text.strip())):
                    raise ValueError(text)
                read(text)
            except (ValueError, KeyError, InvalidOperation):
                raise ValueError(f"values: {value!r} under {key!r} is no {self.type}") from None
        return self

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Add the column.

        Raises:
            TransformError: a table meant by name lacks the key column, has a column of the new name, or keys of a type
            whose text is not one.
        """
        before, keys = changes, dict[int, list[tuple[str, str]]]()
        for schema, (name,) in columns_of(changes, self.tables, (self.column,), self.label()):
            kind = changes.require(name, schema, self.label()).column.spark_type
            if kind not in _KEYS:
                raise TransformError(
                    f"{self.label()}: {name} of {schema.full_name} is {kind}, whose values have more than one text",
                    hint=f"Add a column with CAST({name} AS …) before it and look that up: {', '.join(_KEYS)}.",
                    code="lookup_key",
                )
            self._refuse_other_keys(schema, name, kind)
            found = computed(changes, schema, self._found(name), self.label(), self.type)
            table = {key: _text(each) for key, each in self.values.items()}
            value = LookedUp(found.expression, found.inputs, found.type, found.clear, table)
            changes = with_added(changes, schema, self.into, value, self.label())
            keys[schema.schema_id] = [(name, self.into)]
        return with_failures_held(before, changes, self.kind, keys) if self.missing == "hold" else changes

    def compilable(self) -> bool:
        """Return true, since its columns say all that it does; but of a subclass, which may do more."""
        return type(self) is Lookup

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes with the column, which comes from the key column."""
        return self.apply(changes)

    def wants(self) -> ColumnsWanted:
        """Return the key column: a table meant by name or pattern must have it."""
        return ColumnsWanted((self.column,), self.tables, in_every=self.tables != EVERY_TABLE)

    def label(self) -> str:
        """Return key, name and size of the table."""
        return f"lookup {self.column} into {self.into} ({len(self.values)} values)"

    def _refuse_other_keys(self, schema: TableSchema, name: str, kind: str) -> None:
        """Refuse keys that no value of the column has as its text."""
        other = [key for key in self.values if not _is_key(key, kind)]
        if other:
            shown = ", ".join(map(repr, other[:5])) + (", …" if len(other) > 5 else "")
            raise TransformError(
                f"{self.label()}: {name} of {schema.full_name} is {kind}, and no value of it is {shown}",
                hint='Write whole numbers as 7 or "7", dates as "2024-01-31", booleans as True; a TINYINT(1) has 1 and '
                "0.",
                code="lookup_key",
            )

    def _found(self, name: str) -> Expression:
        """Return the expression; it is not parsed, as the table in it may be long."""
        table = json.dumps({key: _text(value) for key, value in self.values.items()})
        head = f"CAST(try_element_at(from_json({sql_string(table)}, 'map<string,string>'), CAST("
        column = quoted(name)
        named = Identifier(len(head), len(head) + len(column), "row", name)
        return Expression(f"{head}{column} AS string)) AS {self.type})", (named,))


def _text(value: str | bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_key(text: str, spark_type: str) -> bool:
    """Return whether a text is that of a value of a key column."""
    read = _reader(spark_type)
    try:
        value = read(text) if read is not None else text
    except (ValueError, KeyError):
        return False
    return spark_type not in (*_WHOLE, "date") or str(value) == text


def _reader(spark_type: str) -> Callable[[str], Any] | None:
    """Return what reads the text of a value of a type, and raises where it is none; None for other types."""
    if spark_type in _WHOLE:
        return lambda text: _whole(text, _WHOLE[spark_type])
    if spark_type.startswith("decimal"):
        digits, scale = map(int, spark_type[len("decimal(") : -1].split(","))
        return lambda text: _decimal(text, digits, scale)
    found: dict[str, Callable[[str], Any]] = {
        "string": str,
        "double": float,
        "boolean": {"true": True, "false": False}.__getitem__,
        "date": _date,
    }
    return found.get(spark_type)


def _date(text: str) -> date:
    if len(text) != len("2024-01-31"):  # ISO has other forms, which Spark does not read
        raise ValueError(text)
    return date.fromisoformat(text)


def _whole(text: str, bits: int) -> int:
    value = int(text)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(text)
    return value


def _decimal(text: str, digits: int, scale: int) -> Decimal:
    value = Decimal(text)
    if not value.is_finite() or value != round(value, scale) or abs(value) >= Decimal(10) ** (digits - scale):
        raise ValueError(text)
    return value
