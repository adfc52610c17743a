"""Places of a row: the routes that it has now and had before by its values, and the copies that come of them.

A route that is chosen by value is a view of a table, as a filter is (`leaving`). An update that leaves one view and
enters another is a delete in the first and an insert in the second; a statement concerns all of them. These copies of
one row are made behind the checks, which see each row once, and hold it back whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from databus.core.events import Op
from databus.rows.frames.fields import sql_string
from databus.rows.frames.leaving import CROSSES

NOW, WAS = "routes_now", "routes_was"
"""Columns (array<string>) of the routes of a row as it is and as it was; NULL where a table's route is the row's."""

COPIES = "copies"
"""Column (array<struct<route string, op string>>) of the copies that sinks are offered, in order; may be empty."""

COPY = "copy"
"""Column (int) of the number of a copy among those of its row, from 0."""

ROW_OP = "row_op"
"""Column (string) beside it: the op of the row itself."""

MOST_ROUTES = 16
"""Routes that one transform may choose among: `part` has 15 bits, of which DROP TABLE of many tables takes a share."""


def routes_array(routes: Sequence[str]) -> str:
    """Return SQL of an array of routes."""
    return f"array({', '.join(map(sql_string, routes))})"


def copies() -> str:
    """Return SQL of a row's copies: first the deletes, then what stays, then the inserts."""
    return (
        f"CASE WHEN `{NOW}` IS NULL THEN array({_copy('`route`', '`op`')})"
        f" WHEN {CROSSES} THEN concat({_each(f'array_except(`{WAS}`, `{NOW}`)', Op.DELETE)},"
        f" {_each(f'array_intersect(`{NOW}`, `{WAS}`)', Op.UPDATE)},"
        f" {_each(f'array_except(`{NOW}`, `{WAS}`)', Op.CREATE)})"
        f" WHEN `op` = '{Op.DELETE}' THEN {_each(f'`{WAS}`', Op.DELETE)}"
        f" ELSE transform(`{NOW}`, r -> {_copy('r', '`op`')}) END"
    )


def enters() -> str:
    """Return SQL that is true where an update comes to a route that it did not have."""
    return f"({CROSSES} AND size(array_except(`{NOW}`, `{WAS}`)) > 0)"


def copied(rows: Any, chosen: str, stride: int) -> Any:
    """Return the rows with each copy as a row of its own, numbered in `COPY`.

    A copy that is a delete or an insert of an update loses the image that such a row does not have, with what is said
    of it. `part` orders copies; where there are several, each has an event id of its own, with `.COPY` behind it.

    Args:
        rows: DataFrame with `COPIES`.
        chosen: SQL that is true of the rows whose copies are made; the others stay as they are.
        stride: number that no row has more copies than.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    made = f"({chosen}) AND size(`{COPIES}`) > 0"
    each = f"CASE WHEN {made} THEN `{COPIES}` ELSE array({_copy('`route`', '`op`')}) END"
    rows = rows.select("*", F.posexplode(F.expr(each)).alias(COPY, "_place"))
    inserted, deleted = (f"(`_place`.`op` <> `op` AND `_place`.`op` = '{op}')" for op in (Op.CREATE, Op.DELETE))
    changed = {
        "route": "`_place`.`route`",
        "op": "`_place`.`op`",
        ROW_OP: "`op`",
        "before": f"CASE WHEN NOT {inserted} THEN `before` END",
        "after": f"CASE WHEN NOT {deleted} THEN `after` END",
        "flags": f"nullif(CASE WHEN {inserted} THEN filter(`flags`, f -> startswith(f, 'after.'))"
        f" WHEN {deleted} THEN filter(`flags`, f -> startswith(f, 'before.')) ELSE `flags` END, array())",
        "absent": f"CASE WHEN NOT {deleted} THEN `absent` END",
        "part": f"CAST(`part` * {stride} + `{COPY}` AS SMALLINT)",
        "event_id": f"CASE WHEN {made} AND size(`{COPIES}`) > 1 THEN concat(`event_id`, '.', `{COPY}`)"
        " ELSE `event_id` END",
    }
    return rows.withColumns({name: F.expr(sql) for name, sql in changed.items()}).drop("_place")


def _each(routes: str, op: Op) -> str:
    return f"transform({routes}, r -> {_copy('r', sql_string(op.value))})"


def _copy(route: str, op: str) -> str:
    return f"named_struct('route', {route}, 'op', {op})"
