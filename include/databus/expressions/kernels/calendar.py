"""Calendar of dates: the proleptic Gregorian calendar as java.time has it, over days since 1970-01-01.

Days ↔ civil dates after H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"; exact for every int64 that counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from databus.expressions.kernels.vectors import RowValues, Vector

OUT_OF_BOUNDS: Final = "DATETIME_FIELD_OUT_OF_BOUNDS"
_SHIFT = 719_468  # days from 0000-03-01
_LAST_YEAR = 999_999_999
_LENGTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


def civil(days: Vector) -> tuple[Vector, Vector, Vector]:
    """Return year, month and day of days since 1970-01-01."""
    shifted = days.astype(np.int64) + _SHIFT
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153  # from March
    day = of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def days_of(year: Vector, month: Vector, day: Vector) -> Vector:
    """Return days since 1970-01-01 of a civil date."""
    moved = year.astype(np.int64) - (month <= 2)
    era = moved // 400
    year_of_era = moved - era * 400
    of_year = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    return np.asarray(era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - _SHIFT)


def month_length(year: Vector, month: Vector) -> Vector:
    """Return the number of days of months."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return np.asarray(_LENGTHS[month] + (leap & (month == 2)))


def year(days: Vector) -> Vector:
    """Return the year; that before 0001 is 0."""
    return civil(days)[0].astype(np.int32)


def quarter(days: Vector) -> Vector:
    """Return the quarter, 1 to 4."""
    return ((civil(days)[1] + 2) // 3).astype(np.int32)


def month(days: Vector) -> Vector:
    """Return the month, 1 to 12."""
    return civil(days)[1].astype(np.int32)


def day_of_month(days: Vector) -> Vector:
    """Return the day of the month, 1 to 31."""
    return civil(days)[2].astype(np.int32)


def day_of_year(days: Vector) -> Vector:
    """Return the day of the year, 1 to 366."""
    one = np.int64(1)
    first = days_of(civil(days)[0], np.full(len(days), one), np.full(len(days), one))
    return (days.astype(np.int64) - first + 1).astype(np.int32)


def weekday(days: Vector) -> Vector:
    """Return the day of the week, Monday = 0."""
    return ((days.astype(np.int64) + 3) % 7).astype(np.int32)


def day_of_week(days: Vector) -> Vector:
    """Return the day of the week, Sunday = 1."""
    return ((days.astype(np.int64) + 4) % 7 + 1).astype(np.int32)


def day_of_week_iso(days: Vector) -> Vector:
    """Return the day of the week, Monday = 1."""
    return weekday(days) + np.int32(1)


def year_of_week(days: Vector) -> Vector:
    """Return the year that the ISO week belongs to: that of its Thursday."""
    return year(days.astype(np.int64) - weekday(days) + 3)


def week_of_year(days: Vector) -> Vector:
    """Return the ISO week, 1 to 53."""
    return (day_of_year(days.astype(np.int64) - weekday(days) + 3) - 1) // 7 + np.int32(1)


def first_of_month(days: Vector) -> Vector:
    """Return the first day of the month, as int64."""
    return days.astype(np.int64) - civil(days)[2] + 1


def first_of_quarter(days: Vector) -> Vector:
    """Return the first day of the quarter, as int64."""
    years, months, _ = civil(days)
    return days_of(years, (months - 1) // 3 * 3 + 1, np.ones(len(days), np.int64))


def first_of_year(days: Vector) -> Vector:
    """Return the first day of the year, as int64."""
    ones = np.ones(len(days), np.int64)
    return days_of(civil(days)[0], ones, ones)


def first_of_week(days: Vector) -> Vector:
    """Return the Monday of the week, as int32."""
    return next_day(days.astype(np.int32) - np.int32(7), 0)


def last_day(days: Vector) -> Vector:
    """Return the last day of the month."""
    years, months, day = civil(days)
    return (days.astype(np.int64) - day + month_length(years, months)).astype(np.int32)


def next_day(days: Vector, weekday_wanted: int) -> Vector:
    """Return the first later day that is the given day of the week (Monday = 0)."""
    seven, from_thursday = np.int32(7), np.int32((weekday_wanted + 4) % 7)
    ahead = (np.fmod(from_thursday - np.int32(1) - days, seven) + seven) % seven  # wraps, as Java's int does
    return np.asarray(days + np.int32(1) + ahead)


def add_months(days: Vector, months: Vector) -> RowValues:
    """Return dates some months later; a day beyond the month's end becomes its last."""
    years, of_year, day = civil(days)
    count = years * 12 + of_year - 1 + months
    to_year, to_month = count // 12, count % 12 + 1
    made = days_of(to_year, to_month, np.minimum(day, month_length(to_year, to_month)))
    return RowValues(made.astype(np.int32), failures={"ARITHMETIC_OVERFLOW": beyond_int32(made)})


def make_date(years: Vector, months: Vector, day: Vector) -> RowValues:
    """Return dates of year, month and day."""
    years, months, day = (each.astype(np.int64) for each in (years, months, day))
    bad = (np.abs(years) > _LAST_YEAR) | (months < 1) | (months > 12) | (day < 1)
    safe = np.where(bad, 1, months)
    bad |= day > month_length(years, safe)
    made = days_of(np.where(bad, 1970, years), safe, np.where(bad, 1, day))
    return RowValues(made.astype(np.int32), failures={OUT_OF_BOUNDS: bad, "ARITHMETIC_OVERFLOW": beyond_int32(made)})


def beyond_int32(values: Vector) -> Vector:
    """Return which values no int32 holds."""
    return np.asarray((values < -(2**31)) | (values >= 2**31))
