"""Rows that a transform holds back, as a value of theirs cannot become what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

    def failed(schema: TableSchema) -> list[tuple[str, str]]:
        pairs = columns.get(schema.schema_id, ())
        return [(old, _failed(before, after, schema.schema_id, old, new)) for old, new in pairs]

    return _with_held(after, kind, failed)


def with_flagged_held(before: FrameChanges, after: FrameChanges, kind: str, but: Sequence[str] = ()) -> FrameChanges:
    """Return the changes with rows held back in which a transform would compute a value from a flagged one.

    Such a value stands in another form than its column's: as bytes, as the place in the segment store where it is, as
    the text of a date that is none, or not at all. The cause names the kind and the columns: "truncate(note)".

    Args:
        before: the changes before the transform.
        after: what it makes of them.
        kind: of the transform.
        but: reasons of flags that do not count (`databus.rows.flags`).
    """

    def flagged(schema: TableSchema) -> list[tuple[str, str]]:
        former = {each.source: each.computed for each in before.fields[schema.schema_id]}
        return [
            (each.column.name, "(" + " OR ".join(each.computed.flagged(image, but) for image in IMAGES) + ")")
            for each in after.fields[schema.schema_id]
            if each.computed is not None and former.get(each.source) is not each.computed
        ]

    return _with_held(after, kind, flagged)


def _with_held(
    changes: FrameChanges, kind: str, conditions: Callable[[TableSchema], Sequence[tuple[str, str]]]
) -> FrameChanges:
    """Hold rows back for which the SQL of a column is true; `conditions` gives columns and SQL of a table."""
    found = {schema.schema_id: conditions(schema) for schema in changes.tables} if changes.rows is not None else {}
    if not any(found.values()):
        return changes
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    def cause_of(schema: TableSchema) -> Any | None:
        failed = found[schema.schema_id]
        if not failed:
            return None
        names = ", ".join(f"CASE WHEN {sql} THEN {sql_string(name)} END" for name, sql in failed)
        any_failed = " OR ".join(sql for _, sql in failed)
        return F.expr(
            f"CASE WHEN {any_failed} THEN concat({sql_string(kind + '(')}, concat_ws(', ', {names}), ')') END"
        )

    return changes.with_held(changes.per_table(cause_of, F.lit(None).cast("string")))


def _failed(before: FrameChanges, after: FrameChanges, number: int, old: str, new: str) -> str:
    field, made = before.field(old, before.schema(number)), after.field(new, after.schema(number))
    if field is None or made is None:
        raise AssertionError((old, new))
    return "(" + " OR ".join(f"({has_value(field, i)} AND {made.typed(i)} IS NULL)" for i in IMAGES) + ")"
