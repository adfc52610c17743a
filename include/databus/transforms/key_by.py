"""KeyBy: give records another key than the source's primary key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from databus.core.errors.batch import TransformError
from databus.core.tables.schemas import ChosenKey, TableSchema
from databus.core.tables.wanted import ColumnsWanted
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.chosen import Choice
from databus.rows.frames.computing import key_of, quoted
from databus.rows.frames.expression import parse_expression
from databus.rows.frames.fields import Field as RowField
from databus.rows.frames.fields import sql_string
from databus.rows.frames.places import KEY_NOW, KEY_WAS
from databus.rows.frames.selection import EVERY_TABLE, columns_of, matches
from databus.transforms.table_transform import TableTransform

if TYPE_CHECKING:
    from databus.core import protocols

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")
_NO_KEY = ("float", "double", "json")


class KeyBy(TableTransform):
    """Key records by columns: `KeyBy("customer_id", tables=("shop.orders",))`.

    Key and partition are made of these columns as they are here, as the source makes them of a primary key: a topic
    keyed so lies partition by partition beside that of `shop.customers`, if both have as many. Order holds per key that
    is chosen; rows of one primary key stay in order while it does not change.

    An update that changes the key is a delete with the before-image under the old key and an insert with the
    after-image under the new one, with event ids that end in `.0` and `.1`.

    A row is held back as "key_by_null(column)" where the value is NULL, as "key_by_lacks(column)" where its images do
    not hold it (`binlog_row_image` MINIMAL or NOBLOB), or where its key changes and its after-image is not whole, and
    as "key_by_flagged(column)" where a value is not of its column's type.

    Sinks that keep rows by the source's key (search) are refused. So are compacted topics and `tombstones=True`, where
    the key is not `unique`: the end of one row would be the end of all that share its key.

    Attributes:
        columns: names in the order of the key, e.g. "customer_id"; FLOAT, DOUBLE and JSON are refused. For all tables
            ("*") those without one of them keep the source's key.
        unique: whether no two rows of a table share a key, e.g. of a unique index; default False.
    """

    kind: ClassVar[str] = "key_by"

    columns: tuple[str, ...] = Field(min_length=1)
    unique: bool = False

    def __init__(self, *columns: str, **options: Any):
        if columns:
            options["columns"] = columns
        super().__init__(**options)

    @field_validator("columns")
    @classmethod
    def _names_each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({name.casefold() for name in value}) < len(value):
            raise ValueError(f"{', '.join(value)} names a column twice: a key has each once")
        return value

    @property
    def most_copies(self) -> int:
        """Most copies of a row behind it: an update that changes the key is two."""
        return 2

    def transform(self, changes: FrameChanges) -> FrameChanges:
        """Choose the keys.

        Raises:
            TransformError: a table meant by name lacks a column, or one is of a type that is no key.
        """
        return self._noted(self._choice(changes).applied(changes))

    def compilable(self) -> bool:
        """Return true, but of a subclass: `reshape` may not say all that it does."""
        return type(self) is KeyBy

    def reshape(self, changes: protocols.Changes) -> protocols.Changes:
        """Note the keys.

        Raises:
            TransformError: a table meant by name lacks a column, or one is of a type that is no key.
        """
        if not isinstance(changes, FrameChanges):
            raise TransformError(f"{self.kind} needs the typed view of rows, got {type(changes).__name__}")
        return self._noted(self._choice(changes).noted_step(changes, "key", self.columns))

    def columns_after(self, changes: protocols.Changes) -> protocols.Changes:
        """Return the changes with the keys of their tables, for lineage.

        Raises:
            TransformError: a table meant by name lacks a column, or one is of a type that is no key.
        """
        if not isinstance(changes, FrameChanges):
            raise TransformError(f"{self.kind} needs the typed view of rows, got {type(changes).__name__}")
        return self._noted(changes)

    def chosen_key(self, table: str) -> ChosenKey | None:
        """Return the key of a table that is meant."""
        return ChosenKey(self.columns, self.unique) if matches(table, self.tables) else None

    def wants(self) -> ColumnsWanted:
        """Return the columns: a table meant by name or pattern must have them all."""
        return ColumnsWanted(self.columns, self.tables, in_every=self.tables != EVERY_TABLE)

    def judges(self, changes: protocols.Changes, table: TableSchema) -> tuple[str, ...]:
        """Return the columns: a row in which one is NULL is held back."""
        if not isinstance(changes, FrameChanges):
            return ()
        found = (
            field for schema, fields in self._keyed(changes) if schema.schema_id == table.schema_id for field in fields
        )
        return tuple(dict.fromkeys(leaf for field in found for leaf in field.leaves()))

    def label(self) -> str:
        """Return the columns."""
        return f"key by {', '.join(self.columns)}"

    def _keyed(self, changes: FrameChanges) -> Iterator[tuple[TableSchema, list[RowField]]]:
        """Yield each table that has all columns, with these; of the others that are meant by name one is missed.

        Raises:
            TransformError: a table meant by name lacks a column, or one is of a type that is no key.
        """
        for schema, names in columns_of(changes, self.tables, self.columns, self.label()):
            fields = [changes.require(name, schema, self.label()) for name in names]
            if len(fields) < len(self.columns):
                continue
            for field in fields:
                if field.column.spark_type in _NO_KEY or field.column.type in _NO_KEY:
                    raise TransformError(
                        f"{self.label()}: {field.column.name} of {schema.full_name} is {field.column.type}, of which "
                        "equal values may have several texts",
                        hint="Cast it to decimal or string before, or choose another column.",
                        code="key_column_type",
                    )
            yield schema, fields

    def _choice(self, changes: FrameChanges) -> _KeyChoice:
        schemas = frozenset(schema.schema_id for schema, _ in self._keyed(changes))
        return _KeyChoice(self.label(), schemas, self.columns)

    def _noted(self, changes: FrameChanges) -> FrameChanges:
        for schema, fields in list(self._keyed(changes)):
            changes = changes.with_key(schema, key_of(changes, schema, fields))
        return changes


class _KeyChoice(Choice):
    """Choice of the key of rows of some schemas; statements have none."""

    def __init__(self, what: str, schemas: frozenset[int], names: tuple[str, ...]):
        columns = [parse_expression(quoted(name)) for name in names]
        super().__init__(KeyBy.kind, what, (), columns, (KEY_NOW, KEY_WAS))
        self._schemas, self._names = schemas, names

    def means(self, schema: TableSchema) -> bool:
        """Return whether rows of a schema are meant."""
        return schema.schema_id in self._schemas

    def value(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        """Return SQL of the key's bytes: canonical JSON, as of a primary key."""
        parts, between = [], "{"
        for field in (changes.require(name, schema, self.what) for name in self._names):
            parts += [sql_string(f"{between}{json.dumps(field.column.name, ensure_ascii=False)}:")]
            parts += [_literal(field, image)]
            between = ","
        return f"CAST(concat({', '.join(parts)}, '}}') AS BINARY)"

    def outside(self, changes: FrameChanges, schema: TableSchema, image: str) -> str:
        """Return SQL of "key_by_null(column)" where an image has NULL for a column."""
        fields = [changes.require(name, schema, self.what) for name in self._names]
        nulls = [f"coalesce(is_variant_null({field.raw(image)}), true)" for field in fields]
        names = ", ".join(
            f"CASE WHEN {null} THEN {sql_string(name)} END" for null, name in zip(nulls, self._names, strict=True)
        )
        said = f"concat('{KeyBy.kind}_null(', concat_ws(', ', {names}), ')')"
        return f"(CASE WHEN {' OR '.join(nulls)} THEN {said} END)"


def _literal(field: RowField, image: str) -> str:
    """Return SQL of a value as a JSON literal: numbers with the digits of their type, all else quoted."""
    if field.column.spark_type.startswith(_NUMBERS) and not field.rewrites:
        return f"CAST({field.typed(image)} AS STRING)"
    return f"to_json({field.variant(image)})"
