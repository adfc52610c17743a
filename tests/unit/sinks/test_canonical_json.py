"""Canonical JSON: contents that are one have one text, others do not."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.sinks.canonical_json import canonical, parsed


def text(document):
    return canonical(parsed(document)).decode()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"b": 1, "a": [1, {"d": 2, "c": 3}]}', '{"a":[1,{"c":3,"d":2}],"b":1}'),
        ('{"n": 1.50}', '{"n": 1.5}'),
        ('{"n": 1e10}', '{"n": 10000000000.0}'),
        ('{"n": 12345678901234567890.10}', '{"n": 12345678901234567890.1}'),
        ('{"s": "\\u00fc\\u2028"}', '{"s": "ü\u2028"}'),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_another_spelling_is_the_same_content(one, other):
    assert text(one) == text(other)
    assert text(text(one)) == text(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("18446744073709551615", "18446744073709551614"),
        ("12345678901234567890.1", "12345678901234567890.2"),
        ('{"a": {"n": 0.12345678901234567891}}', '{"a": {"n": 0.12345678901234567892}}'),
        ("100.00000000000000000001", "100"),
        ('"1"', "1"),
        ("null", '"null"'),
        ('{"a": null}', "{}"),
        ("9" * 5000, "9" * 4999 + "8"),
        ('"é"', '"e\u0301"'),
    ],
)
def test_another_content_has_another_text(one, other):
    assert text(one) != text(other)


def test_it_is_json_with_all_digits():
    assert text('{"b": 12345678901234567890.120, "a": "x\\ny", "c": [true, null, -0.5]}') == (
        '{"a":"x\\ny","b":12345678901234567890.12,"c":[true,null,-0.5]}'
    )
    assert canonical(parsed(b'"\\ud800"')) == b'"\xed\xa0\x80"'


@given(st.decimals(allow_nan=False, allow_infinity=False, places=20), st.integers())
def test_numbers_keep_their_value(fraction, whole):
    spelled = f'{{"f": {fraction:f}, "w": {whole}}}'
    kept = json.loads(text(spelled), parse_float=Decimal)
    assert kept == {"f": fraction, "w": whole}


@pytest.mark.parametrize("broken", ["", "{", '{"a":}', b"\xff", "[1 2]"])
def test_what_is_no_json_is_refused(broken):
    with pytest.raises(ValueError, match=r".+"):
        parsed(broken)
