"""Text that is not of its column's character set: kept as bytes, in any row, in any kind of character set."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.values.charsets import charset_of
from tests.unit.binlog.log_encoder import Col, Log, int_col, table_map_body, text_col
from tests.unit.binlog.value_encoder import integer, prefixed


def decoded(values: list[bytes | None], collation: int) -> TableBatch:
    log = Log()
    rows = [[integer(n, 4), None if v is None else prefixed(v, 1)] for n, v in enumerate(values)]
    log.transaction(1, "t", [int_col(), text_col("v", collation=collation)], rows)
    (batch,) = [b for b in decode_events(bytes(log.data), file="f.000001") if isinstance(b, TableBatch)]
    batch.images.validate(full=True)
    return batch


@pytest.mark.parametrize(
    ("collation", "bad", "good", "text"),
    [
        (255, b"ok\xff\xff", "é€".encode(), "é€"),  # utf8mb4
        (33, b"\xed\xa0\x80", b"x", "x"),  # utf8mb3: half of a surrogate pair
        (11, b"a\x80", b"a", "a"),  # ascii
        (1, b"ok\xff\xff", b"\xa4\xa4", "中"),  # big5
        (57, b"\x9a\x8a", b"a", "a"),  # cp1256
        (35, b"\xd8\x00", b"\x04\x16", "Ж"),  # ucs2
        (54, b"\xdc\x00\x00a", b"\xd8\x3d\xde\x00", "😀"),  # utf16
        (60, b"\x00\x11\x00\x00", b"\x00\x00\x00a", "a"),  # utf32
    ],
)
def test_undecodable_bytes_are_kept_and_the_rest_is_read(collation: int, bad: bytes, good: bytes, text: str) -> None:
    batch = decoded([good, bad, None, b"", bad], collation)
    assert batch.images.column("v").to_pylist() == [text, None, None, "", None]
    assert batch.exceptions == {1: {1: bad, 4: bad}}
    assert batch.images.column("id").to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("collation", [8, 25, 13, 12, 28, 24, 19, 35, 54, 56, 60, 45, 33, 11, 248, 97])
def test_every_value_is_its_text_or_its_bytes(collation: int) -> None:
    charset = charset_of(collation)

    @settings(max_examples=60, deadline=None, database=None)
    @given(st.lists(st.none() | st.binary(max_size=12), min_size=1, max_size=9))
    def check(values: list[bytes | None]) -> None:
        batch = decoded(values, collation)
        kept = batch.exceptions.get(1, {})
        for row, (value, text) in enumerate(zip(values, batch.images.column("v").to_pylist(), strict=True)):
            if row in kept:
                assert kept[row] == value
                assert text is None
                with pytest.raises(UnicodeError):
                    charset.decode(value or b"")
            else:
                assert text == (None if value is None else charset.decode(value))

    check()


@pytest.mark.parametrize(("collation", "comma"), [(25, b","), (35, b"\0,")])  # greek, ucs2
def test_members_without_text_are_kept(collation: int, comma: bytes) -> None:
    """An ENUM and a SET of one member without text and one with; the server takes ENUM(x'AA') in greek."""
    bad, good = (b"\xaa", b"a") if collation == 25 else (b"\xd8\0", b"\0a")
    columns = [int_col(), Col("e", 254, b"\xf7\x01", real=247), Col("s", 254, b"\xf8\x01", real=248)]
    lists = b"\x02" + b"".join(bytes([len(v)]) + v for v in (bad, good))
    names = b"\x04\x07\x02id\x01e\x01s"
    charset = bytes([11, 2, collation, collation])
    body = table_map_body(1, "shop", "t", columns, full=False) + names
    body += charset + b"".join(bytes([number, len(lists)]) + lists for number in (5, 6))
    log = Log()
    log.gtid().begin().add(19, body)
    rows = [[integer(n, 4), bytes([e]), bytes([m])] for n, (e, m) in enumerate([(0, 0), (1, 1), (2, 2), (1, 3)])]
    log.rows(30, 1, 3, [*rows, [integer(9, 4), None, None]]).xid()
    (batch,) = [b for b in decode_events(bytes(log.data), file="f.000001") if isinstance(b, TableBatch)]
    assert batch.images.column("e").to_pylist() == ["", None, "a", None, None]
    assert batch.images.column("s").to_pylist() == ["", None, "a", None, None]
    assert batch.exceptions == {1: {1: bad, 3: bad}, 2: {1: bad, 3: bad + comma + good}}
