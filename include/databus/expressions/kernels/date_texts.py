"""Texts of dates and timestamps: Spark's forms, of every year."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.errors import NotCompiledError
from databus.expressions.kernels import calendar, clock
from databus.expressions.kernels.number_texts import BLANK, INVALID
from databus.expressions.kernels.vectors import RowValues, Vector, arrow, numbers, vectorized

_DATE = (
    r"^(?P<sign>[+-]?)(?P<year>[0-9]{4,7})"
    r"(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?s:.*))?)?)?$"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LETTERS = {
    "yyyy": "year",
    "MM": "month",
    "M": "month",
    "dd": "day",
    "d": "day",
    "HH": "hour",
    "H": "hour",
    "mm": "minute",
    "m": "minute",
    "ss": "second",
    "s": "second",
    "SSS": "milli",
    "SSSSSS": "micro",
}
_LITERAL = frozenset(" -/:.,;_|()+*=&%@!?~<>")


def dates(*, fails: bool) -> Callable[[pa.Array], pa.Array]:
    """Return the cast of texts to date: `yyyy`, `yyyy-MM`, `yyyy-MM-dd`, this with a blank or T and anything after it.

    Args:
        fails: whether another text is an error; otherwise it is NULL.
    """

    def cast(texts: pa.Array) -> pa.Array:
        found = pc.extract_regex(pc.ascii_trim(texts, characters=BLANK), pattern=_DATE)
        matched = found.is_valid().to_numpy(zero_copy_only=False)
        years, months, days = (_digits(found, name) for name in ("year", "month", "day"))
        negative, _ = numbers(pc.equal(pc.struct_field(found, "sign"), "-"))
        made = calendar.make_date(np.where(negative, -years, years), months, days)
        bad = ~matched
        for failed in made.failures.values():
            bad = bad | failed
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        kernel = vectorized(lambda _: RowValues(made.values, failures={INVALID: bad}), pa.date32(), fails=fails)
        marks = arrow(np.zeros(len(texts), np.int32), there, pa.int32())
        return kernel(marks)

    return cast


def _digits(found: pa.Array, name: str) -> Vector:
    text = pc.struct_field(found, name)
    text = pc.if_else(pc.equal(text, ""), "1", text)
    return numbers(pc.cast(text, pa.int64()).fill_null(1))[0]


def date_texts(days: pa.Array) -> pa.Array:
    """Return dates as `yyyy-MM-dd`."""
    return formatted("yyyy-MM-dd")(days)


def timestamp_texts(stamps: pa.Array) -> pa.Array:
    """Return timestamps as `yyyy-MM-dd HH:mm:ss`, with the fraction's digits up to the last that is not 0."""
    whole = formatted("yyyy-MM-dd HH:mm:ss")(stamps)
    micros, valid = numbers(stamps)
    fraction = micros % clock.SECOND
    if not (fraction[valid] != 0).any():
        return whole
    tail = pc.ascii_rtrim(_padded(fraction, 6), characters="0")
    return pc.binary_join_element_wise(
        whole, pc.if_else(pc.equal(tail, ""), "", pc.binary_join_element_wise(".", tail, "")), ""
    )


def formatted(pattern: str) -> Callable[[pa.Array], pa.Array]:
    """Return the function from dates or timestamps to texts of a pattern.

    Raises:
        NotCompiledError: the pattern has letters other than yyyy MM M dd d HH H mm m ss s SSS SSSSSS.
    """
    pieces = _pieces(pattern)

    def texts(values: pa.Array) -> pa.Array:
        stored, valid = numbers(values)
        micros = stored.astype(np.int64)
        days = micros // clock.DAY if pa.types.is_timestamp(values.type) else micros
        micros = micros if pa.types.is_timestamp(values.type) else np.zeros_like(micros)
        year, month, day = calendar.civil(days)
        fields = {"year": year, "month": month, "day": day, "hour": clock.hour(micros), "minute": clock.minute(micros)}
        fraction = micros % clock.SECOND
        fields |= {"second": clock.second(micros), "milli": fraction // 1_000, "micro": fraction}
        joined = [
            piece if letters is None else (_years(year) if letters == "year" else _padded(fields[letters], len(piece)))
            for piece, letters in pieces
        ]
        made = pc.binary_join_element_wise(*joined, "") if len(pieces) > 1 else joined[0]
        made = pa.array([made.as_py()] * len(values)) if isinstance(made, pa.Scalar) else made
        return made if valid.all() else pc.if_else(values.is_valid(), made, None)

    return texts


def _pieces(pattern: str) -> list[tuple[str, str | None]]:
    """Return the runs of a pattern: its text, and the field it stands for (None: itself)."""
    runs: list[tuple[str, str | None]] = []
    start = 0
    while start < len(pattern):
        stop = start + 1
        while stop < len(pattern) and pattern[stop] == pattern[start]:
            stop += 1
        run = pattern[start:stop]
        if run not in _LETTERS and run[0] not in _LITERAL:
            raise NotCompiledError(f"date pattern {pattern!r}")
        runs.append((run, _LETTERS.get(run)))
        start = stop
    if not any(field for _, field in runs):
        raise NotCompiledError(f"date pattern {pattern!r}")
    return runs


def _padded(values: Vector, width: int) -> pa.Array:
    text = pc.cast(pa.array(values, pa.int64()), pa.string())
    return text if width == 1 else pc.utf8_lpad(text, width=width, padding="0")


def _years(years: Vector) -> pa.Array:
    text = _padded(np.abs(years), 4)
    if ((years >= 0) & (years <= 9_999)).all():
        return text
    sign = pa.array(np.where(years < 0, "-", np.where(years > 9_999, "+", "")))
    return pc.binary_join_element_wise(sign, text, "")


def month_names(days: Vector) -> Vector:
    """Return the months' short English names."""
    return np.asarray(np.array(_MONTHS, object)[calendar.month(days) - 1])


def day_names(days: Vector) -> Vector:
    """Return the weekdays' short English names."""
    return np.asarray(np.array(_WEEKDAYS, object)[calendar.weekday(days)])
