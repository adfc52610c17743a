"""Rows that a transform holds back, as a value of theirs cannot become what it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.holding import Failure, FlaggedInput, Holding
from databus.rows.frames.intermediate import with_intermediate_columns


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
    after = with_intermediate_columns(after)  # each value is looked at several times
    failing = {
        number: tuple(_failure(before, after, number, old, new) for old, new in pairs)
        for number, pairs in columns.items()
    }
    return after.with_holding(Holding(kind, failing))


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
    flagged: dict[int, tuple[FlaggedInput, ...]] = {}
    for number, fields in after.fields.items():
        former = {each.source: each.computed for each in before.fields[number]}
        flagged[number] = tuple(
            FlaggedInput(each.column.name, each.computed, tuple(but))
            for each in fields
            if each.computed is not None and former.get(each.source) is not each.computed
        )
    return after.with_holding(Holding(kind, flagged))


def _failure(before: FrameChanges, after: FrameChanges, number: int, old: str, new: str) -> Failure:
    field, made = before.field(old, before.schema(number)), after.field(new, after.schema(number))
    if field is None or made is None:
        raise AssertionError((old, new))
    return Failure(old, field, made)
