"""Typed access to the columns inside `before` and `after`, as Spark SQL text.

SQL text rather than Column objects: it works on classic and Connect sessions alike, and is tested without either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from databus.core.errors.batch import TransformError
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.frames.computed import Computed, ImageColumns

Rewrite = Callable[[str], str]
"""SQL of a value's text (bytes, for binary columns) → SQL of the text that takes its place; NULL is kept outside."""


@dataclass(frozen=True)
class Field:
    """Row field: one column as the transforms so far left it.

    Attributes:
        column: its present name and type.
        source: its name inside the stored VARIANT; of a column that a transform adds, one that no row holds.
        stored_binary: whether the stored value, or the computed one, is binary.
        rewrites: what has replaced its value by text, in order.
        computed: expression of its value, before the rewrites; None where it is the stored one.
        texts: intermediate columns of the text behind the first rewrites (`databus.rows.frames.intermediate`); None
            without.
        settled: number of the rewrites that `texts` has behind it.
    """

    column: ColumnSchema
    source: str
    stored_binary: bool = False
    rewrites: tuple[Rewrite, ...] = ()
    computed: Computed | None = None
    texts: ImageColumns | None = None
    settled: int = 0

    @classmethod
    def of_computed(cls, column: ColumnSchema, source: str, computed: Computed) -> Field:
        """Return a column of a computed value; `source` is the stored name of the one in whose place it is."""
        return cls(column, source, computed.type == "binary", computed=computed)

    @property
    def stored(self) -> bool:
        """Flag of a column whose value is the stored one."""
        return self.computed is None and not self.rewrites

    def leaves(self) -> tuple[str, ...]:
        """Return the stored names of the columns that its value comes from, each once."""
        return (self.source,) if self.computed is None else tuple(dict.fromkeys(self.computed.leaves()))

    def renamed(self, name: str) -> Field:
        """Return the field under another name."""
        return replace(self, column=replace(self.column, name=name))

    def rewritten(self, rewrite: Rewrite) -> Field:
        """Return the field with its value replaced by text; NULL stays NULL, absent stays absent."""
        text = replace(self.column, type="text", spark_type="string")
        return replace(self, column=text, rewrites=(*self.rewrites, rewrite))

    def raw(self, image: str) -> str:
        """Return SQL of the stored or computed value as VARIANT; SQL NULL where the image has no such column."""
        if image in ("before", "after"):
            if self.computed is not None:
                return self.computed.variant(image)
            path = sql_string(variant_path(self.source))
            return f"variant_get(`{image}`, {path}, 'variant')"
        return f"coalesce({self.raw('after')}, {self.raw('before')})"

    def present(self, image: str) -> str:
        """Return SQL that is true where an image ("before" or "after") has the column, NULL or not."""
        return f"({self.raw(image)} IS NOT NULL)" if self.computed is None else f"({self.computed.present(image)})"

    def flagged(self, image: str, but: Sequence[str] = ()) -> str:
        """Return SQL that is true where the row flags the stored value in an image (see `databus.rows.flags`).

        It is "" for a computed value: a flag of its inputs has held the row back where it was defined.

        Args:
            image: "before" or "after".
            but: reasons that do not count.
        """
        if self.computed is not None:
            return ""
        start = f"{image}.{self.source}:"
        hit = f"startswith(f, {sql_string(start)}) AND locate(':', f, {len(start) + 1}) = 0"
        hit += "".join(f" AND f <> {sql_string(start + reason)}" for reason in but)
        return f"coalesce(exists(`flags`, f -> {hit}), false)"

    def variant(self, image: str) -> str:
        """Return SQL of the value as VARIANT: SQL NULL where absent, VARIANT null for NULL."""
        raw = self.raw(image)
        if not self.rewrites:
            return raw
        new = f"CAST({self._rewritten(image)} AS VARIANT)"
        return f"CASE WHEN {raw} IS NULL OR is_variant_null({raw}) THEN {raw} ELSE {new} END"

    def typed(self, image: str) -> str:
        """Return SQL of the value as the column's Spark type; NULL where absent, NULL or not of that type."""
        if self.rewrites:
            raw = self.raw(image)
            return f"CASE WHEN {raw} IS NOT NULL AND NOT is_variant_null({raw}) THEN {self._rewritten(image)} END"
        if self.computed is not None:
            if image in ("before", "after"):
                return self.computed.value(image)
            after, before = self.computed.value("after"), self.computed.value("before")
            return f"CASE WHEN {self.present('after')} THEN {after} ELSE {before} END"
        if image in ("before", "after"):
            path = sql_string(variant_path(self.source))
            return f"try_variant_get(`{image}`, {path}, '{self.column.spark_type}')"
        return f"try_variant_get({self.raw(image)}, '$', '{self.column.spark_type}')"

    def _rewritten(self, image: str) -> str:
        value = self._text(image)
        for rewrite in self.rewrites[self.settled :]:
            value = rewrite(value)
        return value

    def _text(self, image: str) -> str:
        if self.texts is None:
            # The stored value speaks for itself: decimals print without exponent and trailing zeros, temporals are ISO
            # text.
            return f"variant_get({self.raw(image)}, '$', '{'binary' if self.stored_binary else 'string'}')"
        if image in ("before", "after"):
            return self.texts.of(image)
        after, before = self.texts.of("after"), self.texts.of("before")
        return f"CASE WHEN {self.present('after')} THEN {after} ELSE {before} END"


def fields_of(schema: TableSchema) -> tuple[Field, ...]:
    """Return the fields of rows that no transform has touched."""
    return tuple(Field(c, c.name, c.spark_type == "binary") for c in schema.columns)


def field_named(fields: Sequence[Field], name: str) -> Field | None:
    """Return a field by name, None without; the exact name wins, else, as in MySQL, case does not matter."""
    for each in fields:
        if each.column.name == name:
            return each
    near = [each for each in fields if each.column.name.casefold() == name.casefold()]
    return near[0] if len(near) == 1 else None


def variant_path(name: str) -> str:
    """Return the path of a top-level field, in the one notation of Spark's three that can say the name.

    Raises:
        TransformError: a name that no notation can say.
    """
    if "'" not in name and "?" not in name:
        return f"$['{name}']"
    if '"' not in name and "?" not in name:
        return f'$["{name}"]'
    if "." not in name and "[" not in name:
        return f"$.{name}"
    raise TransformError(
        f"the column name {name!r} cannot be said in a VARIANT path",
        hint="Names that mix quotes, '?', '.' and '[' cannot be used in transforms and checks.",
    )


def sql_string(text: str) -> str:
    """Return a Spark SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
