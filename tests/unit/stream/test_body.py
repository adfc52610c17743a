"""Bodies of requests: lines and JSON, and each form that is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import StreamRequestError, StreamTooLargeError
from databus.stream.body import Bounds, StreamRecord, of_json, of_lines

BOUNDS = Bounds(record_bytes=50, batch_records=20, batch_bytes=1_000)
LINES = st.lists(st.binary(min_size=1, max_size=50).filter(lambda line: b"\n" not in line), min_size=1, max_size=20)


@given(LINES, st.booleans())
def test_each_line_is_a_record_byte_for_byte(lines: list[bytes], ended: bool) -> None:
    body = b"\n".join(lines) + b"\n" * ended
    assert [record.value for record in of_lines(body, BOUNDS)] == lines


def test_records_in_json() -> None:
    given = [
        {"value": {"a": "é", "b": [1, 2]}, "key": "k"},
        {"value": [0.1, 1.5e3, 12345678901234567890]},
        {"text": "plain"},
        {"base64": "AAH/", "partition": 2, "headers": {"h": "x"}},
        {"key": "gone", "value": None},
    ]
    assert of_json(json.dumps({"records": given}).encode(), BOUNDS, b"all", 1) == [
        StreamRecord('{"a":"é","b":[1,2]}'.encode(), b"k", 1),
        StreamRecord(b"[0.1,1500.0,12345678901234567890]", b"all", 1),
        StreamRecord(b"plain", b"all", 1),
        StreamRecord(b"\x00\x01\xff", b"all", 2, (("h", b"x"),)),
        StreamRecord(None, b"gone", 1),
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no record"),
        (b"\n", "line 1 is empty"),
        (b"a\n\nb\n", "line 2 is empty"),
    ],
)
def test_lines_that_are_refused(body: bytes, said: str) -> None:
    with pytest.raises(StreamRequestError, match=said):
        of_lines(body, BOUNDS)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"records": [{"value": 0.12345678901234567890}]}', "is no double"),
        (b'{"records": [{"value": 1e400}]}', "is no double"),
        (b'{"records": [{"value": NaN}]}', "NaN is no number"),
        (b"[]", "no list `records`"),
        (b'{"records": "ab"}', "no list `records`"),
        (b'{"records": []}', "no record"),
        (b'{"records": [1]}', "record 1 is int"),
        (b'{"records": [{"value": 1, "text": "a"}]}', "value and text"),
        (b'{"records": [{"text": "a"}, {"key": "a"}]}', "record 2 has none"),
        (b'{"records": [{"text": "a", "offset": 1}]}', "unknown fields: offset"),
        (b'{"records": [{"text": 1}]}', "text is int"),
        (b'{"records": [{"text": "a", "key": 1}]}', "key is int"),
        (b'{"records": [{"text": "\\ud800"}]}', "surrogate"),
        (b'{"records": [{"base64": "?"}]}', "base64"),
        (b'{"records": [{"text": "a", "partition": -1}]}', "partition"),
        (b'{"records": [{"text": "a", "partition": true}]}', "partition"),
        (b'{"records": [{"text": "a", "headers": []}]}', "headers"),
        (b'{"records": [{"text": "a", "headers": {"h": 1}}]}', "header h is int"),
        (b'{"records": [{"text": "a", "headers": {"\\ud800": "v"}}]}', "name of a header has half a surrogate pair"),
        (b'{"records": [{"text": "a", "headers": {"a\\u0000b": "v"}}]}', "name of a header has a zero byte"),
    ],
)
def test_json_that_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(StreamRequestError, match=said):
        of_json(body, BOUNDS)


def test_what_is_too_large_is_named_by_its_number() -> None:
    with pytest.raises(StreamTooLargeError, match="record 2 has 51 bytes, the service takes 50"):
        of_lines(b"a\n" + b"x" * 51, BOUNDS)
    with pytest.raises(StreamTooLargeError, match="record 1 has 52 bytes"):
        of_lines(b"x" * 50, BOUNDS, key=b"kk")
    with pytest.raises(StreamTooLargeError, match="record 1 has 51 bytes"):
        of_json(json.dumps({"records": [{"text": "x" * 49, "headers": {"h": "v"}}]}).encode(), BOUNDS)
    with pytest.raises(StreamTooLargeError, match="21 records, the service takes 20"):
        of_lines(b"a\n" * 21, BOUNDS)
    with pytest.raises(StreamTooLargeError, match="21 records"):
        of_json(json.dumps({"records": [{"text": ""}] * 21}).encode(), BOUNDS)


def test_a_key_of_the_request_counts_in_each_record() -> None:
    assert len(of_lines(b"a\n" * 20, BOUNDS, key=b"k" * 49)) == 20
    bounds = Bounds(record_bytes=50, batch_records=20, batch_bytes=999)
    with pytest.raises(StreamTooLargeError, match="records have 1000 bytes with their keys, the service takes 999"):
        of_lines(b"a\n" * 20, bounds, key=b"k" * 49)
    with pytest.raises(StreamTooLargeError, match="records have 1000 bytes"):
        of_json(json.dumps({"records": [{"text": "a"}] * 20}).encode(), bounds, key=b"k" * 49)


def test_names_of_headers_count_in_bytes() -> None:
    assert StreamRecord(b"", headers=(("é", b"v"),)).size == 3


def test_deeply_nested_json_is_refused_by_name() -> None:
    with pytest.raises(StreamRequestError):
        of_json(b'{"records":' + b"[" * 100_000, BOUNDS)
