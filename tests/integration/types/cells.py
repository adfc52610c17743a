"""Columns of every type in families, one table each, and random rows for them; what SELECT shows is the oracle."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from databus.binlog.values.charset_tables import UNDEFINED
from databus.binlog.values.charsets import charset_named
from tests.integration.decode_oracle import CJK, COLUMNS, Column, clock_text, text
from tests.integration.types.zones import ZONES, changes

Sql = tuple[str, list[Any]]
"""An expression with %s, and its values."""

_SHAPES = ("POINT", "LINESTRING", "POLYGON", "GEOMETRY", "MULTIPOINT")


def finite(r: random.Random, form: str, size: int) -> str:
    """Any number that is one: all exponents, also subnormal."""
    while True:
        (value,) = struct.unpack(form, r.randbytes(size))
        if value == value and abs(value) != float("inf"):  # noqa: PLR0124 - NaN is unequal to itself
            return repr(value)


def _gap_or_any(r: random.Random, moments: list[int], digits: int) -> str:
    """A local time within two hours of a change of offset, or any; also such as no clock shows."""
    second = r.choice(moments) + r.randint(-7200, 7200) if r.random() < 0.5 else r.randint(2, (1 << 31) - 90_000)
    local = dt.datetime.fromtimestamp(second, dt.UTC) + dt.timedelta(hours=r.choice([-5, -3, 0, 1, 2, 11]))
    return local.strftime("%Y-%m-%d %H:%M:%S") + (f".{r.randrange(1_000_000):06d}" if digits else "")


def timestamps(digits: int) -> Column:
    moments = [moment for zone in ZONES for moment, _, _ in changes(zone)]
    return Column(
        f"ts_{digits}",
        f"TIMESTAMP({digits}) NULL",
        lambda r: "0000-00-00 00:00:00" if r.random() < 0.1 else _gap_or_any(r, moments, digits),
        show=lambda v: clock_text(v, digits),
    )


def in_zone(value: Any, zone: str) -> Any:
    """Return an instant as a session in this zone shows it; other values as they are."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
    return value


def json_sql(r: random.Random, depth: int = 0) -> Sql:
    """A JSON value as an SQL expression: with the values that only a server can put in."""
    scalars: list[Callable[[], Sql]] = [
        lambda: ("CAST(%s AS DECIMAL(65,30))", [f"{r.choice(['', '-'])}{r.getrandbits(100)}.{r.getrandbits(90)}"]),
        lambda: ("CAST(%s AS DECIMAL(9,9))", [f"0.{r.getrandbits(30)}"]),
        lambda: ("CAST(%s AS DATE)", [f"{r.randint(1, 9999):04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"]),
        lambda: ("CAST(%s AS DATETIME(6))", [f"{r.randint(1, 9999):04d}-02-03 04:05:06.{r.randrange(10**6):06d}"]),
        lambda: ("CAST(%s AS TIME(6))", [f"{r.choice(['', '-'])}{r.randint(0, 838)}:59:01.{r.randrange(10**6):06d}"]),
        lambda: ("CAST(%s AS UNSIGNED)", [r.getrandbits(64)]),
        lambda: ("CAST(%s AS SIGNED)", [r.getrandbits(63) - (1 << 62)]),
        lambda: ("CAST(%s AS BINARY)", [r.randbytes(r.randint(0, 40))]),
        lambda: ("(%s + 0e0)", [finite(r, "<d", 8)]),
        lambda: ("(%s + 0e0)", [repr(round(r.uniform(-1e6, 1e6), r.randint(0, 6)))]),
        lambda: ("%s", ['é"\\\n\u20ac😀\0' * r.choice([0, 1, 9, 40])]),
        lambda: ("NULL", []),
        lambda: (r.choice(["CAST('true' AS JSON)", "CAST('[]' AS JSON)", "CAST('{}' AS JSON)"]), []),
    ]
    if depth > 3 or r.random() < 0.5:
        return r.choice(scalars)()
    members = [json_sql(r, depth + 1) for _ in range(r.randint(0, 6))]
    if r.random() < 0.5:
        return f"JSON_ARRAY({','.join(m for m, _ in members)})", [v for _, values in members for v in values]
    keys = [f"k{n}{'é' * r.randint(0, 3)}" for n in range(len(members))]
    parts = ",".join(f"%s,{m}" for m, _ in members)
    return f"JSON_OBJECT({parts})", [v for key, (_, values) in zip(keys, members, strict=True) for v in (key, *values)]


def _points(r: random.Random, count: int) -> str:
    return ",".join(f"{r.uniform(-80, 80)!r} {r.uniform(-80, 80)!r}" for _ in range(count))


def geometry_sql(column: Column, r: random.Random) -> Sql:
    kind = column.ddl
    if kind == "GEOMETRY":
        kind = r.choice(["POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "GEOMETRYCOLLECTION"])
    if kind == "GEOMETRYCOLLECTION":
        shape = f"GEOMETRYCOLLECTION(POINT({_points(r, 1)}),LINESTRING({_points(r, 2)}))"
    elif kind == "POLYGON":
        first = _points(r, 1)
        shape = f"POLYGON(({first},{_points(r, 3)},{first}))"
    else:
        shape = f"{kind}({_points(r, 1 if kind == 'POINT' else r.randint(2, 9))})"
    return f"ST_GeomFromText(%s, {r.choice([0, 0, 3857])})", [shape]


def _letters(name: str) -> str:
    """Characters that a set of single bytes has, without blanks, which CHAR loses, and "?"."""
    table = charset_named(name).table
    return (
        "".join(c for c in table[0x21:] if c not in (UNDEFINED, "?", "\x7f")) if table else "abc" + CJK.replace(" ", "")
    )


def charset_columns(names: list[str]) -> tuple[Column, ...]:
    return tuple(
        text(f"{kind.lower()}_{name}", f"{kind}(12)", name, _letters(name), 12)
        for name in names
        for kind in ("CHAR", "VARCHAR")
    )


def geometry(name: str) -> Column:
    return Column(name.lower() + "_g", name, lambda r: r, "HEX({})", lambda v: v.hex().upper())


EXTRA: tuple[Column, ...] = (
    Column("float_any", "FLOAT", lambda r: finite(r, "<f", 4), "{} + 0e0", lambda v: repr(float(v))),
    Column("double_any", "DOUBLE", lambda r: finite(r, "<d", 8), show=lambda v: repr(float(v))),
    Column("double_u", "DOUBLE UNSIGNED", lambda r: abs(r.gauss(0, 1e9)), show=lambda v: repr(float(v))),
    Column("dec_u", "DECIMAL(20,3) UNSIGNED", lambda r: f"{r.getrandbits(56)}.5", show=lambda v: f"{v:f}"),
    Column("time_out", "TIME(6)", lambda r: r.choice(["-1000:00:00", "999:59:59.9", "838:59:59.000000"]), show=COLUMNS[
        next(n for n, c in enumerate(COLUMNS) if c.name == "time_6")
    ].show),
    Column("enum_empty", "ENUM('','a','ß')", lambda r: r.choice(["", "a", "ß", "none", 0, 1, 2])),
    Column("enum_many", f"ENUM({','.join(repr(f'm{n}') for n in range(300))})", lambda r: f"m{r.randrange(300)}"),
    Column("set_one", "SET('x')", lambda r: r.choice(["", "x"])),
    Column(
        "set_64",
        f"SET({','.join(repr(f'm{n}') for n in range(64))})",
        lambda r: r.choice([0, (1 << 64) - 1, r.getrandbits(64)]),
    ),
    *(timestamps(n) for n in range(7)),
)  # fmt: skip


def families(server: str, charsets: list[str]) -> dict[str, tuple[Column, ...]]:
    """Return the tables of a server: name → columns."""
    known = [c for c in COLUMNS if server in c.servers and c.name not in ("uuid_", "inet6_", "point_", "json_")]
    large = [c for c in known if c.ddl.split()[0].endswith(("TEXT", "BLOB"))]
    shapes = tuple(geometry(name) for name in _SHAPES)
    documents = (
        tuple(Column(f"json_{n}", "JSON", lambda r: r, show=canonical) for n in range(6))
        if server == "mysql"
        else tuple(Column(f"json_{n}", "JSON", lambda r: json.dumps([r.random(), "é", None])) for n in range(6))
    )
    return {
        "plain": tuple(c for c in known if c not in large and not c.ddl.startswith("TIMESTAMP")) + EXTRA,
        "charsets": charset_columns(charsets),
        "large": (*large, *shapes, *documents),
    }


def canonical(value: str) -> str:
    """Return a document with each number as its decimal value: exact digits, whatever their spelling."""

    def number(digits: str) -> str:
        found = Decimal(digits)
        return f"#{found.normalize() if found else ('-0' if found.is_signed() else '0')}"

    return json.dumps(json.loads(value, parse_float=number, parse_int=int), sort_keys=True, ensure_ascii=False)


def expression(column: Column, r: random.Random, server: str) -> Sql:
    """Return a random value of a column, one in ten NULL."""
    if r.random() < 0.1:
        return "NULL", []
    if column.ddl == "JSON" and server == "mysql":
        made, values = json_sql(r)
        return f"JSON_EXTRACT(JSON_ARRAY({made}), '$[0]')", values
    if column.ddl in _SHAPES:
        return geometry_sql(column, r)
    return "%s", [column.make(r)]


def shown(column: Column, value: Any, zone: str) -> str | None:
    """Return a decoded value in SELECT's text."""
    return None if value is None else column.show(in_zone(value, zone))


def normal(column: Column, value: str | None) -> str | None:
    """Return SELECT's text in the one spelling that `shown` uses."""
    if value is None:
        return None
    if column.show is canonical:
        return canonical(value)
    if column.ddl.startswith(("FLOAT", "DOUBLE")):
        return repr(float(value))
    return value
