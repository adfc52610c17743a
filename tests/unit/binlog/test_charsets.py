"""Collation numbers and character sets, including where servers differ from Python's codecs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.values.charset_tables import MULTI_BYTE, SINGLE_BYTE, UNDEFINED
from databus.binlog.values.charsets import charset_named, charset_of
from tests.unit.binlog.log_encoder import Log, int_col, text_col
from tests.unit.binlog.value_encoder import integer, prefixed


@pytest.mark.parametrize(
    ("collation", "name"),
    [
        (8, "latin1"),
        (33, "utf8mb3"),
        (45, "utf8mb4"),
        (46, "utf8mb4"),
        (63, "binary"),
        (83, "utf8mb3"),
        (255, "utf8mb4"),
        (309, "utf8mb4"),
        (248, "gb18030"),
        (577, "utf8mb3"),
        (609, "utf8mb4"),
        (1032, "latin1"),
        (1070, "utf8mb4"),
        (1248, "utf8mb4"),
        (2048, "utf8mb3"),
        (2304, "utf8mb4"),
        (2816, "utf16"),
        (3271, "utf32"),
    ],
)
def test_collation_numbers(collation: int, name: str) -> None:
    assert charset_of(collation).name == name


def test_unknown_collations_are_not_guessed() -> None:
    for number in (0, 17, 100, 331, 1041, 5000):
        with pytest.raises(KeyError):
            charset_of(number)


@pytest.mark.parametrize(
    ("name", "stored", "text"),
    [
        ("latin1", b"\x80\x81\xe9", "€\x81é"),
        ("swe7", b"[\\]", "ÄÖÅ"),
        ("koi8u", b"\x95\xa4", "•є"),
        ("geostd8", b"\xc0", "ა"),
        ("keybcs2", b"\x80", "Č"),
        ("cp866", b"\xfc", "ⁿ"),
        ("big5", b"\xa4\xa4\xf9\xd6", "中碁"),
        ("sjis", b"\x81\x5f\x83\x5c", "\\ソ"),
        ("cp932", b"\x87\x40\x81\x5f", "①\uff3c"),
        ("ujis", b"\xa1\xc0\xf5\xa1\x8f\xf5\xa1", "\\\ue000\ue3ac"),
        ("eucjpms", b"\xa1\xc1\xad\xa1\x8e\xb1", "\uff5e①ｱ"),
        ("euckr", b"\x81\x41\xb0\xa1", "갂가"),
        ("gb18030", b"\x81\x30\x81\x30", "\x80"),
        ("gb18030", b"a\xa8\xbc\x81\x35\xf4\x37z", "a\u1e3f\ue7c7z"),
        ("utf16", "a😀".encode("utf-16-be"), "a😀"),
        ("utf16le", "a😀".encode("utf-16-le"), "a😀"),
        ("utf32", "a😀".encode("utf-32-be"), "a😀"),
        ("ucs2", b"\x04\x16", "Ж"),
    ],
)
def test_text_as_the_servers_convert_it(name: str, stored: bytes, text: str) -> None:
    assert charset_named(name).decode(stored) == text


def test_undefined_bytes_are_refused() -> None:
    for name, stored in (
        ("cp1257", b"\xa5"),
        ("greek", b"\xa4"),
        ("big5", b"\xff"),
        ("utf8mb4", b"\xc3"),
        ("ucs2", b"\x04"),
        ("ucs2", b"\xd8\x3d\xde\x00"),  # a pair that UTF-16 would read as one character
    ):
        with pytest.raises(UnicodeError):
            charset_named(name).decode(stored)


def test_tables_are_whole() -> None:
    for name, (_, wrong, right) in (SINGLE_BYTE | MULTI_BYTE).items():
        codes = wrong.split() if name in MULTI_BYTE else bytes.fromhex(wrong)
        assert len(codes) == len(right)
        assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("collation", [8, 3, 7, 10, 14, 40])
def test_whole_columns_decode_like_single_values(collation: int) -> None:
    charset = charset_of(collation)
    defined = [n for n, c in enumerate(charset.table) if c != UNDEFINED]

    @settings(max_examples=30, deadline=None, database=None)
    @given(
        st.lists(
            st.one_of(st.none(), st.lists(st.sampled_from(defined), max_size=9).map(bytes)), min_size=1, max_size=9
        )
    )
    def check(values: list[bytes | None]) -> None:
        log = Log()
        rows = [[integer(n, 4), None if v is None else prefixed(v, 1)] for n, v in enumerate(values)]
        log.transaction(1, "t", [int_col(), text_col("v", collation=collation)], rows)
        (batch,) = [b for b in decode_events(bytes(log.data), file="f.000001") if isinstance(b, TableBatch)]
        batch.images.validate(full=True)
        assert batch.images.column("v").to_pylist() == [None if v is None else charset.decode(v) for v in values]

    check()
