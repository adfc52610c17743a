"""A table of every column type, random rows for it, and each value in the text that SELECT gives."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from databus.binlog.decoding.table_batch import TableBatch

Make = Callable[[random.Random], Any]
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)  # noqa: DTZ001 - DATETIME has no zone
ZERO_DATES = ("0000-00-00", "2024-00-00", "2023-02-29", "2024-04-31", "2024-12-00")


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: column name.
        ddl: type in SQL.
        make: a random value to insert.
        select: SQL that shows the stored value; {} is the column.
        show: the decoded value in the same text.
        servers: which servers have the type.
    """

    name: str
    ddl: str
    make: Make
    select: str = "{}"
    show: Callable[[Any], str] = str
    servers: tuple[str, ...] = ("mysql", "mariadb")


def integers(name: str, ddl: str, low: int, high: int) -> Column:
    return Column(name, ddl, lambda r: r.choice([low, high, 0, 1, r.randint(low, high)]))


def decimals(precision: int, scale: int) -> Column:
    def make(r: random.Random) -> str:
        digits = r.choice([precision, r.randint(1, precision)])
        number = Decimal(r.choice([1, -1]) * r.randint(0, 10**digits - 1))
        return (
            f"{number:f}"
            if scale == 0
            else f"{'-' if number < 0 else ''}{int(abs(number)) // 10**scale}.{int(abs(number)) % 10**scale:0{scale}d}"
        )

    return Column(
        f"dec_{precision}_{scale}",
        f"DECIMAL({precision},{scale})",
        make,
        show=lambda v: v if isinstance(v, str) else f"{v:f}",
    )


def text(name: str, ddl: str, charset: str, alphabet: str, longest: int) -> Column:
    return Column(
        name,
        f"{ddl} CHARACTER SET {charset}",
        lambda r: "".join(r.choice(alphabet) for _ in range(r.choice([0, 1, longest, r.randint(0, longest)]))).rstrip(
            " "
        ),
        "HEX(CONVERT({} USING utf8mb4))",
        lambda v: v.encode().hex().upper(),
    )


def binary(name: str, ddl: str, longest: int, shortest: int = 0) -> Column:
    def make(r: random.Random) -> bytes:
        data = r.randbytes(r.randint(shortest, longest))
        return data[:-2] + b"\0\0" if len(data) > 2 and r.random() < 0.3 else data

    return Column(name, ddl, make, "HEX({})", lambda v: v.hex().upper())


def fraction(us: int, digits: int) -> str:
    return f".{us:06d}"[: digits + 1] if digits else ""


def clock_text(value: str | dt.datetime, digits: int) -> str:
    """Return a DATETIME or TIMESTAMP as the server writes it."""
    if isinstance(value, str):
        return value.replace("T", " ").removesuffix("Z")
    return f"{value.year:04d}-{value:%m-%d %H:%M:%S}" + fraction(value.microsecond, digits)


def moment(r: random.Random, low: dt.datetime, high: dt.datetime) -> dt.datetime:
    return low + dt.timedelta(microseconds=r.randrange((high - low) // dt.timedelta(microseconds=1)))


def datetimes(digits: int) -> Column:
    def make(r: random.Random) -> str:
        if r.random() < 0.15:
            return f"{r.choice(ZERO_DATES)} {r.choice(['00:00:00', '23:59:58.999999'])}"
        return str(moment(r, FIRST, LAST))

    return Column(f"datetime_{digits}", f"DATETIME({digits})", make, show=lambda v: clock_text(v, digits))


def timestamps(digits: int) -> Column:
    low, high = dt.datetime(1970, 1, 1, 0, 0, 2), dt.datetime(2038, 1, 19)  # noqa: DTZ001 - the session's zone is UTC

    def make(r: random.Random) -> str:
        return "0000-00-00 00:00:00" if r.random() < 0.1 else str(moment(r, low, high))

    return Column(
        f"timestamp_{digits}",
        f"TIMESTAMP({digits}) NULL",
        make,
        show=lambda v: clock_text(v, digits),
    )


def times(digits: int) -> Column:
    def make(r: random.Random) -> str:
        us = r.choice([0, 1, 3_020_399_000_000, r.randrange(3_020_399_000_000), r.randrange(10_000_000)])
        seconds, rest = divmod(us, 1_000_000)
        return f"{r.choice(['', '-'])}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"

    def show(value: dt.timedelta) -> str:
        us = value // dt.timedelta(microseconds=1)
        seconds, rest = divmod(abs(us), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return ("-" if us < 0 else "") + clock + fraction(rest, digits)

    return Column(f"time_{digits}", f"TIME({digits})", make, show=show)


def canonical_json(value: str) -> str:
    return repr(json.loads(value, parse_float=lambda x: Decimal(x).normalize()))


def random_json(r: random.Random, depth: int = 0) -> Any:
    kinds = [
        lambda: r.randint(-(1 << 63), (1 << 64) - 1),
        lambda: r.randint(-70_000, 70_000),
        lambda: r.uniform(-1e6, 1e6),
        lambda: None,
        lambda: r.random() < 0.5,
        lambda: 'é"\\\n' * r.randint(0, 60),
        lambda: [random_json(r, depth + 1) for _ in range(r.randint(0, 4))],
        lambda: {f"k{r.randint(0, 99)}": random_json(r, depth + 1) for _ in range(r.randint(0, 4))},
    ]
    return r.choice(kinds[: 6 if depth > 3 else 8])()


LATIN = "abcXYZ 0129~äöüßé€ÿ"
CJK = "中文字日本a "
ENUM = ("new", "paid", "größe")
SET = ("a", "b", "c,d".replace(",", ";"), "ü", *(f"m{n}" for n in range(56)))

COLUMNS: tuple[Column, ...] = (
    integers("tiny", "TINYINT", -128, 127),
    integers("tiny_u", "TINYINT UNSIGNED", 0, 255),
    integers("small", "SMALLINT", -(1 << 15), (1 << 15) - 1),
    integers("small_u", "SMALLINT UNSIGNED", 0, (1 << 16) - 1),
    integers("medium", "MEDIUMINT", -(1 << 23), (1 << 23) - 1),
    integers("medium_u", "MEDIUMINT UNSIGNED", 0, (1 << 24) - 1),
    integers("int_s", "INT", -(1 << 31), (1 << 31) - 1),
    Column("year_", "YEAR", lambda r: r.choice([0, 1901, 2155, r.randint(1901, 2155)]), show=lambda v: f"{v:04d}"),
    integers("int_u", "INT UNSIGNED", 0, (1 << 32) - 1),
    integers("big", "BIGINT", -(1 << 63), (1 << 63) - 1),
    integers("big_u", "BIGINT UNSIGNED", 0, (1 << 64) - 1),
    Column("flag", "TINYINT(1)", lambda r: r.randint(0, 1)),
    Column(
        "float_", "FLOAT", lambda r: r.choice([0, 1.5, r.uniform(-1e30, 1e30)]), "{} + 0e0", lambda v: repr(float(v))
    ),
    Column(
        "double_",
        "DOUBLE",
        lambda r: r.choice([0, -1.5, r.uniform(-1e300, 1e300), r.random()]),
        show=lambda v: repr(float(v)),
    ),
    *(
        decimals(p, s)
        for p, s in ((1, 0), (9, 9), (12, 2), (18, 5), (20, 10), (38, 18), (39, 0), (65, 30), (65, 0), (30, 30))
    ),
    *(
        Column(f"bit_{n}", f"BIT({n})", lambda r, n=n: r.choice([0, (1 << n) - 1, r.getrandbits(n)]), "{} + 0")
        for n in (1, 9, 33, 64)
    ),
    Column(
        "date_",
        "DATE",
        lambda r: r.choice([r.choice(ZERO_DATES), str(moment(r, FIRST, LAST).date())]),
    ),
    *(datetimes(n) for n in (0, 1, 3, 6)),
    *(timestamps(n) for n in (0, 2, 6)),
    *(times(n) for n in (0, 1, 2, 3, 4, 5, 6)),
    text("char_latin", "CHAR(30)", "latin1", LATIN, 30),
    text("varchar_utf8", "VARCHAR(60)", "utf8mb4", LATIN + CJK + "😀", 60),
    text("varchar_long", "VARCHAR(300)", "utf8mb4", LATIN + CJK, 300),
    text("char_long", "CHAR(200)", "utf8mb4", LATIN + CJK, 200),
    text("varchar_utf8mb3", "VARCHAR(20)", "utf8mb3", LATIN + CJK, 20),
    text("varchar_ucs2", "VARCHAR(20)", "ucs2", LATIN + CJK, 20),
    text("varchar_utf16", "VARCHAR(20)", "utf16", LATIN + CJK + "😀", 20),
    text("varchar_utf32", "VARCHAR(20)", "utf32", LATIN + CJK + "😀", 20),
    text("varchar_gbk", "VARCHAR(20)", "gbk", "abc" + CJK, 20),
    text("varchar_big5", "VARCHAR(20)", "big5", "abc中文字日本", 20),
    text("varchar_sjis", "VARCHAR(20)", "sjis", "abcソ日本ｱ", 20),
    text("varchar_ujis", "VARCHAR(20)", "ujis", "abcソ日本ｱ", 20),
    text("varchar_euckr", "VARCHAR(20)", "euckr", "abc한글갂", 20),
    text("varchar_koi8r", "VARCHAR(20)", "koi8r", "abcЖизнь", 20),
    text("varchar_cp1251", "VARCHAR(20)", "cp1251", "abcЖизнь№", 20),
    text("varchar_greek", "VARCHAR(20)", "greek", "abcΑΩω", 20),
    text("tinytext_", "TINYTEXT", "latin1", LATIN, 100),
    text("text_", "TEXT", "utf8mb4", LATIN + CJK, 500),
    text("mediumtext_", "MEDIUMTEXT", "utf8mb4", LATIN, 900),
    text("longtext_", "LONGTEXT", "utf8mb4", LATIN, 300),
    binary("binary_", "BINARY(16)", 16),
    binary("varbinary_", "VARBINARY(300)", 300),
    binary("tinyblob_", "TINYBLOB", 100),
    binary("blob_", "BLOB", 400),
    binary("longblob_", "LONGBLOB", 2000),
    Column("enum_", "ENUM('new','paid','größe') CHARACTER SET latin1", lambda r: r.choice([*ENUM, "no member"])),
    Column(
        "set_",
        f"SET({','.join(repr(s) for s in SET)})",
        lambda r: ",".join(sorted(r.sample(SET, r.randint(0, 5)), key=SET.index)),
    ),
    Column("json_", "JSON", lambda r: json.dumps(random_json(r), ensure_ascii=False), show=str),
    Column("point_", "POINT", lambda r: (r.uniform(-90, 90), r.uniform(-90, 90)), "HEX({})", lambda v: v.hex().upper()),
    Column("uuid_", "UUID", lambda r: f"{r.getrandbits(128):032x}", servers=("mariadb",)),
    Column("inet6_", "INET6", lambda r: ":".join(f"{r.getrandbits(16):x}" for _ in range(8)), servers=("mariadb",)),
)


def columns_for(server: str) -> tuple[Column, ...]:
    """Return the columns that a server has."""
    return tuple(c for c in COLUMNS if server in c.servers)


def decoded(batch: TableBatch, row: int, columns: tuple[Column, ...]) -> dict[str, str | None]:
    """Return one image as texts."""
    out: dict[str, str | None] = {}
    for column in columns:
        number = batch.images.schema.get_field_index(column.name)
        value = batch.exceptions.get(number, {}).get(row, batch.images.column(number)[row].as_py())
        out[column.name] = None if value is None else column.show(value)
    return out
