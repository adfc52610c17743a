"""Timestamp functions: fields, counts since 1970, starts of units, and texts of simple patterns."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.functions.dates import TIMES, UP_TO_INT
from databus.expressions.functions.registry import Arguments, Resolve, Resolved, Value, register
from databus.expressions.kernels import calendar, clock, date_texts
from databus.expressions.kernels.decimals import on_array, units_of
from databus.expressions.kernels.vectors import Vector, arrow, numbers, vectorized
from databus.expressions.types import INTEGERS, arrow_of, is_decimal

_CLOCK: dict[str, Callable[[Vector], Vector]] = {"hour": clock.hour, "minute": clock.minute, "second": clock.second}
_PARTS: dict[str, Callable[[Vector], Vector]] = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), calendar.year),
    "YEAROFWEEK": calendar.year_of_week,
    **dict.fromkeys(("QUARTER", "QTR"), calendar.quarter),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), calendar.month),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), calendar.week_of_year),
    **dict.fromkeys(("DAY", "D", "DAYS"), calendar.day_of_month),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), calendar.day_of_week),
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), calendar.day_of_week_iso),
    "DOY": calendar.day_of_year,
}
"""Field of EXTRACT → its value of a date."""
_CLOCK_PARTS: dict[str, Callable[[Vector], Vector]] = {
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), clock.hour),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), clock.minute),
}
_STAMPS = ("timestamp", "timestamp_ntz")


def _of_clock(function: Callable[[Vector], Vector]) -> Resolve:
    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 1 or found.types[0] not in TIMES:
            raise found.refused()
        return Resolved("int", (_stamp(found.types[0]),), vectorized(function, pa.int32()))

    return resolve_it


def _stamp(kind: str) -> str:
    return kind if kind in _STAMPS else "timestamp"


def _part(found: Arguments) -> Resolved:
    """Resolve `extract` and `date_part`."""
    if len(found) != 2 or found.types[0] != "string" or found.types[1] not in TIMES:
        raise found.refused()
    name, kind = str(found.literal(0)).upper(), found.types[1]
    if name in _PARTS:
        field = vectorized(_PARTS[name], pa.int32())
        return Resolved("int", ("string", "date"), lambda _, days: field(days))
    if name in _CLOCK_PARTS:
        field = vectorized(_CLOCK_PARTS[name], pa.int32())
        return Resolved("int", ("string", _stamp(kind)), lambda _, stamps: field(stamps))
    raise found.refused(f"field {name}")


def _counted(unit: int) -> Resolve:
    """Return the resolve function of the count of whole units since 1970, rounded down."""

    def resolve_it(found: Arguments) -> Resolved:
        if found.types != ("timestamp",):
            raise found.refused()
        return Resolved("bigint", ("timestamp",), vectorized(clock.floored(unit), pa.int64()))

    return resolve_it


def _whole_seconds(found: Arguments) -> Resolved:
    """Resolve `unix_timestamp`: seconds since 1970, rounded toward it."""
    if len(found) != 1 or found.types[0] not in TIMES:
        raise found.refused()
    return Resolved("bigint", ("timestamp",), vectorized(clock.seconds_toward_zero, pa.int64()))


def _from_count(unit: int) -> Resolve:
    """Return the resolve function of timestamps from a count of units since 1970."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 1 or found.types[0] not in INTEGERS:
            raise found.refused()
        return Resolved("timestamp", ("bigint",), vectorized(clock.scaled(unit), arrow_of("timestamp")))

    return resolve_it


def _truncated(found: Arguments) -> Resolved:
    if len(found) != 2 or found.types[0] != "string" or found.types[1] not in TIMES:
        raise found.refused()
    unit = clock.unit_of(str(found.literal(0)))
    if unit is None:
        raise found.refused("unit")
    step = vectorized(clock.truncated_timestamps(unit), arrow_of("timestamp"))
    return Resolved("timestamp", ("string", "timestamp"), lambda _, stamps: step(stamps))


def _months_between(found: Arguments) -> Resolved:
    if len(found) not in (2, 3) or not set(found.types[:2]) <= set(TIMES):
        raise found.refused()
    rounds = found.literal(2) if len(found) == 3 else True
    if not isinstance(rounds, bool):
        raise found.refused("rounding")
    kernel = vectorized(clock.months_between(rounds), pa.float64())
    arguments = ("timestamp", "timestamp", "boolean")[: len(found)]
    return Resolved("double", arguments, lambda later, earlier, *_: kernel(later, earlier))


def _made(kind: str) -> Resolve:
    """Return the resolve function of a timestamp from its six fields."""

    def resolve_it(found: Arguments) -> Resolved:
        second = found.types[5] if len(found) == 6 else ""
        if not set(found.types[:5]) <= set(UP_TO_INT) or not (second in INTEGERS or is_decimal(second)):
            raise found.refused()
        kernel = vectorized(clock.make_timestamp, arrow_of(kind))

        def make(*fields: Value) -> Value:
            return kernel(*fields[:5], on_array(_micros)(fields[5]))

        return Resolved(kind, ("int",) * 5 + ("decimal(16,6)",), make)

    return resolve_it


def _micros(seconds: pa.Array) -> pa.Array:
    return units_of(seconds).cast(pa.int64())


def _formatted(found: Arguments) -> Resolved:
    if len(found) != 2 or found.types[0] not in TIMES or found.types[1] != "string":
        raise found.refused()
    kernel = on_array(date_texts.formatted(str(found.literal(1))))
    return Resolved("string", ("timestamp", "string"), lambda stamps, _: kernel(stamps))


def _from_unixtime(found: Arguments) -> Resolved:
    if len(found) not in (1, 2) or found.types[0] not in INTEGERS:
        raise found.refused()
    pattern = str(found.literal(1)) if len(found) == 2 else "yyyy-MM-dd HH:mm:ss"
    formatted = date_texts.formatted(pattern)

    def texts(seconds: pa.Array) -> pa.Array:
        values, valid = numbers(seconds)
        with np.errstate(all="ignore"):
            return formatted(arrow(values * clock.SECOND, valid, arrow_of("timestamp")))  # wraps, as Java's long does

    kernel: Any = on_array(texts)
    return Resolved("string", ("bigint", "string")[: len(found)], lambda seconds, *_: kernel(seconds))


def _shifted(sign: int) -> Resolve:
    """Return the resolve function of a shift between UTC and a zone of a fixed offset."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 2 or found.types[0] not in TIMES or found.types[1] != "string":
            raise found.refused()
        micros = clock.offset_of(str(found.literal(1)))
        if micros is None:
            raise found.refused("zone without a fixed offset")
        kernel = vectorized(clock.shifted(sign * micros), arrow_of("timestamp"))
        return Resolved("timestamp", ("timestamp", "string"), lambda stamps, _: kernel(stamps))

    return resolve_it


def _as_stamp(kind: str) -> Resolve:
    """Return the resolve function of a conversion of dates and timestamps without a format."""

    def resolve_it(found: Arguments) -> Resolved:
        if len(found) != 1 or found.types[0] not in TIMES:
            raise found.refused()
        return Resolved(kind, (kind,), lambda stamps: stamps)

    return resolve_it


def _second_with_fraction(found: Arguments) -> Resolved:
    """Resolve the seconds of a timestamp with their fraction, as EXTRACT(SECOND …) gives them."""
    if len(found) != 2 or found.types[1] not in TIMES:
        raise found.refused()
    unit = pa.scalar(Decimal(1).scaleb(-6), pa.decimal128(7, 6))

    def seconds(stamps: pa.Array) -> pa.Array:
        micros, valid = numbers(stamps)
        whole = arrow(micros % clock.MINUTE, valid, pa.int64()).cast(pa.decimal128(19, 0))
        return pc.multiply(whole, unit).cast(pa.decimal128(8, 6))

    kernel = on_array(seconds)
    return Resolved("decimal(8,6)", ("string", _stamp(found.types[1])), lambda _, stamps: kernel(stamps))


def _extract(found: Arguments) -> Resolved:
    seconds = len(found) == 2 and str(found.literals[0]).upper() in ("SECOND", "S", "SEC", "SECONDS", "SECS")
    return _second_with_fraction(found) if seconds else _part(found)


for _name, _field in _CLOCK.items():
    register(_name, resolve=_of_clock(_field))
register("extract", "date_part", "datepart", resolve=_extract)
register("unix_seconds", resolve=_counted(clock.SECOND))
register("unix_timestamp", "to_unix_timestamp", resolve=_whole_seconds)
register("unix_millis", resolve=_counted(1_000))
register("unix_micros", resolve=_counted(1))
register("timestamp_seconds", resolve=_from_count(clock.SECOND))
register("timestamp_millis", resolve=_from_count(1_000))
register("timestamp_micros", resolve=_from_count(1))
register("from_utc_timestamp", resolve=_shifted(1))
register("to_utc_timestamp", resolve=_shifted(-1))
register("to_timestamp_ntz", resolve=_as_stamp("timestamp_ntz"))
register("to_timestamp_ltz", resolve=_as_stamp("timestamp"))
register("date_trunc", resolve=_truncated)
register("months_between", resolve=_months_between)
register("make_timestamp_ntz", resolve=_made("timestamp_ntz"))
register("make_timestamp", "make_timestamp_ltz", resolve=_made("timestamp"))
register("date_format", resolve=_formatted)
register("from_unixtime", resolve=_from_unixtime)
