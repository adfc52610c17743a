"""Date functions: fields, steps and starts of dates, and their texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from databus.expressions.casts import cast_kernel
from databus.expressions.functions.registry import Arguments, Resolve, Resolved, register
from databus.expressions.kernels import calendar, clock, date_texts
from databus.expressions.kernels.vectors import RowValues, Vector, vectorized

DAYS: dict[str, Callable[[Vector], Vector]] = {
    "year": calendar.year,
    "quarter": calendar.quarter,
    "month": calendar.month,
    "day": calendar.day_of_month,
    "dayofmonth": calendar.day_of_month,
    "dayofweek": calendar.day_of_week,
    "weekday": calendar.weekday,
    "dayofyear": calendar.day_of_year,
    "weekofyear": calendar.week_of_year,
}
"""Function → field of a date."""
TIMES = ("date", "timestamp", "timestamp_ntz")
UP_TO_INT = ("tinyint", "smallint", "int")
_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


def of_date(function: Callable[..., Any], kind: str, arrow: pa.DataType) -> Resolve:
    """Return the resolve function of a function of one date; of a timestamp it is the day.

    Args:
        function: days since 1970-01-01 → values.
        kind: Spark type of the result.
        arrow: its Arrow type.
    """

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 1 or found.types[0] not in TIMES:
            raise found.refused()
        return Resolved(kind, ("date",), vectorized(function, arrow))

    return resolve_it


def _date_and_days(function: Callable[..., Any]) -> Resolve:
    """Return the resolve function of a function of a date and a number of days or months."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 2 or found.types[0] not in TIMES or found.types[1] not in UP_TO_INT:
            raise found.refused()
        return Resolved("date", ("date", "int"), vectorized(function, pa.date32()))

    return resolve_it


def _add(days: Vector, more: Vector) -> Vector:
    return days + more  # wraps, as Java's int does


def _subtract(days: Vector, fewer: Vector) -> Vector:
    return days - fewer


def _difference(found: Arguments) -> Resolved:
    if len(found) != 2 or not set(found.types) <= set(TIMES):
        raise found.refused()
    return Resolved("int", ("date", "date"), vectorized(_subtract, pa.int32()))


def _next_day(found: Arguments) -> Resolved:
    if len(found) != 2 or found.types[0] not in TIMES or found.types[1] != "string":
        raise found.refused()
    name = str(found.literal(1)).upper()
    wanted = [at for at, whole in enumerate(_WEEKDAYS) if name in (whole, whole[:2], whole[:3])]
    if not wanted:
        raise found.refused("day of the week")
    step = vectorized(partial(calendar.next_day, weekday_wanted=wanted[0]), pa.date32())
    return Resolved("date", ("date", "string"), lambda days, _: step(days))


def _truncated(found: Arguments) -> Resolved:
    if len(found) != 2 or found.types[0] not in TIMES or found.types[1] != "string":
        raise found.refused()
    unit = clock.unit_of(str(found.literal(1)))
    function = clock.truncated_dates(unit) if unit else None
    if function is None:
        raise found.refused("unit")
    step = vectorized(function, pa.date32())
    return Resolved("date", ("date", "string"), lambda days, _: step(days))


def _make_date(found: Arguments) -> Resolved:
    if len(found) != 3 or not set(found.types) <= set(UP_TO_INT):
        raise found.refused()
    return Resolved("date", ("int", "int", "int"), vectorized(calendar.make_date, pa.date32()))


def _of_text(found: Arguments) -> Resolved:
    """Resolve `to_date` without a format: a cast."""
    if len(found) != 1 or found.types[0] not in (*TIMES, "string"):
        raise found.refused()
    return Resolved("date", ("date",), lambda value: value)


def _try_of_text(found: Arguments) -> Resolved:
    if len(found) != 1 or found.types[0] not in (*TIMES, "string"):
        raise found.refused()
    return Resolved("date", found.types, cast_kernel(found.types[0], "date", False))


def _from_days(found: Arguments) -> Resolved:
    if len(found) != 1 or found.types[0] not in UP_TO_INT:
        raise found.refused()
    return Resolved("date", ("int",), vectorized(RowValues, pa.date32()))


def _unix_date(found: Arguments) -> Resolved:
    if found.types != ("date",):
        raise found.refused()
    return Resolved("int", ("date",), vectorized(lambda days: days.astype(np.int32), pa.int32()))


for _name, _field in DAYS.items():
    register(_name, resolve=of_date(_field, "int", pa.int32()))
register("dayname", resolve=of_date(date_texts.day_names, "string", pa.string()))
register("monthname", resolve=of_date(date_texts.month_names, "string", pa.string()))
register("last_day", resolve=of_date(calendar.last_day, "date", pa.date32()))
register("date_add", "dateadd", resolve=_date_and_days(_add))
register("date_sub", resolve=_date_and_days(_subtract))
register("add_months", resolve=_date_and_days(calendar.add_months))
register("datediff", "date_diff", resolve=_difference)
register("next_day", resolve=_next_day)
register("trunc", resolve=_truncated)
register("make_date", resolve=_make_date)
register("to_date", resolve=_of_text)
register("try_to_date", resolve=_try_of_text)
register("date_from_unix_date", resolve=_from_days)
register("unix_date", resolve=_unix_date)
