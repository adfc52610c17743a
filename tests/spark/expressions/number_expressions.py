"""Expressions of numeric, decimal and temporal functions and casts, over the columns of `number_rows`."""

from __future__ import annotations

_NUMBERS = ("t", "h", "i", "l", "f", "d", "n", "u", "w", "q", "y", "z")
_INTEGERS = ("t", "h", "i", "l")
_TIMES = ("a", "c", "e")
_DECIMALS = ("n", "u", "w", "q", "y", "z")
_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string")
_DECIMAL_TYPES = ("decimal(10,2)", "decimal(38,0)", "decimal(38,38)", "decimal(3,1)", "decimal(20,0)", "decimal(18,6)", "decimal(1,0)")
_PARTS = (
    *("year", "yearofweek", "quarter", "month", "week", "day", "dayofweek", "dow", "dayofweek_iso", "dow_iso", "doy"),
    *("hour", "minute", "second", "years", "mon", "w", "d", "h", "m", "s", "sec"),
)
_UNITS = ("year", "yyyy", "YY", "quarter", "MON", "month", "mm", "week", "day", "dd", "hour", "minute", "second", "millisecond", "microsecond")

NUMERIC = [
    *(f"{name}({column})" for name in ("abs", "sign", "signum", "ceil", "ceiling", "floor", "nullifzero", "zeroifnull", "isnan", "-", "negative", "positive") for column in _NUMBERS),
    *(f"{name}({column})" for name in ("sqrt", "rint", "degrees", "radians") for column in _NUMBERS),
    *(f"{name}({column}{places})" for name in ("round", "bround") for column in (*_INTEGERS, *_DECIMALS) for places in ("", ", 0", ", 1", ", 2", ", 5", ", 40", ", -1", ", -2", ", -9", ", -18", ", -19", ", -20", ", -38", ", -40")),
    *(f"pmod({left}, {right})" for left, right in (("t", "h"), ("t", "cast(j as tinyint)") , ("h", "h"), ("i", "j"), ("l", "k"), ("i", "k"), ("d", "v"), ("f", "f"), ("f", "cast(v as float)"), ("i", "d"), ("i", "3"), ("l", "-7"), ("t", "-128Y"), ("h", "-32768S"))),
    *(f"{name}({left}, {right})" for name in ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod") for left, right in (("t", "t"), ("t", "h"), ("h", "h"), ("i", "j"), ("l", "k"), ("i", "k"), ("d", "v"), ("f", "f"), ("i", "d"), ("n", "q"), ("n", "i"), ("u", "t"), ("i", "1"), ("l", "-1"), ("t", "-1Y"))),
    *(f"{name}({', '.join(columns)})" for name in ("greatest", "least") for columns in (("t", "h"), ("i", "j", "m"), ("l", "k"), ("d", "v"), ("f", "d"), ("i", "l", "0"), ("n", "q"), ("n", "i"), ("y", "u"), ("s", "g"), ("g", "s", "b"), ("a", "a2"), ("c", "c2"), ("e", "e"), ("o", "i > 0"), ("i", "null + 1", "5"), ("a", "c"), ("d", "n"))),
    *(f"{name}({left}, {right})" for name in ("shiftleft", "shiftright", "shiftrightunsigned") for left in _INTEGERS for right in ("m", "3", "-1", "t")),
    *(f"{left} {sign} {right}" for sign in ("&", "|", "^", "<<", ">>", ">>>") for left, right in (("t", "t"), ("t", "h"), ("h", "i"), ("i", "j"), ("l", "k"), ("i", "k"), ("l", "7"), ("i", "m"), ("l", "m"))),
    *(f"{name}({column})" for name in ("~", "bit_count", "bin", "factorial") for column in (*_INTEGERS, "m")),
    "bit_count(o)",
    *(f"{name}({column}, {at})" for name in ("bit_get", "getbit") for column in _INTEGERS for at in ("m", "0", "7", "31")),
    *(f"conv({text}, {base}, {to})" for text in ("b", "i", "l", "'ff'") for base, to in (("16", "10"), ("10", "16"), ("16", "-10"), ("10", "2"), ("10", "-2"), ("2", "36"), ("36", "-36"), ("1", "10"), ("10", "37"), ("m", "j"))),
    *("width_bucket(d, v, 10, 5)", "width_bucket(d, -3, v, l)", "width_bucket(v, d, 2.5D, k)", "width_bucket(i, 0, 100, 10)", "width_bucket(v, 3, -3, 7)", "width_bucket(n, 0, 100, m)"),
    *("nanvl(d, 1.5D)", "nanvl(f, cast(2 as float))", "nanvl(f, 1.5D)", "nanvl(d, cast(null as double))", "e()", "pi()", "d * pi()", "e() + v"),
]  # fmt: skip
CASTS = [
    *(f"{cast}({column} as {kind})" for cast in ("cast", "try_cast") for column in (*_NUMBERS, "o", "s", "k") for kind in (*_TYPES, *_DECIMAL_TYPES, "timestamp")),
    *(f"{cast}({column} as {kind})" for cast in ("cast", "try_cast") for column in (*_TIMES, "g") for kind in ("date", "timestamp", "timestamp_ntz", "string", "bigint", "int", "smallint", "double")),
    *(f"{name}({column})" for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "decimal") for column in ("i", "d", "n", "s", "o")),
    *("date(g)", "date(c)", "timestamp(a)", "timestamp(e)", "to_date(g)", "to_date(c)", "to_date(e)", "to_date(a)", "try_to_date(g)", "to_timestamp(a)", "to_timestamp(e)", "binary(s)", "cast(s as binary)"),
]  # fmt: skip
TEMPORAL = [
    *(f"{name}({column})" for name in ("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear", "last_day", "dayname", "monthname", "hour", "minute", "second", "unix_date", "unix_seconds", "unix_millis", "unix_micros", "unix_timestamp", "to_unix_timestamp") for column in _TIMES),
    *(f"extract({part} from {column})" for part in _PARTS for column in _TIMES),
    *(f"{name}('{part}', {column})" for name in ("date_part", "datepart") for part in ("YEAR", "Doy", "seconds") for column in _TIMES),
    *(f"{name}({column}, {days})" for name in ("date_add", "dateadd", "date_sub", "add_months") for column in _TIMES for days in ("m", "i", "h", "1", "-1", "j")),
    *(f"{name}({left}, {right})" for name in ("datediff", "date_diff") for left, right in (("a", "a2"), ("c", "a"), ("c", "c2"), ("e", "c"), ("a", "date'1970-01-01'"))),
    *(f"months_between({left}, {right}{rounds})" for left, right in (("a", "a2"), ("c", "c2"), ("c2", "e"), ("a", "c")) for rounds in ("", ", true", ", false")),
    *(f"next_day({column}, '{day}')" for column in _TIMES for day in ("MO", "tue", "Sunday", "FR")),
    *(f"trunc({column}, '{unit}')" for column in _TIMES for unit in _UNITS),
    *(f"date_trunc('{unit}', {column})" for column in _TIMES for unit in _UNITS),
    *("make_date(yr, mo, dy)", "make_date(yr, 1, 1)", "make_date(2024, mo, 29)", "make_date(yr, h, t)"),
    *(f"{name}(yr, mo, dy, m, m, sc)" for name in ("make_timestamp", "make_timestamp_ntz", "make_timestamp_ltz")),
    *(f"{name}(2024, mo, 28, 23, 59, sc)" for name in ("make_timestamp", "make_timestamp_ntz", "make_timestamp_ltz")),
    *(f"{name}(yr, 12, 31, 23, 59, m)" for name in ("make_timestamp", "make_timestamp_ntz", "make_timestamp_ltz")),
    *(f"{name}({column})" for name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros", "from_unixtime", "date_from_unix_date") for column in ("t", "i", "l", "k")),
    *(f"date_format({column}, '{pattern}')" for column in _TIMES for pattern in ("yyyy-MM-dd", "yyyy/M/d H:m:s.SSS", "dd.MM.yyyy HH:mm:ss.SSSSSS", "yyyyMMdd", "HH", "yyyy", "MM|dd")),
    *(f"{name}({column}, '{zone}')" for name in ("from_utc_timestamp", "to_utc_timestamp") for column in _TIMES for zone in ("UTC", "+05:30", "-17:59")),
    *(f"{name}({column})" for name in ("to_timestamp_ntz", "to_timestamp_ltz") for column in _TIMES),
    *("from_unixtime(k, 'yyyy-MM-dd')", "from_unixtime(i, 'HH:mm:ss')", "from_unixtime(i, 'yyyy-MM-dd HH:mm:ss')"),
]  # fmt: skip
FAILING = (
    *("abs(t)", "abs(h)", "abs(i)", "abs(l)", "round(t, -1)", "bround(l, -19)", "round(y, -1)", "pmod(i, 0)", "pmod(d, v)"),
    *("bit_get(i, m)", "getbit(t, 8)", "conv(b, 16, 10)", "cast(d as int)", "cast(f as tinyint)", "cast(d as bigint)"),
    *("cast(s as int)", "cast(s as tinyint)", "cast(s as double)", "cast(s as float)", "cast(s as decimal(10,2))"),
    *("cast(s as decimal(38,0))", "cast(s as boolean)", "cast(g as date)", "to_date(g)", "cast(n as tinyint)"),
    *("cast(u as bigint)", "cast(n as decimal(3,1))", "cast(w as decimal(38,38))", "cast(c as int)", "cast(a as timestamp)"),
    *("make_date(yr, mo, dy)", "make_date(yr, 1, 1)", "make_timestamp(yr, mo, dy, 1, 1, sc)", "timestamp_seconds(l)"),
    *("timestamp_millis(l)", "add_months(a, i)", "greatest(a, c)"),
)  # fmt: skip
"""Expressions that fail for some row."""
