"""Tables with hard keys for the walk in chunks: columns, key and rows by kind of key, on MySQL and MariaDB."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class KeyKind:
    """Kind of key.

    Attributes:
        columns: its columns in SQL.
        key: the key in SQL, and what else stands behind the columns.
        rows: values of its columns in SQL, some of them perhaps twice.
        only: the flavor that has it; "" for both.
        options: options of the table.
    """

    columns: str
    key: str
    rows: tuple[str, ...]
    only: str = ""
    options: str = ""


_ROWS = 100
_WORDS = (  # noqa: SIM905 - a list would be a line for each
    r"| |  |a|A|á|Á|ä|a |a  |aa|Aa|áa|ab|a\0|a\0b|\t|a\tb|b|ß|ss|SS|z|Z|zz|ñ|n|N|o|ö|Ø|œ|oe|i|I|ı|İ"
    r"|''|\\|%%|_|0|00|01|-1|1e3|~"
).split("|")
_WIDE = "日|本|語|日本|я|Я|ё|е|Ж|α|Α|ά|😀|😁|a😀|\u00ad|a\u00ad|a\u0301|가|ﬁ|fi".split("|")  # noqa: SIM905


def _seeded(name: str) -> random.Random:
    return random.Random(f"chunks {name}")


def _one(column: str, values: Iterable[object], **more: str) -> KeyKind:
    return KeyKind(f"k {column} NOT NULL", "PRIMARY KEY (k)", tuple(map(str, values)), **more)


def _words(name: str, words: Iterable[str], most: int = 3) -> list[str]:
    """Return texts in SQL: words and what is joined of some."""
    r, known = _seeded(name), list(words)
    joined = ["".join(r.choices(known, k=r.randint(1, most))) for _ in range(_ROWS)]
    return [f"'{word}'" for word in dict.fromkeys([*known, *joined])]


def _numbers(name: str, low: int, high: int) -> list[int]:
    """Return whole numbers: ends, neighbours, a dense run, holes."""
    r = _seeded(name)
    found = [low, low + 1, high, high - 1, 0, 1, *range(5, 40), *(r.randint(low, high) for _ in range(_ROWS))]
    return [n for n in found if low <= n <= high]


def _text(
    charset: str, collation: str, words: Iterable[str] = _WORDS, only: str = "", kind: str = "VARCHAR(20)"
) -> KeyKind:
    name = f"{charset} {collation}"
    return _one(f"{kind} CHARACTER SET {charset} COLLATE {collation}", _words(name, words), only=only)


def _pairs(charset: str, collation: str, only: str = "") -> KeyKind:
    """Return texts that are equal to others, told apart by a number."""
    rows = [f"{word}, {n}" for n, word in enumerate(_words(collation, (*_WORDS, *_WIDE), 1) * 3)]
    column = f"a VARCHAR(20) CHARACTER SET {charset} COLLATE {collation} NOT NULL"
    return KeyKind(f"{column}, b INT NOT NULL", "PRIMARY KEY (a, b)", tuple(rows), only)


def _floats(name: str, low: float, tiny: float, made: Callable[[random.Random], float]) -> list[str]:
    r = _seeded(name)
    some = (low, -low, tiny, -tiny, 0.0, -0.0, 0.1, 1 / 3, 2 / 3, 16777216.0, 16777217.0, 9007199254740993.0)
    return [f"{value!r}" for value in (*some, *(made(r) for _ in range(_ROWS)))]


def _bytes(name: str, length: int) -> list[str]:
    r = _seeded(name)
    some = [
        "",
        "00",
        "0000",
        "000000",
        "61",
        "6100",
        "61000000",
        "6120",
        "ff",
        "ffff",
        "00ff",
        "80",
        "7f",
        "20",
        "2020",
    ]
    made = [bytes(r.choices(b"\x00\x20a\xff", k=r.randint(0, length))).hex() for _ in range(_ROWS)]
    return [f"X'{value}'" for value in (*some, *made)]


def _dates(clock: Callable[[random.Random], str]) -> list[str]:
    r = _seeded("dates")
    some = [
        "0000-00-00",
        "2020-00-00",
        "2020-00-17",
        "2020-01-00",
        "1000-01-01",
        "9999-12-31",
        "0001-01-01",
        "0101-01-01",
    ]
    some += [f"{y}-{m:02}-{d:02}" for y, m, d in product((1000, 1999, 2000, 2020), (0, 1, 12), (0, 1, 31)) if m or d]
    made = [f"{r.randint(1990, 2030)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}" for _ in range(_ROWS)]
    return [f"'{date}{clock(r)}'" for date in (*some, *made)]


def _clock(r: random.Random) -> str:
    hours = f" {r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"
    return r.choice(["", " 00:00:00", f"{hours}.{r.randint(0, 999_999):06}", f"{hours}.000001", " 23:59:59.999999"])


def _times() -> list[str]:
    r = _seeded("times")
    made = [
        f"{r.choice('+-')}{r.randint(0, 837)}:{r.randint(0, 59):02}:{r.randint(0, 59):02}.{r.randint(0, 999_999):06}"
        for _ in range(_ROWS)
    ]
    some = ["-838:59:59", "838:59:59", "00:00:00", "-00:00:00.000001", "00:00:00.000001", "-00:00:01", "12:00:00.5"]
    return [f"'{time.removeprefix('+')}'" for time in (*some, *made)]


def _mixed(columns: str, key: str, *of: Iterable[object], options: str = "", only: str = "") -> KeyKind:
    """Return a composite key: values of the columns at random, skewed to the first of each."""
    r, choices = _seeded(columns), [list(map(str, values)) for values in of]
    rows = [", ".join(c[min(int(r.expovariate(4) * len(c)), len(c) - 1)] for c in choices) for _ in range(2 * _ROWS)]
    return KeyKind(columns, key, tuple(rows), only, options)


_MEMBERS = [f"m{i}" for i in range(64)]
_LARGE_SETS = [0, 1, 3, 1 << 62, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, (1 << 53) + 1, 1 << 53]
_MOODS = "'sunny','Rain','a','Z','','b''c','d,e','ä'"

KINDS: dict[str, KeyKind] = {
    "tinyint": _one("TINYINT", range(-128, 128)),
    "int": _one("INT", _numbers("int", -(1 << 31), (1 << 31) - 1)),
    "bigint": _one("BIGINT", _numbers("bigint", -(1 << 63), (1 << 63) - 1)),
    "bigint unsigned": _one("BIGINT UNSIGNED", _numbers("bigint unsigned", 0, (1 << 64) - 1)),
    "zerofill": _one("BIGINT(25) ZEROFILL", _numbers("zerofill", 0, (1 << 64) - 1)),
    "decimal": _one(
        "DECIMAL(65,30)", [f"{n}.{abs(n) % 10**30:030}" for n in _numbers("decimal", -(10**35) + 1, 10**35 - 1)]
    ),
    "decimal zerofill": _one("DECIMAL(20,0) ZEROFILL", _numbers("decimal zerofill", 0, 10**20 - 1)),
    "double": _one(
        "DOUBLE",
        _floats("double", 1.7976931348623157e308, 5e-324, lambda r: r.uniform(-1, 1) * 10 ** r.randint(-300, 300)),
    ),
    "double fixed": _one("DOUBLE(20,4)", [f"{n / 7}e0" for n in _numbers("double fixed", -(10**15), 10**15)]),
    "float": _one(
        "FLOAT", _floats("float", 3.402823466e38, 1.4e-45, lambda r: r.uniform(-1, 1) * 10 ** r.randint(-30, 30))
    ),
    "float fixed": _one("FLOAT(9,3)", [f"{n / 7}e0" for n in _numbers("float fixed", -(10**6), 10**6)]),
    "bit": _one("BIT(64)", _numbers("bit", 0, (1 << 64) - 1)),
    "year": _one("YEAR", [0, *range(1901, 2156)]),
    "date": _one("DATE", _dates(lambda _: "")),
    "datetime": _one("DATETIME(6)", _dates(_clock)),
    "timestamp": _one(
        "TIMESTAMP(6)", ["'0000-00-00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'", *_dates(_clock)]
    ),
    "time": _one("TIME(6)", _times()),
    "varbinary": _one("VARBINARY(9)", _bytes("varbinary", 4)),
    "binary": _one("BINARY(4)", _bytes("binary", 4)),
    "enum": _one(f"ENUM({_MOODS})", range(9)),
    "long enum": _one("ENUM(" + ",".join(f"'{n * 37 % 1000}'" for n in range(1000)) + ")", range(0, 1001, 4)),
    "set": _one("SET('z','a','M','b','','d','e')", range(128)),
    "long set": _one(
        "SET(" + ",".join(f"'{m}'" for m in _MEMBERS) + ")", [*_LARGE_SETS, *_numbers("long set", 0, (1 << 64) - 1)]
    ),
    "enum, set": _mixed(
        f"a ENUM({_MOODS}) NOT NULL, b SET('y','x') NOT NULL, c INT NOT NULL",
        "PRIMARY KEY (a, b, c)",
        range(9),
        range(4),
        range(50),
    ),
    "utf8mb4_general_ci": _text("utf8mb4", "utf8mb4_general_ci", (*_WORDS, *_WIDE)),
    "utf8mb4_unicode_ci": _text("utf8mb4", "utf8mb4_unicode_ci", (*_WORDS, *_WIDE)),
    "utf8mb4_bin": _text("utf8mb4", "utf8mb4_bin", (*_WORDS, *_WIDE)),
    "utf8mb4_0900_ai_ci": _text("utf8mb4", "utf8mb4_0900_ai_ci", (*_WORDS, *_WIDE), "mysql"),
    "utf8mb4_0900_as_cs": _text("utf8mb4", "utf8mb4_0900_as_cs", (*_WORDS, *_WIDE), "mysql"),
    "utf8mb4_0900_bin char": _text("utf8mb4", "utf8mb4_0900_bin", (*_WORDS, *_WIDE), "mysql", "CHAR(20)"),
    "utf8mb4_nopad_bin": _text("utf8mb4", "utf8mb4_nopad_bin", (*_WORDS, *_WIDE), "mariadb"),
    "uca1400": _text("utf8mb4", "uca1400_nopad_as_ci", (*_WORDS, *_WIDE), "mariadb"),
    "utf8mb3_turkish_ci": _text("utf8mb3", "utf8_turkish_ci", _WORDS),
    "latin1_german1_ci": _text("latin1", "latin1_german1_ci", kind="CHAR(20)"),
    "latin1_german2_ci": _text("latin1", "latin1_german2_ci"),
    "latin2_czech_cs": _text("latin2", "latin2_czech_cs", (w for w in _WORDS if w.isascii())),
    "cp1251": _text("cp1251", "cp1251_general_ci", ("", "я", "Я", "Ж", "е", "ё", "a", "A", "b ")),
    "sjis": _text("sjis", "sjis_japanese_ci", ("", "a", "A", "日", "本", "語", "表", "ソ", "能", "b ")),
    "gbk": _text("gbk", "gbk_chinese_ci", ("", "a", "A", "中", "文", "誠", "縗", "運", "b ")),
    "ucs2": _text("ucs2", "ucs2_general_ci", (*_WORDS, "日", "я")),
    "utf16le": _text("utf16le", "utf16le_general_ci", (*_WORDS, *_WIDE)),
    "utf16": _text("utf16", "utf16_unicode_ci", (*_WORDS, *_WIDE)),
    "utf32": _text("utf32", "utf32_bin", (*_WORDS, *_WIDE)),
    "equal texts": _pairs("utf8mb4", "utf8mb4_unicode_ci"),
    "equal texts 0900": _pairs("utf8mb4", "utf8mb4_0900_ai_ci", "mysql"),
    "uuid": _one(
        "UUID", [f"'{uuid.UUID(int=_seeded(str(n)).getrandbits(128))}'" for n in range(_ROWS)], only="mariadb"
    ),
    "inet4": _one("INET4", [f"'{n % 256}.{n * 7 % 256}.0.{n // 2}'" for n in range(_ROWS)], only="mariadb"),
    "inet6": _one("INET6", [f"'{'::ffff:10.0.0.' if n % 3 else 'fe80::'}{n}'" for n in range(_ROWS)], only="mariadb"),
    "stored": KeyKind(
        "g INT NOT NULL, k INT AS (g * 7 % 151 - 60) STORED NOT NULL",
        "PRIMARY KEY (k)",
        tuple(f"{n}, DEFAULT" for n in range(151)),
        "mysql",
    ),
    "virtual": KeyKind(
        "g INT NOT NULL, k VARCHAR(9) AS (CONCAT(g % 5, '-', g)) VIRTUAL NOT NULL",
        "UNIQUE (k)",
        tuple(f"{n}, DEFAULT" for n in range(151)),
        "mysql",
    ),
    "descending": _mixed(
        "a INT NOT NULL, b VARCHAR(9) NOT NULL, c INT NOT NULL",
        "PRIMARY KEY (a, b DESC, c)",
        range(5),
        _words("d", _WORDS[:9], 1),
        range(60),
    ),
    "unique": _mixed(
        "a INT NULL, b INT NOT NULL, c VARCHAR(20) NOT NULL",
        "UNIQUE (a), UNIQUE p (c(3), b), UNIQUE (c, b)",
        ["NULL"],
        range(-30, 30),
        _words("u", _WORDS[:20], 1),
    ),
    "mixed": _mixed(
        "a DECIMAL(9,3) NOT NULL, b CHAR(5) NOT NULL, c DATETIME(3) NOT NULL",
        "PRIMARY KEY (c, a, b)",
        range(-20, 20),
        _words("m", _WORDS[:9], 1),
        ("'2020-01-01'", "'0000-00-00'", "'2020-01-01 00:00:00.001'"),
    ),
    "partitions": _mixed(
        "a INT NOT NULL, b INT NOT NULL",
        "PRIMARY KEY (a, b)",
        range(40),
        range(40),
        options="PARTITION BY HASH (b) PARTITIONS 5",
    ),
    "versioned": _one("INT", range(-50, 100), only="mariadb", options="WITH SYSTEM VERSIONING"),
}
