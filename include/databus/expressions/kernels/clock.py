"""Clock of timestamps: fields and units of microseconds since 1970-01-01, in UTC, the time zone of every session."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from databus.expressions.kernels import calendar
from databus.expressions.kernels.vectors import RowValues, Vector

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
JAVA_OVERFLOW: Final = "java.lang.ArithmeticException"
"""Error without a class of Spark's."""
_LAST_DAY = 106_751_991
"""Days of which microseconds fit into 64 bits."""
_OFFSET = re.compile(r"([+-])(0\d|1[0-7]):([0-5]\d)")

UNITS: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND,
    "MINUTE": MINUTE,
    "HOUR": HOUR,
    "DAY": DAY,
}
"""Unit of a fixed length → microseconds."""

_STARTS: dict[str, Callable[[Vector], Vector]] = {
    "WEEK": calendar.first_of_week,
    "MONTH": calendar.first_of_month,
    "QUARTER": calendar.first_of_quarter,
    "YEAR": calendar.first_of_year,
}
_SYNONYMS = {"DD": "DAY", "MON": "MONTH", "MM": "MONTH", "YYYY": "YEAR", "YY": "YEAR"}


def date(micros: Vector) -> Vector:
    """Return the days of timestamps."""
    return (micros // DAY).astype(np.int32)


def midnight(days: Vector) -> RowValues:
    """Return the timestamps at which dates begin."""
    whole = days.astype(np.int64)
    return RowValues(whole * DAY, failures={JAVA_OVERFLOW: np.abs(whole) > _LAST_DAY})


def hour(micros: Vector) -> Vector:
    """Return the hour, 0 to 23."""
    return (micros % DAY // HOUR).astype(np.int32)


def minute(micros: Vector) -> Vector:
    """Return the minute, 0 to 59."""
    return (micros % HOUR // MINUTE).astype(np.int32)


def second(micros: Vector) -> Vector:
    """Return the second, 0 to 59."""
    return (micros % MINUTE // SECOND).astype(np.int32)


def floored(unit: int) -> Callable[[Vector], Vector]:
    """Return the function from timestamps to whole units since 1970-01-01, rounded down."""
    return lambda micros: micros // unit


def seconds_toward_zero(micros: Vector) -> Vector:
    """Return the whole seconds since 1970-01-01, without their fraction."""
    return np.asarray(micros // SECOND + ((micros % SECOND != 0) & (micros < 0)))


def scaled(unit: int) -> Callable[[Vector], RowValues]:
    """Return the function from a count of units since 1970-01-01 to timestamps."""

    def timestamps(counts: Vector) -> RowValues:
        whole = counts.astype(np.int64)
        made = whole * unit
        return RowValues(made, failures={JAVA_OVERFLOW: made // unit != whole})

    return timestamps


def offset_of(zone: str) -> int | None:
    """Return a zone's offset from UTC; None unless it is UTC or of the form ±hh:mm."""
    if zone == "UTC":
        return 0
    found = _OFFSET.fullmatch(zone)
    return None if found is None else (int(found[2]) * HOUR + int(found[3]) * MINUTE) * (-1 if found[1] == "-" else 1)


def shifted(by: int) -> Callable[[Vector], RowValues]:
    """Return the function from timestamps to those some microseconds later."""

    def later(micros: Vector) -> RowValues:
        made = micros + by
        return RowValues(made, failures={JAVA_OVERFLOW: ((made < micros) != (by < 0)) & (by != 0)})

    return later


def unit_of(text: str) -> str | None:
    """Return the unit that a format names, in any case; None if no unit has this name."""
    name = _SYNONYMS.get(text.upper(), text.upper())
    return name if name in UNITS or name in _STARTS else None


def truncated_dates(unit: str) -> Callable[[Vector], RowValues] | None:
    """Return the function from dates to the first day of their unit; None for units that `trunc` does not know."""
    start = _STARTS.get(unit)
    if start is None:
        return None

    def first(days: Vector) -> RowValues:
        made = start(days)
        failures = {"ARITHMETIC_OVERFLOW": calendar.beyond_int32(made)} if unit == "QUARTER" else {}
        return RowValues(made.astype(np.int32), failures=failures)  # the others wrap, as Java's int does

    return first


def truncated_timestamps(unit: str) -> Callable[[Vector], Vector | RowValues]:
    """Return the function from timestamps to the start of their unit."""
    if unit not in UNITS:
        return lambda micros: midnight(_STARTS[unit](micros // DAY))
    length = UNITS[unit]

    def start(micros: Vector) -> RowValues:
        made = micros - micros % length
        wrapped = made > micros
        return RowValues(made, failures={JAVA_OVERFLOW: wrapped} if length >= MINUTE else {})

    return start


def months_between(rounds: bool) -> Callable[[Vector, Vector], RowValues]:
    """Return the function from two timestamps to the months between them, a month of 31 days for what is left.

    Args:
        rounds: whether to 8 digits.
    """

    def months(later: Vector, earlier: Vector) -> RowValues:
        (years1, months1, day1), (years2, months2, day2) = (calendar.civil(each // DAY) for each in (later, earlier))
        whole = (years1 * 12 + months1 - years2 * 12 - months2).astype(np.float64)
        ends = (day1 == calendar.month_length(years1, months1)) & (day2 == calendar.month_length(years2, months2))
        seconds = (day1 - day2) * 86_400 + later % DAY // SECOND - earlier % DAY // SECOND
        exact = whole + seconds.astype(np.float64) / (31 * 86_400.0)
        if rounds:
            raised = exact * 1e8
            down = np.floor(raised)
            exact = (down + (raised - down >= 0.5)) / 1e8
        even = (day1 == day2) | ends
        beyond = (np.abs(later // DAY) > _LAST_DAY) | (np.abs(earlier // DAY) > _LAST_DAY)
        return RowValues(np.where(even, whole, exact), failures={JAVA_OVERFLOW: beyond & ~even})

    return months


def make_timestamp(
    years: Vector, months: Vector, day: Vector, hours: Vector, minutes: Vector, micros: Vector
) -> RowValues:
    """Return timestamps of their fields.

    Args:
        years: year; months, day, hours, minutes likewise.
        months: month.
        day: day of the month.
        hours: hour.
        minutes: minute.
        micros: microseconds of the minute; 60 s are the next minute's first.
    """
    dates = calendar.make_date(years, months, day)
    hours, minutes = hours.astype(np.int64), minutes.astype(np.int64)
    bad = (hours < 0) | (hours > 23) | (minutes < 0) | (minutes > 59) | (micros < 0) | (micros > MINUTE)
    for failed in dates.failures.values():
        bad = bad | failed
    made = dates.values.astype(np.int64) * DAY + hours * HOUR + minutes * MINUTE + micros
    return RowValues(made, failures={calendar.OUT_OF_BOUNDS: bad})
