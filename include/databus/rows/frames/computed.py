"""Computed values: a column whose value comes from an expression over other columns of the same image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from databus.core.tables.schemas import ColumnSchema
from databus.rows.frames.expression import PSEUDO_COLUMNS, Expression

if TYPE_CHECKING:
    from databus.rows.frames.fields import Field

ADDED = "\1"
"""Begins the stored name of a column that a transform adds: no column of a table does, and no row holds it."""

_SOURCE_TYPES = {
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "text",
    "binary": "longblob",
    "date": "date",
    "timestamp": "timestamp(6)",
    "timestamp_ntz": "datetime(6)",
}
"""Spark type of a computed value → its type in the source's words."""

_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_DIGITS = 38
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


@dataclass(frozen=True)
class ImageColumns:
    """Columns of the rows that hold a value of each image.

    Attributes:
        before: name of the column of the before-image's value.
        after: that of the after-image's.
    """

    before: str
    after: str

    def of(self, image: str) -> str:
        """Return SQL of the value in an image ("before" or "after"); NULL where the row has lost the image since."""
        return f"CASE WHEN `{image}` IS NOT NULL THEN `{self.before if image == 'before' else self.after}` END"


@dataclass(frozen=True)
class Computed:
    """Computed value of an image: NULL where it is, absent where the image lacks one of the inputs.

    Of an input that the row flags no value is computed: it is NULL, and the row is held back
    (`databus.rows.frames.held`).

    Attributes:
        expression: over columns of one image, named without a qualifier.
        inputs: name in the expression → the column as it stood when the value was defined.
        type: Spark type of the value.
        clear: stored names of the inputs whose values no transform had hidden by then.
        columns: intermediate columns that hold the value (`databus.rows.frames.intermediate`); None without.
    """

    expression: Expression
    inputs: Mapping[str, Field] = field(hash=False)
    type: str = "string"
    clear: frozenset[str] = frozenset()
    columns: ImageColumns | None = field(default=None, kw_only=True, compare=False)

    def present(self, image: str) -> str:
        """Return SQL that is true where an image ("before" or "after") has all inputs."""
        return " AND ".join([f"`{image}` IS NOT NULL", *(each.present(image) for each in self._stored.values())])

    def flagged(self, image: str, but: Sequence[str] = ()) -> str:
        """Return SQL that is true where the row says of an input that it is not what its column's type says.

        Args:
            image: "before" or "after".
            but: reasons that do not count.
        """
        found = dict.fromkeys(each.flagged(image, but) for each in self.inputs.values())
        return "(" + (" OR ".join(sql for sql in found if sql) or "false") + ")"

    def meant(self, image: str) -> str:
        """Return SQL that is true where a value is computed: an image has all inputs, and none is flagged."""
        return f"{self.present(image)} AND NOT {self.flagged(image)}"

    def value(self, image: str) -> str:
        """Return SQL of the value in an image ("before" or "after"); NULL where it is not computed."""
        return self.definition(image) if self.columns is None else self.columns.of(image)

    def definition(self, image: str) -> str:
        """Return SQL that computes the value in an image from its inputs; NULL where it is not computed."""

        def access(name: str, _: str) -> str:
            found = self.inputs.get(name)
            return f"`{PSEUDO_COLUMNS[name.lower()]}`" if found is None else f"({found.typed(image)})"

        return f"CASE WHEN {self.meant(image)} THEN CAST({self.expression.bind(access)} AS {self.type}) END"

    def variant(self, image: str) -> str:
        """Return SQL of the value as VARIANT in the form of stored ones: SQL NULL where absent, VARIANT null for NULL.

        Temporals are ISO text (ADR 2), with six digits of a second.
        """
        value = self.value(image)
        if self.type == "date":
            value = f"CAST({value} AS STRING)"
        elif self.type in ("timestamp", "timestamp_ntz"):
            zone = ""
            if self.type == "timestamp":  # the session's zone is not asked
                seconds = f"CAST(CAST(unix_micros({value}) AS DECIMAL(20,0)) * 0.000001 AS DECIMAL(18,6))"
                value, zone = f"({_EPOCH} + make_dt_interval(0, 0, 0, {seconds}))", "Z"
            text = f"CAST({value} AS STRING)"  # date_format goes by an instant of the session's zone
            clock, fraction = f"replace(split_part({text}, '.', 1), ' ', 'T')", f"split_part({text}, '.', 2)"
            value = f"concat({clock}, '.', rpad({fraction}, 6, '0'), '{zone}')"
        return f"CASE WHEN {self.present(image)} THEN coalesce(CAST({value} AS VARIANT), parse_json('null')) END"

    def leaves(self) -> Iterator[str]:
        """Yield the stored names of the columns that the value comes from, each once."""
        yield from self._stored

    @cached_property
    def _stored(self) -> dict[str, Field]:
        """Stored columns that the value comes from, by their stored names."""
        found: dict[str, Field] = {}
        for each in self.inputs.values():
            found |= {each.source: each} if each.computed is None else each.computed._stored  # noqa: SLF001 - its own class
        return found


@dataclass(frozen=True)
class LookedUp(Computed):
    """Value that a small table has for the one input.

    Attributes:
        table: text of a key → text of its value.
    """

    table: Mapping[str, str] = field(default_factory=dict, hash=False)


def spark_type_named(text: str) -> str:
    """Return the one spelling of a Spark SQL type that a column may have: "INTEGER" → "int".

    Raises:
        ValueError: no type of a column.
    """
    name = text.strip().lower()
    if (found := _DECIMAL.fullmatch(name)) is not None:
        digits, scale = int(found[1] or 10), int(found[2] or 0)
        if scale <= digits <= _DIGITS and digits:
            return f"decimal({digits},{scale})"
    name = _ALIASES.get(name, name)
    if name not in _SOURCE_TYPES:
        raise ValueError(f"{text!r} is no type of a column: {', '.join(_SOURCE_TYPES)}, decimal(p,s) are")
    return name


def computed_column(name: str, spark_type: str) -> ColumnSchema:
    """Return the column of a computed value."""
    return ColumnSchema(name, _SOURCE_TYPES.get(spark_type, spark_type), spark_type)
