"""Rows that a transform holds back, as a value of theirs cannot become what it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field, sql_string

IMAGES = ("before", "after")


def has_value(field: Field, image: str) -> str:
    """Return SQL that is true where an image holds a column and it is not NULL, of its type or not."""
    raw = field.raw(image)
    return f"coalesce({raw} IS NOT NULL AND NOT is_variant_null({raw}), false)"


def with_failures_held(
    before: FrameChanges, after: FrameChanges, kind: str, columns: Mapping[int, Sequence[tuple[str, str]]]
) -> FrameChanges:
    """Return the changes with rows held back in which a value became NULL that was not.

    The cause names the kind and the columns: "cast(amount, code)".

    Args:
        before: the changes before the transform.
        after: what it makes of them.
        kind: of the transform.
        columns: schema_id → names of a column before it and of what came of it.
    """
    if after.rows is None:
        return after
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    def cause_of(schema: TableSchema) -> Any | None:
        pairs = columns.get(schema.schema_id)
        if not pairs:
            return None
        failed = [(old, _failed(before, after, schema.schema_id, old, new)) for old, new in pairs]
        names = ", ".join(f"CASE WHEN {sql} THEN {sql_string(name)} END" for name, sql in failed)
        any_failed = " OR ".join(sql for _, sql in failed)
        return F.expr(
            f"CASE WHEN {any_failed} THEN concat({sql_string(kind + '(')}, concat_ws(', ', {names}), ')') END"
        )

    return after.with_held(after.per_table(cause_of, F.lit(None).cast("string")))


def _failed(before: FrameChanges, after: FrameChanges, number: int, old: str, new: str) -> str:
    field, made = before.field(old, before.schema(number)), after.field(new, after.schema(number))
    if field is None or made is None:
        raise AssertionError((old, new))
    return "(" + " OR ".join(f"({has_value(field, i)} AND {made.typed(i)} IS NULL)" for i in IMAGES) + ")"
