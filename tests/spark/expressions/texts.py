"""Texts that tell engines apart, and the expressions over them that are compared with Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pyarrow as pa

TEXTS = (
    *("", " ", "  a  b ", "a", "abc", "ABC", "Hello World", "hELLO wORLD 12", "\tx\t", "\u00a0x\u00a0", "trailing  "),
    *(
        "é",
        "e\u0301",
        "ÉCOLE élève",
        "Straße",
        "İstanbul",
        "ıI",
        "ŉ",
        "ﬁﬂ ﬃ",
        "ǆ ǅ Ǆ",
        "ΑΣ",
        "ΑΣ Σ ΣΑ",
        "Σ",
        "K k",
        "ſ",
    ),
    *(
        "ὈΔΥΣΣΕΎΣ.",
        "Α\u0301Σ\u0301",
        "ΑΣ'Α",
        "😀",
        "a😀b😀c",
        "𐐀𐐨",
        "日本語",
        "한국어",
        "ชื่อ",
        "שלום",
        "مرحبا",
        "👩‍👩‍👧",
    ),
    *("\u200d", "\ufeffx", "a\0b", "\0", "a\r\nb", "a\nb\n", "a\r", "x\u0085", "x\u2028y", "a\n\n", "\uffff", "\ue000"),
    *(
        "a.b.c",
        "..",
        "a,b,,c",
        ",",
        "www.example.com",
        "aXbXc",
        "aaaa",
        "abab",
        "a%b_c\\d",
        "it's",
        "'",
        '"q"',
        "<a&b>",
    ),
    *("10", "-7", "1.5e3", "0", "007", "4111111111111111", "79927398713", "٣٤", "１２", "12:34:56", "2024-01-31"),
    *("192.168.1.1", "U3Bhcms=", "U3Bh cms=", "SGk", "SGk=", "S", "a===", "4a6F", "zz", "5", "~-_.*+ /?=&%", "x@y.z"),
    *(
        "user+tag@mail.example.com",
        "Robert",
        "Rupert",
        "Tymczak",
        "Pfister",
        "Honeyman",
        "Ashcraft",
        "a" * 55,
        "b" * 56,
    ),
    *("c" * 64, "é" * 100, "word " * 30),
)
NUMBERS = (None, 0, 1, -1, 2, -2, 3, 5, -5, 10, 100, -100, 2**31 - 1, -(2**31), -(2**31) + 1)
_PARTS = (None, "", "a", "b", "ab", ".", ",", " ", "é", "😀", "Σ", "aa", "\n", "X", "%", "\0")
_BYTES = (None, b"", b"\0", b"\xff\xfe", b"abc", b"\xc3\xa9", bytes(range(64)), b"x" * 119, b"\x80" * 5, b"y" * 33)
_DOUBLES = (None, 0.0, -0.0, float("nan"), 1.5, float("-inf"))


def texts() -> pa.Table:
    """Return each text once as `s`, beside parts `p` and `q`, integers `n`, `m`, `h`, `l`, bytes `b`, other types."""
    values = [None, *TEXTS]

    def turned(given: Sequence[Any], step: int) -> list[Any]:
        return [given[(k * step + k // len(given)) % len(given)] for k in range(len(values))]

    return pa.table(
        {
            "s": pa.array(values, pa.string()),
            "p": pa.array(turned(_PARTS, 1), pa.string()),
            "q": pa.array(turned(_PARTS, 3), pa.string()),
            "n": pa.array(turned(NUMBERS, 1), pa.int32()),
            "m": pa.array(turned(NUMBERS, 4), pa.int32()),
            "b": pa.array(turned(_BYTES, 1), pa.binary()),
            "l": pa.array([None if n is None else n * 4_000_000_007 for n in turned(NUMBERS, 2)], pa.int64()),
            "h": pa.array([None if n is None else n % 300 - 150 for n in turned(NUMBERS, 1)], pa.int16()),
            "d": pa.array(turned(_DOUBLES, 1), pa.float64()),
            "f": pa.array(turned(_DOUBLES, 5), pa.float32()),
            "e": pa.array(turned((None, "1.25", "-0.01", "99999.99"), 1), pa.string()).cast(pa.decimal128(7, 2)),
            "w": pa.array(turned((None, "0", "-1", "128", "-129", "9" * 38), 1)).cast(pa.decimal128(38, 0)),
            "o": pa.array(turned((None, True, False), 1), pa.bool_()),
            "t": pa.array(turned((None, 0, 19000, -1), 1), pa.int32()).cast(pa.date32()),
            "z": pa.array(turned((None, 0, 1_700_000_000_000_001, -1), 1), pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


_OF_ONE = [
    "upper",
    "ucase",
    "lower",
    "lcase",
    "initcap",
    "trim",
    "ltrim",
    "rtrim",
    "btrim",
    "reverse",
    "length",
    "char_length",
    "character_length",
    "len",
    "octet_length",
    "bit_length",
    "ascii",
    "soundex",
    "luhn_check",
    "quote",
    "hex",
    "unhex",
    "base64",
    "unbase64",
    "url_encode",
    "md5",
    "sha",
    "sha1",
    "crc32",
    "hash",
    "xxhash64",
    "concat",
]
_OF_BYTES = ["length", "octet_length", "bit_length", "hex", "base64", "md5", "sha1", "crc32", "hash", "xxhash64"]
_OF_TWO = [
    "instr",
    "startswith",
    "endswith",
    "contains",
    "levenshtein",
    "find_in_set",
    "concat",
    "btrim",
    "replace",
    "hash",
    "xxhash64",
    "trim",
    "ltrim",
    "rtrim",
    "locate",
    "position",
    "concat_ws",
]
_WITH_A_PART = ["instr", "startswith", "endswith", "contains", "btrim", "replace"]
_WITH_A_PART_FIRST = ["trim", "ltrim", "rtrim", "locate", "concat_ws"]
_LITERALS = ("'a'", "'é'", "''", "'b'", "' '", "'.'", "'😀'", "'\\0'", "'aa'", "'Σ'")
_OTHERS = (
    *("substring(s, n)", "substring(s, n, m)", "substr(s, m, 3)", "substr(s, 3, m)", "left(s, n)", "right(s, n)"),
    *("substring(b, 2)", "substring(s, h)", "lpad(s, 9)", "rpad(s, 9)", "lpad(p, 5, s)", "concat(s, p, q)"),
    *("concat(b, b)", "s || p", "concat('<', s, '>')", "concat(s, NULL)", "concat_ws('-', s, p, q)"),
    *(
        "concat_ws(p, s, q)",
        "concat_ws(',')",
        "concat_ws(',', NULL, s)",
        "concat_ws(NULL, s, p)",
        "concat_ws('', s, n)",
    ),
    *("replace(s, p, q)", "replace(s, 'a', p)", "replace(s, 'a', 'bb')", "replace(s, 'b', NULL)"),
    *("replace(s, 'aa', 'a')", "translate(s, p, q)", "translate(s, 'abc', '12')", "translate(s, 'aaé', '123')"),
    *("translate(s, '😀a', 'x😀')", "translate(s, 'ab', '\\0x')", "overlay(s, '_', n)", "overlay(s, p, n, m)"),
    *("overlay(s, p, 2)", "chr(n)", "char(l)", "chr(65)", "chr(n + 256L)", "hex(l)", "hex(n)", "hex(h)", "upper(n)"),
    *("concat(n, '-', l, h, o, t)", "concat_ws('|', n, o)", "sha2(concat(s, p), 256)", "sha2('abc', 256)"),
    *("encode(s, 'UTF-8')", "encode(s, 'utf-8')", "decode(encode(s, 'UTF-8'), 'UTF-8')", "decode(b, 'UTF-8')"),
    *("unbase64(base64(b))", "unhex(hex(b))", "unhex(hex(s))"),
    *("is_valid_utf8(s)", "make_valid_utf8(s)", "validate_utf8(s)", "try_validate_utf8(s)", "is_valid_utf8(NULL)"),
    *("s ILIKE 'a%'", "s ILIKE '%B'", "s ILIKE '%É%'", "s ILIKE '_'", "s ILIKE 'HELLO%'", "s ILIKE '%ß%'"),
    *("s ILIKE '%σ%'", "s ILIKE '%İ%'", "s ILIKE 'a!%b%' ESCAPE '!'"),
)
_HASHED = (
    *("n", "l", "h", "d", "f", "e", "w", "o", "t", "z", "p, q", "s, n, l, d, b", "NULL", "NULL, s", "1, s", "w, e"),
    *("cast(n AS bigint)", "cast(1 AS tinyint)", "true, s"),
)
PATTERNS = (
    *("a", "a+", "[a-z]+", "[^a-z]", "^a", "a$", "^$", "^abc$", "x$", ".", ".+", "^.*$", "a.b", "\\d+", "\\D+", "\\w+"),
    *("\\W", "\\s", "\\S+", "[\\d.]+", "[-a]", "[a-]", "a|b", "(a|b)c?", "(\\w+)@(\\w+)", "(?i)HELLO", "(?i)[A-Z]+"),
    *("a{2}", "a{1,2}", "a{2,}", "a+?", "a{1,2}?", "(ab)+", "(?:a|é)", "é", "Σ", "\\.", "\\\\", "\\t", "\\n", "\\r\\n"),
    *("\\n$", "\\Aa", "b\\z", "b\\Z", "^\\d{1,3}(\\.\\d{1,3}){3}$", "(\\d+)-(\\d+)-(\\d+)", "(a)(b)?(c)", "^(.)(.*)$"),
    *("[^\\s]+", "\\r$", "[^é]", "(?:\\d{1,3}\\.){3}\\d{1,3}", "[.]", "[a\\]]", "[ \\t]+", " +", "$", "^", "a*", ".*"),
    *("[A-Za-z0-9._%+]+@[A-Za-z0-9.]+", "(?i)k", "(?i)ß", "[\\W]", "b$|^a", "(b$)", "[\\]\\-\\^]", "\\x"),
)
"""Patterns as the engine reads them."""


def _quoted(value: str | int | None) -> str:
    if not isinstance(value, str):
        return "NULL" if value is None else str(value)
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        value = value.replace(plain, escaped)
    return f"'{value}'"


def _with_numbers() -> Iterator[str]:
    numbers = [_quoted(each) for each in NUMBERS]
    yield from (f"substring(s, {start}, {length})" for start, length in product(numbers, repeat=2))
    for each in numbers:
        yield from (f"substr(s, {each})", f"left(s, {each})", f"right(s, {each})", f"left(b, {each})")
        yield f"substring(b, {each}, 2)"
    for name, length, padding in product(("lpad", "rpad"), (-1, 0, 3, 7, "NULL"), ("'ab'", "'é😀'", "''", "p")):
        yield f"{name}(s, {length}, {padding})"
    yield from (f"repeat(s, {times})" for times in (-1, 0, 1, 3, "NULL"))
    yield from (f"space({times})" for times in (-1, 0, 3))
    for by, number in product(("'.'", "','", "'a'", "'aa'", "''", "p", "'\\n'"), (1, 2, -1, -2, 100, "NULL")):
        yield f"split_part(s, {by}, {number})"
    for by, count in product(("'.'", "','", "'a'", "'aa'", "''", "p", "'ab'", "'é'"), (1, 2, -1, -2, -100, 0)):
        yield f"substring_index(s, {by}, {count})"
    for by, start, count in product(("'_'", "'é😀'", "p"), (1, 2, -1, 0, 100, -(2**31)), (0, 3, -1, 2**31 - 1)):
        yield f"overlay(s, {by}, {start}, {count})"
    yield from (f"locate({part}, s, {n})" for part, n in product(("'a'", "''", "p", "'é'"), (0, 1, 2, -1, 100, "NULL")))
    yield from (f"sha2({value}, {bits})" for value, bits in product("sbp", (0, 224, 256, 384, 512, 1, -1)))


def _with_patterns() -> Iterator[str]:
    for pattern in map(_quoted, PATTERNS):
        yield from (f"{name}(s, {pattern})" for name in ("regexp_count", "regexp_instr", "regexp_substr"))
        yield from (f"s RLIKE {pattern}", f"regexp_like(p, {pattern})", f"regexp_replace(s, {pattern}, '<>')")
        yield from (f"regexp_extract(s, {pattern}, 0)", f"regexp_replace(s, {pattern}, '$0$0')")
        if "(" in pattern and "(?" not in pattern:
            yield from (f"regexp_extract(s, {pattern})", f"regexp_extract(s, {pattern}, 2)")
            yield f"regexp_replace(s, {pattern}, '[$1]')"


def _expressions() -> Iterator[str]:
    yield from (f"{name}(s)" for name in _OF_ONE)
    yield from (f"{name}(b)" for name in _OF_BYTES)
    yield from (f"{name}({one}, {other})" for name in _OF_TWO for one, other in (("s", "p"), ("p", "s")))
    yield from (f"{name}(s, {part})" for name, part in product(_WITH_A_PART, _LITERALS))
    yield from (f"{name}({part}, s)" for name, part in product(_WITH_A_PART_FIRST, _LITERALS))
    yield from (f"{name}({each})" for name, each in product(("hash", "xxhash64"), _HASHED))
    yield from _OTHERS
    yield from _with_numbers()
    yield from _with_patterns()


EXPRESSIONS = tuple(dict.fromkeys(_expressions()))
