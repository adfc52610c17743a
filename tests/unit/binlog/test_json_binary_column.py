"""Whole columns of binary JSON: the kernel writes what the plain reader writes, and never leaves a document's bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from databus.bench.decoding.json_encoder import Opaque, document
from databus.binlog.decoding.decode import decode_events
from databus.binlog.kernels.json_documents import DONE, FULL, LEFT, STACK_BYTES, text_room, write_documents
from databus.binlog.values import json_binary
from databus.binlog.values.json_binary import json_text, json_texts
from databus.core.errors import DecodeError
from tests.unit.binlog.fenced import Fenced
from tests.unit.binlog.log_encoder import Col, Log, int_col
from tests.unit.binlog.value_encoder import decimal, integer, prefixed


def moment(field_type: int, seconds: int, us: int) -> Opaque:
    """A packed date or time: the server's parts above 24 bits of microseconds."""
    magnitude = abs(seconds) << 24 | us
    return Opaque(field_type, (-magnitude if seconds < 0 else magnitude).to_bytes(8, "little", signed=True))


def day(year: int, month: int, day: int, hour: int = 0) -> int:
    return ((year * 13 + month) << 5 | day) << 17 | hour << 12


OPAQUE = st.sampled_from(
    [
        Opaque(246, bytes([10, 2]) + decimal(Decimal("-1.50"), 10, 2)),
        Opaque(246, bytes([65, 30]) + decimal(Decimal("9" * 35 + "." + "9" * 30), 65, 30)),
        Opaque(246, bytes([66, 30]) + decimal(Decimal("-" + "7" * 35 + "." + "9" * 30), 66, 30)),  # as servers write it
        Opaque(246, bytes([81, 0]) + decimal(Decimal("9" * 81), 81, 0)),
        Opaque(246, bytes([3, 3]) + decimal(Decimal("-0.007"), 3, 3)),
        moment(10, day(2024, 2, 29), 0),
        moment(12, day(9999, 12, 31, 23), 999_999),
        moment(7, day(1970, 1, 1), 1),
        moment(12, 0, 0),
        moment(11, -(838 << 12 | 59 << 6 | 59), 999_999),
        moment(11, 7 << 12, 0),
        *(Opaque(kind, bytes(range(250, 250 + size))) for kind in (3, 16, 252) for size in range(5)),
    ]
)
SHORT_DECIMALS = st.builds(lambda m, k: m / 10**k, st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 18))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-200, 70_000),
    st.integers(-(1 << 53) + 1, (1 << 53) - 1).map(float),
    st.text(),
    st.text(alphabet='\0\x1f\b\t\n\f\r"\\/\x7f\u2028aé€😀', max_size=30),
)


def nested(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of which documents are made."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
        max_leaves=15,
    )


DOCUMENTS = nested(PLAIN | SHORT_DECIMALS | FLOATS | OPAQUE)
STORED = st.none() | st.just(b"") | st.builds(lambda v, large: document(v, large=large), DOCUMENTS, st.booleans())
QUICK = settings(deadline=None, database=None, max_examples=3 * settings.default.max_examples)


def expected(rows: list[bytes | None]) -> list[str | None]:
    return [None if row is None else json_text(row) for row in rows]


@QUICK
@given(st.lists(STORED, max_size=8), st.integers(0, 3), st.integers(0, 8))
def test_a_column_reads_as_its_documents_one_by_one(rows: list[bytes | None], start: int, length: int) -> None:
    column = pa.array(rows, pa.binary())
    texts = json_texts(column)
    texts.validate(full=True)
    assert texts.type == pa.string()
    assert texts.to_pylist() == expected(rows)
    part = json_texts(column.slice(start, length))
    part.validate(full=True)
    assert part.to_pylist() == expected(rows)[start : start + length]


@QUICK
@given(nested(PLAIN | FLOATS | SHORT_DECIMALS | OPAQUE), st.booleans())
def test_sound_documents_do_not_leave_the_kernel(value: Any, large: bool) -> None:
    stored = document(value, large=large)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_binary, "json_text", lambda _: pytest.fail("left to the plain reader"))
        texts = json_texts(pa.array([stored, stored], pa.binary())).to_pylist()
    assert texts == [json_text(stored)] * 2


def kernel_text(stored: bytes) -> str | None:
    """Return what the kernel alone writes; None when it leaves the document."""
    status, text = run_kernel(np.frombuffer(stored, dtype=np.uint8), np.empty(text_room(len(stored)), dtype=np.uint8))
    assert status in (DONE, LEFT)
    return text.decode("utf-8") if status == DONE else None


def run_kernel(data: npt.NDArray[np.uint8], text: npt.NDArray[np.uint8]) -> tuple[int, bytes]:
    offsets = np.array([0, len(data)], dtype=np.int32)
    validity = np.zeros(0, dtype=np.uint8)
    for array in (data, offsets, validity):
        array.flags.writeable = False
    ends, stack = np.zeros(2, dtype=np.int32), np.empty(STACK_BYTES, dtype=np.uint8)
    status, row = write_documents(data, offsets, validity, 0, text, ends, stack)
    assert row == (1 if status == DONE else 0)
    return status, text[: ends[1]].tobytes()


@QUICK
@given(FLOATS | SHORT_DECIMALS)
@example(0.0)
@example(-0.0)
@example(1e-4)
@example(9.999999999999999e-05)
@example(float((1 << 53) - 1))
@example(float(1 << 53))
@example(123456789012345.6)
@example(0.1 + 0.2)
@example(5e-324)
@example(1.7976931348623157e308)
def test_a_double_is_its_shortest_text(number: float) -> None:
    assert kernel_text(document(number)) == repr(number)


def test_doubles_between_powers_of_two_and_ten_are_their_shortest_text() -> None:
    """Powers of two are where a number's lower neighbour is nearer; powers of ten where digits run out."""
    powers = np.array([2.0**k for k in range(-1074, 1024)] + [float(f"1e{k}") for k in range(-323, 309)])
    bits = np.random.default_rng(5).integers(0, 0x7FEFFFFFFFFFFFFF, 20_000).view(np.float64)
    numbers = np.concatenate([powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf), bits]).tolist()
    texts = json_texts(pa.array([b"\x0b" + struct.pack("<d", number) for number in numbers], pa.binary()))
    assert texts.to_pylist() == [repr(number) for number in numbers]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_write_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="cannot write"):
        json_texts(pa.array([document([number])], pa.binary()))


SECONDS = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)


def test_strings_are_checked_as_utf_8() -> None:
    """Every lead byte with every boundary of its followers, whole, cut and as a key."""
    for lead in range(0x80, 0x100):
        for second in SECONDS:
            for tail in (b"", b"\x80", b"\xbf", b"\x7f", b"\x80\x80", b"\xbf\xbf", b"\x80\xc0", b"\x80\x80\x80"):
                raw = bytes([lead, second]) + tail
                string = b"\x0c" + bytes([len(raw)]) + raw
                try:
                    wanted = json_text(string)
                except ValueError:
                    wanted = None
                assert kernel_text(string) == wanted
    assert kernel_text(b"\x0c\x02\xed\xa0") is None
    assert kernel_text(b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x04\x00\x00\xff") is None
    assert kernel_text(b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x04\x00\x00a") == '{"a":null}'


@pytest.mark.parametrize("size", [1, 7, 8, 9, 19])
def test_each_character_is_escaped_at_each_place(size: int) -> None:
    """Eight plain characters go in one step: none of them may hide one that needs an escape."""
    for code in [*range(0x80), 0xE9, 0x20AC, 0x1F600]:
        for place in range(size):
            string = "p" * place + chr(code) + "q" * (size - place - 1)
            assert kernel_text(document(string)) == json.dumps(string, ensure_ascii=False)


@pytest.fixture(scope="module")
def fences() -> Iterator[tuple[Fenced, Fenced]]:
    pair = Fenced(), Fenced()
    yield pair
    for fenced in pair:
        fenced.open()


DAMAGED = nested(PLAIN | SHORT_DECIMALS | OPAQUE), st.booleans(), st.data()
FENCED = settings(QUICK, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FENCED
@given(*DAMAGED)
def test_damage_ends_as_in_the_plain_reader(
    fences: tuple[Fenced, Fenced], value: Any, large: bool, data: st.DataObject
) -> None:
    assert_ends_alike(fences, value, large, data)


@settings(FENCED, max_examples=1500)
@given(*DAMAGED)
def test_much_damage_ends_as_in_the_plain_reader(
    fences: tuple[Fenced, Fenced], value: Any, large: bool, data: st.DataObject
) -> None:
    assert_ends_alike(fences, value, large, data)


def assert_ends_alike(fences: tuple[Fenced, Fenced], value: Any, large: bool, data: st.DataObject) -> None:
    """Damage a document, cut it, and compare what the kernel makes of it with what the plain reader does."""
    stored = bytearray(document(value, large=large))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(stored) - 1, 40)) | st.integers(0, len(stored) - 1))
        stored[at] = data.draw(st.integers(0, 15) | st.integers(0, 255))
    del stored[data.draw(st.just(len(stored)) | st.integers(1, len(stored))) :]
    try:
        wanted = json_text(bytes(stored))
    except ValueError:
        wanted = None
    source, target = fences[0].last(len(stored)), fences[1].last(text_room(len(stored)))
    source[:] = stored
    status, text = run_kernel(source.view(), target)
    if status == LEFT:
        column = pa.array([b"", bytes(stored)], pa.binary())
        if wanted is None:
            with pytest.raises(ValueError, match=r"."):
                json_texts(column)
        else:
            assert json_texts(column).to_pylist() == ["null", wanted]
    else:
        assert (status, text.decode("utf-8")) == (DONE, wanted)


@pytest.mark.parametrize(
    "member",
    [
        b"\x0c\x07\x00" + b"\x05" + b"abcd",  # a string of five bytes, four in the array
        b"\x0c\x07\x00" + b"\x84",  # a length whose second byte is outside
        b"\x0b\x07\x00" + bytes(7),  # a double of seven bytes
        b"\x09\x08\x00" + bytes(8),  # an integer that begins one byte late
        b"\x07\x00\x00",  # an integer that is the array's own head
        b"\x02\x07\x00" + b"\x00\x00\x05\x00",  # an array of five bytes, four in the outer one
    ],
)
def test_values_stay_inside_their_container(member: bytes) -> None:
    """The array ends too early for its member; bytes that would complete it follow outside."""
    stored = b"\x02\x01\x00" + (4 + len(member)).to_bytes(2, "little") + member + bytes(16)
    assert kernel_text(stored) is None
    with pytest.raises(ValueError, match=r"."):
        json_texts(pa.array([stored], pa.binary()))


def test_every_cut_of_a_document_is_refused() -> None:
    stored = document({"a": [1, "two", {"three": 3.25}], "b": 1 << 40}, large=True)
    assert kernel_text(stored) == json_text(stored)
    for size in range(1, len(stored)):
        assert kernel_text(stored[:size]) is None
        with pytest.raises(ValueError, match=r"."):
            json_texts(pa.array([stored[:size]], pa.binary()))


def test_values_that_share_bytes_are_refused_before_they_multiply() -> None:
    """Forty arrays, each the two members of the one around it, would be a text of a terabyte."""
    inner = b"\x00\x00\x04\x00"  # []
    for _ in range(40):
        inner = b"\x02\x00" + (10 + len(inner)).to_bytes(2, "little") + b"\x02\x0a\x00" * 2 + inner
    stored = b"\x02" + inner
    assert kernel_text(stored) is None
    with pytest.raises(ValueError, match="overlap"):
        json_texts(pa.array([stored], pa.binary()))


def array_of_one_value(kind: int, value: bytes) -> bytes:
    """An array whose two members are the same bytes."""
    entry = bytes([kind]) + b"\x0a\x00"
    return b"\x02\x02\x00" + (10 + len(value)).to_bytes(2, "little") + entry * 2 + value


@pytest.mark.parametrize(
    "stored",
    [
        array_of_one_value(12, b"\x64" + b"x" * 100),
        array_of_one_value(11, b"\0" * 6 + b"\xf0\x3f"),
        array_of_one_value(9, b"\x01" * 8),
        # An object of two NULL members whose keys are the same five bytes.
        b"\x00\x02\x00\x17\x00" + b"\x12\x00\x05\x00" * 2 + b"\x04\x00\x00" * 2 + b"abcde",
    ],
    ids=["string", "double", "integer", "key"],
)
def test_neither_values_nor_keys_share_bytes(stored: bytes) -> None:
    assert kernel_text(stored) is None
    with pytest.raises(ValueError, match="overlap"):
        json_texts(pa.array([stored], pa.binary()))


@pytest.mark.parametrize("value", ["\x01" * 5000, ["\x1f"] * 3000, [0.0001220703125] * 500, {"": None}, [False] * 500])
def test_the_longest_texts_have_room(fences: tuple[Fenced, Fenced], value: Any) -> None:
    stored = document(value)
    source, target = fences[0].last(len(stored)), fences[1].last(text_room(len(stored)))
    source[:] = np.frombuffer(stored, dtype=np.uint8)
    assert run_kernel(source.view(), target) == (DONE, json_text(stored).encode())
    assert run_kernel(source.view(), target[1:])[0] == FULL
    rows = [stored, None, document([Opaque(252, b"")] * 9), stored] * 5
    assert json_texts(pa.array(rows, pa.binary())).to_pylist() == expected(rows)


def test_columns_without_values() -> None:
    assert json_texts(pa.array([], pa.binary())).to_pylist() == []
    assert json_texts(pa.array([None, None], pa.binary())).to_pylist() == [None, None]
    assert json_texts(pa.array([b"", b""], pa.binary())).to_pylist() == ["null", "null"]


def test_depth_is_limited_as_at_the_server() -> None:
    value: Any = 1
    for _ in range(100):
        value = {"k": value}
    assert kernel_text(document(value, large=True)) == '{"k":' * 100 + "1" + "}" * 100
    assert kernel_text(document([value], large=True)) is None
    with pytest.raises(ValueError, match="deeper than 100"):
        json_texts(pa.array([document([value], large=True)], pa.binary()))


def test_damage_in_a_log_names_column_and_place() -> None:
    log = Log()
    damaged = document({"a": [1, 2, 3]})[:-2]
    rows = [[integer(1, 4), prefixed(document({"a": 1}), 4)], [integer(2, 4), prefixed(damaged, 4)]]
    log.transaction(1, "t", [int_col(), Col("j", 245, b"\x04")], rows)
    with pytest.raises(DecodeError, match=r"f\.000001:\d+ and after: column .*t\.j .*binary JSON"):
        list(decode_events(bytes(log.data), file="f.000001"))
