"""MySQL's binary JSON: documents of every kind, opaque values, damage."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.bench.decoding.json_encoder import Opaque, document
from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.values.json_binary import json_text
from tests.unit.binlog.log_encoder import Col, Log, int_col
from tests.unit.binlog.value_encoder import decimal, integer, prefixed

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-200, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=15,
)


@settings(deadline=None, database=None, max_examples=2 * settings.default.max_examples)
@given(DOCUMENTS, st.booleans())
def test_any_document_comes_back(value: Any, large: bool) -> None:
    assert json.loads(json_text(document(value, large=large))) == value


def test_text_is_compact_and_keeps_the_stored_order_of_keys() -> None:
    value = {"bb": [1, True, None, 'é\n"\\'], "a": {"x": 1.0}, "ccc": -5}
    assert json_text(document(value)) == '{"a":{"x":1.0},"bb":[1,true,null,"é\\n\\"\\\\"],"ccc":-5}'


def packed(
    *, day: tuple[int, int, int] = (0, 0, 0), clock: tuple[int, int, int] = (0, 0, 0), us: int = 0, sign: int = 1
) -> bytes:
    year, month, number = day
    seconds = ((year * 13 + month) << 5 | number) << 17 | clock[0] << 12 | clock[1] << 6 | clock[2]
    return struct.pack("<q", sign * (seconds << 24 | us))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Opaque(246, bytes([10, 2]) + decimal(Decimal("-12345678.90"), 10, 2)), "-12345678.90"),
        (
            Opaque(246, bytes([65, 30]) + decimal(Decimal("0.000000000000000000000000000001"), 65, 30)),
            "0." + "0" * 29 + "1",
        ),
        (Opaque(10, packed(day=(2024, 2, 29))), '"2024-02-29"'),
        (Opaque(12, packed(day=(2024, 2, 29), clock=(23, 59, 58), us=123)), '"2024-02-29 23:59:58.000123"'),
        (Opaque(7, packed(day=(1970, 1, 2), clock=(0, 0, 1))), '"1970-01-02 00:00:01.000000"'),
        (Opaque(11, packed(clock=(10, 11, 12), us=500_000)), '"10:11:12.500000"'),
        (Opaque(11, packed(clock=(10, 11, 12), us=500_000, sign=-1)), '"-10:11:12.500000"'),
        (Opaque(252, b"\x00\xff"), '"base64:type252:AP8="'),
        (Opaque(16, b"\x05"), '"base64:type16:BQ=="'),
    ],
)
def test_opaque_values_read_as_select_shows_them(value: Opaque, text: str) -> None:
    assert json_text(document(value)) == text
    assert json_text(document([value])) == f"[{text}]"


def test_numbers_keep_every_digit() -> None:
    assert json_text(document((1 << 64) - 1)) == "18446744073709551615"
    assert json_text(document(0.1)) == "0.1"
    assert json_text(document(1e300)) == "1e+300"
    assert json_text(b"") == "null"


def test_long_strings_and_large_documents() -> None:
    value = {"k" * 300: "x" * 20_000, "list": list(range(20_000))}
    assert json.loads(json_text(document(value, large=True))) == value


def test_depth_is_limited_as_at_the_server() -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    assert json_text(document(value)) == "[" * 100 + "1" + "]" * 100
    with pytest.raises(ValueError, match="deeper than 100"):
        json_text(document([value]))


@settings(deadline=None, database=None, max_examples=3 * settings.default.max_examples)
@given(DOCUMENTS, st.data())
def test_damaged_documents_end_in_an_error_or_in_json(value: Any, data: st.DataObject) -> None:
    stored = bytearray(document(value))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] = data.draw(st.integers(0, 255))
    try:
        json.loads(json_text(bytes(stored)))
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right


def test_json_columns_are_text() -> None:
    log = Log()
    rows = [[integer(1, 4), prefixed(document({"a": 1}), 4)], [integer(2, 4), None]]
    log.transaction(1, "t", [int_col(), Col("j", 245, b"\x04")], rows)
    (batch,) = [b for b in decode_events(bytes(log.data), file="f.000001") if isinstance(b, TableBatch)]
    assert batch.images.column("j").to_pylist() == ['{"a":1}', None]
    assert (batch.schema.columns[1].type, batch.schema.columns[1].spark_type) == ("json", "string")
