"""Calendar kernels beside Python's own calendar, and texts of dates and times."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest

from databus.expressions.errors import ExpressionError, NotCompiledError
from databus.expressions.kernels import calendar, clock, date_texts
from databus.expressions.kernels.vectors import vectorized

_EPOCH = date(1970, 1, 1)
_DATES = [date(1, 1, 1) + timedelta(97 * step) for step in range(37_648)]
_DAYS = np.array([(each - _EPOCH).days for each in _DATES], np.int32)


def test_fields_are_those_of_the_proleptic_gregorian_calendar() -> None:
    assert list(zip(*(field.tolist() for field in calendar.civil(_DAYS)), strict=True)) == [
        (each.year, each.month, each.day) for each in _DATES
    ]
    assert calendar.day_of_year(_DAYS).tolist() == [each.timetuple().tm_yday for each in _DATES]
    assert calendar.weekday(_DAYS).tolist() == [each.weekday() for each in _DATES]
    assert calendar.week_of_year(_DAYS).tolist() == [each.isocalendar()[1] for each in _DATES]
    assert calendar.year_of_week(_DAYS).tolist() == [each.isocalendar()[0] for each in _DATES]


def test_days_and_fields_are_inverse_beyond_year_9999() -> None:
    days = np.arange(-(2**31), 2**31, 104_729, np.int64)
    assert (calendar.days_of(*calendar.civil(days)) == days).all()


def test_months_are_added_to_the_end_of_a_shorter_month() -> None:
    days = np.array([(date(2024, 1, 31) - _EPOCH).days] * 3, np.int32)
    made = calendar.add_months(days, np.array([1, 13, -2], np.int32)).values
    assert [_EPOCH + timedelta(int(each)) for each in made] == [
        date(2024, 2, 29),
        date(2025, 2, 28),
        date(2023, 11, 30),
    ]


def test_next_day_is_later() -> None:
    monday = np.array([(date(2024, 1, 1) - _EPOCH).days], np.int32)
    assert [int(calendar.next_day(monday, day)[0] - monday[0]) for day in range(7)] == [7, 1, 2, 3, 4, 5, 6]


def test_dates_that_there_are_not_fail() -> None:
    kernel = vectorized(calendar.make_date, pa.date32())
    arguments = [pa.array(each, pa.int32()) for each in ([2023, None], [2, 2], [29, 30])]
    with pytest.raises(ExpressionError, match="DATETIME_FIELD_OUT_OF_BOUNDS"):
        kernel(*arguments)
    quiet = vectorized(calendar.make_date, pa.date32(), fails=False)
    assert quiet(*arguments).to_pylist() == [None, None]
    assert kernel(pa.scalar(2024, pa.int32()), pa.scalar(2, pa.int32()), pa.scalar(29, pa.int32())).as_py() == date(
        2024, 2, 29
    )


def test_texts_have_a_sign_before_years_that_are_not_of_four_digits() -> None:
    days = pa.array([0, None, -719_528, -719_529, 2_932_897], pa.int32()).view(pa.date32())
    assert date_texts.date_texts(days).to_pylist() == [
        *("1970-01-01", None, "0000-01-01", "-0001-12-31", "+10000-01-01"),
    ]


def test_fractions_of_seconds_end_with_their_last_digit() -> None:
    stamps = pa.array([-1, 0, None, 120_000, clock.DAY], pa.int64()).view(pa.timestamp("us"))
    assert date_texts.timestamp_texts(stamps).to_pylist() == [
        *("1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", None, "1970-01-01 00:00:00.12", "1970-01-02 00:00:00"),
    ]


def test_dates_are_read_in_spark_s_forms() -> None:
    texts = [
        "2020-02-29",
        "2020",
        "2020-2",
        " 2020-2-9T x",
        "-0001-1-1",
        "2021-02-29",
        "x",
        None,
        "20200101",
    ]
    assert date_texts.dates(fails=False)(pa.array(texts)).view(pa.int32()).to_pylist() == [
        *(18_321, 18_262, 18_293, 18_301, -719_893, None, None, None, None),
    ]


def test_other_letters_of_patterns_are_refused() -> None:
    for pattern in ("yy", "EEE", "yyyy-MM-dd'T'HH", "a", "-", "YYYY", "MMM", "S", "[yyyy]"):
        with pytest.raises(NotCompiledError):
            date_texts.formatted(pattern)
