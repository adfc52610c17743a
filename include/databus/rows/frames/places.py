"""Places of a row: the routes and the key that it has now and had before by its values, and the copies that come of it.

A route that is chosen by value is a view of a table, as a filter is (`leaving`), and a key that is chosen names the row
to readers. An update that changes one of them is a delete in the old place and an insert in the new one; a statement
concerns all routes. These copies of one row are made behind the checks, which see each row once, and hold it back
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from databus.core.events import Op
from databus.rows.frames.fields import sql_string
from databus.rows.frames.leaving import CROSSES

ROUTES_NOW, ROUTES_WAS = "routes_now", "routes_was"
"""Columns (array<string>) of the routes of a row as it is and as it was; NULL where the column `route` says it."""

KEY_NOW, KEY_WAS = "key_now", "key_was"
"""Columns (binary) of the key that is chosen of a row as it is and as it was; NULL where the column `key` says it."""

PLACES = {ROUTES_NOW: "array<string>", ROUTES_WAS: "array<string>", KEY_NOW: "binary", KEY_WAS: "binary"}
"""Column → its type."""

COPIES = "copies"
"""Column (array<struct<route string, key binary, op string>>) of the copies that sinks are offered, in order."""

COPY = "copy"
"""Column (int) of the number of a copy among those of its row, from 0."""

ROW_OP, KEYED = "row_op", "keyed"
"""Columns beside it: op of the row itself, and whether the copy's key is a chosen one."""

ROUTE_TOLD = "route("
"""Beginning of the one cause that shows a value of a row: the one that is none of the routes."""

MOST_ROUTES = 16
"""Routes that one transform may choose among: `part` has 15 bits, of which DROP TABLE of many tables takes a share."""


def routes_array(routes: Sequence[str]) -> str:
    """Return SQL of an array of routes."""
    return f"array({', '.join(map(sql_string, routes))})"


def copies() -> str:
    """Return SQL of a row's copies: first the deletes, then what stays, then the inserts; there may be none."""
    was, now = _places(ROUTES_WAS, KEY_WAS), _places(ROUTES_NOW, KEY_NOW)
    return (
        f"CASE WHEN {CROSSES} THEN concat({_each(f'array_except({was}, {now})', Op.DELETE)},"
        f" {_each(f'array_intersect({now}, {was})', Op.UPDATE)},"
        f" {_each(f'array_except({now}, {was})', Op.CREATE)})"
        f" WHEN `op` = '{Op.DELETE}' THEN {_each(was, Op.DELETE)}"
        f" ELSE transform({now}, p -> {_copy('p.route', 'p.key', '`op`')}) END"
    )


def enters() -> str:
    """Return SQL that is true where an update comes to a place that it did not have."""
    was, now = _places(ROUTES_WAS, KEY_WAS), _places(ROUTES_NOW, KEY_NOW)
    return f"({CROSSES} AND size(array_except({now}, {was})) > 0)"


def copied(rows: Any, chosen: str, stride: int) -> Any:
    """Return the rows with each copy as a row of its own, numbered in `COPY`.

    A copy that is a delete or an insert of an update loses the image that such a row does not have, with what is said
    of it. `part` orders copies; where there are several, each has an event id of its own, with `.COPY` behind it. The
    hash of a chosen key is the caller's.

    Args:
        rows: DataFrame with `COPIES`.
        chosen: SQL that is true of the rows whose copies are made; the others stay as they are.
        stride: number that no row has more copies than.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    made = f"({chosen}) AND size(`{COPIES}`) > 0"
    each = f"CASE WHEN {made} THEN `{COPIES}` ELSE array({_copy('`route`', 'CAST(NULL AS BINARY)', '`op`')}) END"
    rows = rows.select("*", F.posexplode(F.expr(each)).alias(COPY, "_place"))
    inserted, deleted = (f"(`_place`.`op` <> `op` AND `_place`.`op` = '{op}')" for op in (Op.CREATE, Op.DELETE))
    changed = {
        "route": "`_place`.`route`",
        "op": "`_place`.`op`",
        "key": "coalesce(`_place`.`key`, `key`)",
        ROW_OP: "`op`",
        KEYED: "`_place`.`key` IS NOT NULL",
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


def _places(routes: str, key: str) -> str:
    return f"transform(coalesce(`{routes}`, array(`route`)), r -> named_struct('route', r, 'key', `{key}`))"


def _each(places: str, op: Op) -> str:
    return f"transform({places}, p -> {_copy('p.route', 'p.key', sql_string(op.value))})"


def _copy(route: str, key: str, op: str) -> str:
    return f"named_struct('route', {route}, 'key', {key}, 'op', {op})"
