from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest

from databus.expressions.compiled import compile_expression
from databus.expressions.errors import ExpressionError, NotCompiledError
from databus.expressions.text import binary, case, characters, digests, parts, row_hashes, shapes
from databus.expressions.text.patterns import translated
from databus.expressions.text.values import Value

LENGTHS = [*range(130), 247, 248, 1000, 0, 55, 56, 63, 64]


def text(value: str | None) -> pa.Scalar:
    return pa.scalar(value, pa.string())


def number(value: int | None) -> pa.Scalar:
    return pa.scalar(value, pa.int32())


@pytest.mark.parametrize("bits", [224, 256, 384, 512])
def test_sha2_is_hashlibs_for_every_length_of_padding(bits: int) -> None:
    values = [None if k == 7 else bytes([k % 251]) * length for k, length in enumerate(LENGTHS)]
    algorithm = getattr(hashlib, f"sha{bits}")
    expected = [None if value is None else algorithm(value).hexdigest() for value in values]
    column = pa.array(values, pa.binary())
    assert digests.sha2(column, bits).to_pylist() == expected
    assert digests.sha2(column.slice(3, 50), bits).to_pylist() == expected[3:53]


def test_digests_of_constants_and_of_no_rows() -> None:
    assert digests.sha2(text("é"), 0).as_py() == hashlib.sha256("é".encode()).hexdigest()
    assert digests.sha2(text(None), 256).as_py() is None
    assert digests.sha2(pa.array([], pa.string()), 256).to_pylist() == []
    assert digests.sha2(pa.array(["a", None]), 1).to_pylist() == [None, None]
    assert digests.crc32(text("abc")).as_py() == zlib.crc32(b"abc")


def test_hashes_of_rows_are_those_of_sparks_manual() -> None:
    row = (text("Spark"), pa.array([123], pa.int32()), number(2))
    assert row_hashes.murmur3(*row).to_pylist() == [-1321691492]
    assert row_hashes.xxhash64(*row).to_pylist() == [5602566077635097486]
    assert row_hashes.murmur3(text(None)).as_py() == 42


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (case.upper(text("ß ŉ ﬃ ǆ")), "SS ʼN FFI Ǆ"),
        (case.lower(text("İ ΑΣ ΑΣΑ Σ")), "i̇ ας ασα σ"),
        (case.initcap(text("ǆx ΑΣ-b\tc İI")), "ǅx Ας-b\tc İi"),
        (parts.substring(text("日本語"), number(-2), number(1)), "本"),
        (parts.substring(text("abc"), number(-5), number(3)), "a"),
        (parts.substring(text("abc"), number(0), number(2)), "ab"),
        (parts.substring_index(text("a.b.c"), text("."), number(-2)), "b.c"),
        (parts.substring_index(text("aaaa"), text("aa"), number(2)), "a"),
        (parts.overlay(text("Spark SQL"), text("_"), number(6)), "Spark_SQL"),
        (parts.locate(text(""), text("abc"), number(3)), 1),
        (parts.locate(text("a"), text("abc"), number(None)), 0),
        (shapes.translate(text("AaBbCc"), text("abca"), text("12")), "A1B2C"),
        (shapes.rpad(text("hi"), number(5), text("é?")), "hié?é"),
        (shapes.lpad(text("hi"), number(-1), text("?")), ""),
        (shapes.trim(text(" \t a\u00a0 ")), "\t a\u00a0"),
        (shapes.concat_ws(text("-"), text(None), text(None)), ""),
        (shapes.replace(text("abc"), text(""), text("x")), "abc"),
        (characters.soundex(text("Tymczak")), "T522"),
        (characters.levenshtein(text("kitten"), text("sitting")), 3),
        (characters.luhn_check(text("79927398713")), True),
        (characters.character(pa.scalar(256 + 65, pa.int64())), "A"),
        (binary.unbase64(text("SGk=\n=")), b"Hi"),
        (binary.unhex(text("4a6")), b"\x04\xa6"),
        (binary.unhex(text("4g")), None),
        (binary.hex_of_number(pa.scalar(-1, pa.int64())), "F" * 16),
        (binary.url_encode(text("~a b*é")), "%7Ea+b*%C3%A9"),
    ],
)
def test_values_of_one_text(found: Value, expected: object) -> None:
    assert found.as_py() == expected


def test_texts_without_parts_are_kept_in_their_rows() -> None:
    column = pa.array(["a", None, "b"])
    assert shapes.concat_ws(text("-"), column, pa.array([None, None, "c"])).to_pylist() == ["a", "", "b-c"]


@pytest.mark.parametrize("value", ["S", "SGk=x", "SGVs=", "a===", "SG=k"])
def test_what_is_not_base64_fails_without_showing_the_value(value: str) -> None:
    with pytest.raises(ExpressionError, match=r"\[CONVERSION_INVALID_INPUT\] unbase64: a text is not Base64"):
        binary.unbase64(text(value))


def test_bytes_that_are_no_text_fail() -> None:
    with pytest.raises(ExpressionError, match="MALFORMED_CHARACTER_CODING"):
        binary.decode_utf8(pa.array([b"a", b"\xff"]))


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"\bword",
            r"(a)\1",
            "a++",
            "(?=a)",
            "(?<n>a)",
            r"\p{L}",
            "[a&&b]",
            "[a[b]]",
            "a{0}",
            "(a*)*",
            "(a+)+",
            "(a|ab)*",
        ),
        *(
            "(",
            ")",
            "[",
            "a{",
            "*a",
            "[b-a]",
            r"\x41",
            "^*",
            "a|",
            "()",
            "😀",
            "(?i)[A-z]",
            "(?s).",
            r"\Qa\E",
            "a{1,2000}",
        ),
    ],
)
def test_patterns_without_a_sure_meaning_are_refused(pattern: str) -> None:
    with pytest.raises(NotCompiledError):
        translated(pattern)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("a$", "a\r\n", True),
        ("a$", "a\n\n", False),
        ("a\r$", "a\r\n", False),
        ("a.b", "a\u2028b", False),
        (r"\d", "٣", False),
        ("(?i)k", "\u212a", False),
        ("^b", "a\nb", False),
        (r"b\z", "b\n", False),
    ],
)
def test_patterns_mean_what_javas_mean(pattern: str, value: str, *, expected: bool) -> None:
    assert (translated(pattern).compiled.search(value) is not None) is expected


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "regexp_replace(s, 'a*', '')",
            "regexp_replace(s, 'a', '$1')",
            "regexp_replace(s, 'a', '\\\\\\\\')",
            "s rlike s",
        ),
        *(
            "regexp_extract(s, '(a)', 2)",
            "split_part(s, '.', 0)",
            "lpad(s, 2000000)",
            "encode(s, 'UTF-16')",
            "sha2(s, n)",
        ),
        *("mask(s, 'ab')", "locate(s, s, n)", "levenshtein(s, s, 2)", "regexp_replace(s, 'a', 'b', 2)", "left(s, 1L)"),
    ],
)
def test_calls_without_a_sure_meaning_are_refused(expression: str) -> None:
    with pytest.raises(NotCompiledError):
        compile_expression(expression, lambda name, _: {"s": "string", "n": "int"}.get(name))


@pytest.mark.parametrize("kernel", [parts.starts_with, parts.contains, parts.ends_with])
def test_constants_and_columns_give_the_same(kernel: Callable[[Value, Value], Value]) -> None:
    column = pa.array(["ab", "ba", "", None, "a"])
    assert kernel(column, text("a")).to_pylist() == kernel(column, pa.array(["a"] * 5)).to_pylist()
