"""RDB files: every form is read as it was written; damaged ones end with a named error, in little memory."""

from __future__ import annotations

import io
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import RdbCorruptError, RdbCutError, RdbError, RdbUnknownError
from databus.redis import read_dump, read_rdb
from databus.redis.byte_reader import ByteReader, crc64
from databus.redis.rdb import blobs
from databus.redis.rdb.file import RdbReader
from databus.redis.rdb.lzf import decompress
from databus.redis.rdb.values import Key, ModuleValue
from tests.unit.redis import rdb_writer as w
from tests.unit.redis.drawn_values import BY_CODE, numbers, texts

CODES = st.sampled_from(sorted(BY_CODE))


@st.composite
def drawn(draw) -> tuple[int, object]:
    code = draw(CODES)
    return code, draw(BY_CODE[code])


def read(data: bytes, piece: int = 1 << 16) -> tuple[RdbReader, list[Key]]:
    stream = io.BytesIO(data)
    rdb = RdbReader(ByteReader(lambda count: stream.read(min(count, piece)), "drawn.rdb"))
    return rdb, list(rdb)


@given(drawn(), st.booleans())
def test_each_form_is_read_as_it_was_written(found: tuple[int, object], compressed: bool) -> None:
    code, value = found
    body = bytes([code]) + w.value(code, value, compressed=compressed)
    dumped = read_dump(w.payload(body), "k")
    assert dumped.value == value
    assert type(dumped.value) is type(value)


@given(st.lists(st.tuples(drawn(), texts, st.integers(0, 20)), max_size=5), st.sampled_from([1, 3, 64, 1 << 16]))
def test_a_file_gives_its_keys_whatever_the_pieces_it_comes_in(entries, piece: int) -> None:
    parts, expected = [b"\xfa" + w.string(b"redis-ver") + w.string(b"7.0.15")], []
    for (code, value), name, database in entries:
        expires = database * 1000 if database % 3 else None
        before = b"\xfd" + struct.pack("<i", database) if database % 3 == 1 else b""
        before = b"\xfc" + struct.pack("<q", database * 1000) if database % 3 == 2 else before
        idle = database if database % 2 else None
        before += b"\xf8" + w.length(database) if database % 2 else b"\xf9\x07"
        parts += [b"\xfe" + w.length(database), b"\xfb\x01\x00", w.entry(code, name, value, before)]
        expected.append((database, name, value, expires, idle, None if database % 2 else 7))
    rdb, keys = read(w.file(*parts), piece)
    assert [(k.database, k.name, k.value, k.expires_at_ms, k.idle_s, k.frequency) for k in keys] == expected
    assert rdb.fields == {"redis-ver": b"7.0.15"}
    assert rdb.checked


@given(st.lists(drawn(), min_size=1, max_size=3), st.data())
def test_a_cut_file_is_named_wherever_it_is_cut(entries, data) -> None:
    whole = w.file(*[w.entry(code, b"k%d" % n, value) for n, (code, value) in enumerate(entries)])
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(RdbCutError, match=r"drawn\.rdb ends at byte"):
        read(cut)


@given(st.lists(drawn(), min_size=1, max_size=3), st.data())
def test_a_damaged_file_is_never_read_to_its_end(entries, data) -> None:
    whole = w.file(*[w.entry(code, b"k%d" % n, value) for n, (code, value) in enumerate(entries)])
    at = data.draw(st.integers(0, len(whole) - 9))
    broken = bytearray(whole)
    broken[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RdbError):
        read(bytes(broken))


@given(
    drawn(), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=4), st.booleans()
)
def test_damage_that_the_checksum_covers_up_gives_a_value_or_a_named_error(found, flips, cut: bool) -> None:
    code, value = found
    body = bytearray(bytes([code]) + w.value(code, value))
    for at, bits in flips:
        body[at % len(body)] ^= bits
    if cut:
        del body[flips[0][0] % len(body) + 1 :]
    try:
        dumped = read_dump(w.payload(bytes(body)), "k")
    except RdbError:
        return
    assert dumped.kind


@given(st.binary(max_size=200), st.sampled_from([blobs.listpack, blobs.ziplist, blobs.zipmap, blobs.intset]))
def test_any_bytes_as_a_packed_form(data: bytes, unpack) -> None:
    sized = struct.pack("<I", len(data) + 5) + data + b"\xff"
    for each in (data, sized):
        try:
            unpack(each)
        except blobs.BlobError:
            continue


@given(st.binary(max_size=120), st.integers(0, 2000))
def test_any_bytes_as_compressed_ones(data: bytes, length: int) -> None:
    try:
        assert len(decompress(data, length)) == length
    except blobs.BlobError:
        return


@given(st.binary(max_size=2000) | st.lists(st.sampled_from([b"ab", b"cde", b"a" * 300]), max_size=40).map(b"".join))
def test_compressed_bytes_are_those_that_were_compressed(data: bytes) -> None:
    assert decompress(w.compress(data), len(data)) == data


@given(st.lists(numbers | texts, max_size=20))
def test_items_of_listpacks_and_ziplists(items) -> None:
    expected = [item if isinstance(item, bytes) else b"%d" % item for item in items]
    assert blobs.texts(blobs.listpack(w.listpack(items))) == expected
    assert blobs.texts(blobs.ziplist(w.ziplist(items))) == expected


@pytest.mark.parametrize("size", [120, 127, 128, 16370, 16383, 2097140, 2097151])
def test_long_items_of_listpacks(size: int) -> None:
    for length in range(size - 12, size + 3):
        items = [b"x" * length, b"y"]
        assert blobs.listpack(w.listpack(items)) == items


def test_more_items_than_a_count_of_two_bytes_holds() -> None:
    items = [b"a"] * 65_536
    assert blobs.listpack(w.listpack(items)) == items
    assert blobs.ziplist(w.ziplist(items)) == items


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x81" + b"\x7f" + b"\xff" * 7,
        b"\x00\xc3\x05\x81" + b"\x7f" + b"\xff" * 7 + b"abcde",
        b"\x01\x81" + b"\x7f" + b"\xff" * 7 + b"\x01a",
        b"\x04\x81" + b"\x7f" + b"\xff" * 7 + b"\x01a\x01b",
        b"\x0b\x08" + b"\x08\x00\x00\x00\xff\xff\xff\x7f",
        b"\x13\x81" + b"\x7f" + b"\xff" * 7,
        b"\x07\x81" + b"\x7f" + b"\xff" * 7 + b"\x05\x81" + b"\x7f" + b"\xff" * 7,
    ],
)
def test_a_length_that_is_not_there_does_not_become_memory(body: bytes) -> None:
    data = w.payload(body)
    tracemalloc.start()
    try:
        with pytest.raises(RdbError):
            read_dump(data, "k")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_the_checksum_is_jones() -> None:
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA
    data = bytes(range(256)) * 5
    for cut in (0, 1, 7, 8, 9, 1000):
        assert crc64(data[cut:], crc64(data[:cut])) == crc64(data)


def test_a_wrong_checksum_and_none() -> None:
    whole = w.file(w.entry(0, b"k", b"v"))
    with pytest.raises(RdbCorruptError, match="checksum"):
        read(whole[:-1] + bytes([whole[-1] ^ 1]))
    rdb, keys = read(w.file(w.entry(0, b"k", b"v"), summed=False))
    assert ([key.value for key in keys], rdb.checked) == ([b"v"], False)
    rdb, keys = read(w.file(w.entry(0, b"k", b"v"), version=4))
    assert ([key.value for key in keys], rdb.checked) == ([b"v"], False)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"REDIS0011\xff", RdbUnknownError, "version 11"),
        (b"REDIS0000\xff", RdbUnknownError, "version 0"),
        (b"REDIT0010\xff", RdbCorruptError, "no RDB file"),
        (b"*1\r\n$4\r\nPING\r\n", RdbCorruptError, "no RDB file"),
        (b"", RdbCutError, "ends at byte 0"),
        (w.file(b"\x14\x01k\x00"), RdbUnknownError, "type or opcode 20"),
        (w.file(b"\xf4\x01\x01\x01"), RdbUnknownError, "type or opcode 244"),
        (w.file(b"\x08\x01k\x00"), RdbUnknownError, "type or opcode 8"),
        (w.file(b"\xf6\x01k"), RdbUnknownError, "preview"),
        (w.file(b"\x06\x01k\x00"), RdbUnknownError, "before Redis 4.0"),
        (w.file(b"\x00\x01k\xc5"), RdbCorruptError, "unknown form 5"),
        (w.file(b"\x00\x01k\x82"), RdbCorruptError, "unknown form 0x82"),
        (w.file(b"\x01\x01k\xc0\x01"), RdbCorruptError, "where a number was to be"),
        (w.file(b"\x02\x01k\x02\x01a\x01a"), RdbCorruptError, "member twice"),
        (w.file(b"\x04\x01k\x02\x01a\x01a\x01a\x01a"), RdbCorruptError, "field twice"),
        (w.file(b"\x05\x01k\x01\x01a" + struct.pack("<d", float("nan"))), RdbCorruptError, "no number"),
        (w.file(b"\x03\x01k\x01\x01a\x031_0"), RdbCorruptError, "where a number was to be"),
        (w.file(b"\x10\x01k" + w.string(w.listpack([b"a"]))), RdbCorruptError, "pairs"),
        (w.file(b"\x12\x01k\x01\x03\x01a"), RdbCorruptError, "node of unknown form 3"),
        (w.file(b"\x07\x01k\x01\x09"), RdbCorruptError, "part of unknown form 9"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(data: bytes, kind: type[RdbError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        read(data)
    assert caught.value.hint


def test_what_stands_beside_the_keys() -> None:
    identity = sum("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".index(c) << s
                   for c, s in zip("tree-Type", range(58, 4, -6), strict=True)) | 3  # fmt: skip
    parts = b"\x01" + w.length((1 << 64) - 5) + b"\x02\x07\x03" + struct.pack("<f", 0.5)
    parts += b"\x04" + struct.pack("<d", 0.1) + b"\x05\x02ab\x00"
    rdb, keys = read(
        w.file(
            b"\xf5" + w.string(b"#!lua name=lib\n"),
            b"\xf7" + w.length(identity) + b"\x02\x01\x00",
            w.entry(0, b"k", b"v"),
            b"\x07\x01m" + w.length(identity) + parts,
        )
    )
    assert rdb.functions == [b"#!lua name=lib\n"]
    assert rdb.module_fields == [ModuleValue("tree-Type", 3, (1,))]
    assert keys[1].value == ModuleValue("tree-Type", 3, (-5, 7, 0.5, 0.1, b"ab"))


def test_a_file_on_a_disk(tmp_path: Path) -> None:
    path = tmp_path / "dump.rdb"
    path.write_bytes(w.file(w.entry(0, b"k", b"v" * 200_000)))
    with read_rdb(path) as rdb:
        assert [len(key.value) for key in rdb] == [200_000]
        assert rdb.checked
    path.write_bytes(path.read_bytes() + b"*1\r\n")
    with read_rdb(path) as rdb, pytest.raises(RdbCorruptError, match="bytes follow"):
        list(rdb)
    path.write_bytes(b"nothing of it")
    with pytest.raises(RdbCorruptError, match="no RDB file"):
        read_rdb(path)


def test_a_loop_that_is_left_is_gone_on_with_and_a_failure_stays() -> None:
    stream = io.BytesIO(w.file(*[w.entry(0, b"k%d" % n, b"v") for n in range(4)])[:-1])
    rdb = RdbReader(ByteReader(stream.read, "cut.rdb"))
    for key in rdb:
        if key.name == b"k1":
            break
    found = []
    for _ in range(2):
        with pytest.raises(RdbCutError, match=r"cut\.rdb ends at byte"):
            found.extend(key.name for key in rdb)
    assert found == [b"k2", b"k3"]


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"\x00\x01a\x0a\x00", RdbCutError, "more than 10 bytes"),
        (w.payload(b"\x00\x01a", version=11), RdbUnknownError, "version 11"),
        (w.payload(b"\x00\x01a")[:-1] + b"\x00", RdbCorruptError, "checksum"),
        (w.payload(b"\x00\x01ab"), RdbCorruptError, "bytes follow"),
    ],
)
def test_payloads_that_are_refused(data: bytes, kind: type[RdbError], words: str) -> None:
    with pytest.raises(kind, match=words):
        read_dump(data, "k")
