"""Causes for which a transform holds rows back, as values: Spark SQL is made of them, and the direct lane's masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from databus.rows.frames.computed import Computed
from databus.rows.frames.fields import Field, sql_string

IMAGES = ("before", "after")


@dataclass(frozen=True)
class Failure:
    """Failure of a column: its value in an image became NULL, and was not.

    Attributes:
        name: the column as the cause names it.
        old: the column before the transform.
        made: what came of it.
    """

    name: str
    old: Field
    made: Field

    @property
    def sql(self) -> str:
        """SQL that is true where it is so in either image."""
        return "(" + " OR ".join(f"({has_value(self.old, i)} AND {self.made.typed(i)} IS NULL)" for i in IMAGES) + ")"


@dataclass(frozen=True)
class FlaggedInput:
    """Flagged input of a computed column.

    Attributes:
        name: the column as the cause names it.
        computed: its value.
        but: reasons of flags that do not count.
    """

    name: str
    computed: Computed
    but: tuple[str, ...]

    @property
    def sql(self) -> str:
        """SQL that is true where it is so in either image."""
        return "(" + " OR ".join(self.computed.flagged(image, self.but) for image in IMAGES) + ")"


@dataclass(frozen=True)
class Holding:
    """Rows of some tables that a transform holds back.

    Attributes:
        kind: of the transform; the cause is its name with the columns: "cast(amount, code)".
        columns: schema_id → what of its columns counts, in order.
    """

    kind: str
    columns: Mapping[int, Sequence[Failure | FlaggedInput]]

    def cause(self, schema_id: int) -> str | None:
        """Return SQL of the cause of a table's rows, NULL where they go on; None where none of them is held back."""
        found = self.columns.get(schema_id)
        if not found:
            return None
        names = ", ".join(f"CASE WHEN {each.sql} THEN {sql_string(each.name)} END" for each in found)
        any_failed = " OR ".join(each.sql for each in found)
        return f"CASE WHEN {any_failed} THEN concat({sql_string(self.kind + '(')}, concat_ws(', ', {names}), ')') END"


def has_value(field: Field, image: str) -> str:
    """Return SQL that is true where an image holds a column and it is not NULL, of its type or not."""
    raw = field.raw(image)
    return f"coalesce({raw} IS NOT NULL AND NOT is_variant_null({raw}), false)"
