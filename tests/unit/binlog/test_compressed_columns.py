"""MariaDB's COMPRESSED values: every form the server's source describes, and damage named."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.values.compressed_columns import uncompressed_value
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import Col, Log, int_col, table_map_body
from tests.unit.binlog.value_encoder import integer, prefixed


def packed(value: bytes, *, wrap: bool = False, pad: int = 0) -> bytes:
    """Compress as `compress_zlib` does; `pad` leading zero bytes in the length are allowed by the format."""
    size = (len(value).bit_length() + 7) // 8 + pad
    stream = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS if wrap else -zlib.MAX_WBITS)
    head = bytes([0x80 | size | (0 if wrap else 8)]) + len(value).to_bytes(size, "big")
    return head + stream.compress(value) + stream.flush()


@given(st.binary(min_size=1, max_size=3000), st.booleans(), st.integers(0, 2))
def test_packed_values_come_back(value: bytes, wrap: bool, pad: int) -> None:
    assert uncompressed_value(packed(value, wrap=wrap, pad=pad)) == value


def test_values_that_are_not_packed() -> None:
    assert uncompressed_value(b"") == b""
    assert uncompressed_value(b"\0") == b""
    assert uncompressed_value(b"\0as it is") == b"as it is"
    assert uncompressed_value(packed(b"a" * 70_000)) == b"a" * 70_000


@pytest.mark.parametrize(
    "stored",
    [
        b"\x01abc",  # method 0 with a length
        b"\x10abc",
        b"\x90abc",
        b"\xf9abc",
        b"\x80abc",  # zlib without a length
        b"\x8a\x05",  # cut inside the length
        packed(b"a" * 500)[:-1],
        packed(b"a" * 500) + b"x",
        packed(b"a" * 500, wrap=True)[:-1],
        b"\x8a\x01\xf3" + packed(b"a" * 500)[3:],  # one byte fewer than promised
        b"\x8a\x01\xf5" + packed(b"a" * 500)[3:],
        b"\x89\x05\xff\xff\xff",
    ],
)
def test_damage_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match="compress"):
        uncompressed_value(stored)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_refusal(stored: bytes) -> None:
    fault = ""
    try:
        uncompressed_value(stored)
    except ValueError as error:
        fault = str(error)
    assert not fault or "compress" in fault


def logged(values: list[bytes | None]) -> bytes:
    log = Log(version="10.11.6-MariaDB")
    columns = [int_col(), Col("v", 141, (301).to_bytes(2, "little")), Col("b", 140, b"\x02")]
    charsets = b"\x03\x02" + bytes([8, 63])  # latin1 and binary: metadata of the character columns
    log.mariadb_gtid(1).add(19, table_map_body(1, "shop", "t", columns) + charsets)
    rows = [
        [integer(n, 4), None if v is None else prefixed(v, 2), None if v is None else prefixed(v, 2)]
        for n, v in enumerate(values)
    ]
    return bytes(log.rows(30, 1, 3, rows).xid().data)


def test_columns_of_a_log() -> None:
    data = logged([packed(b"caf\xe9" * 60), b"", None, b"\0caf\xe9"])
    (batch,) = [b for b in decode_events(data, file="f.000001") if isinstance(b, TableBatch)]
    batch.images.validate(full=True)
    assert batch.images.column("v").to_pylist() == ["café" * 60, "", None, "café"]
    assert batch.images.column("b").to_pylist() == [b"caf\xe9" * 60, b"", None, b"caf\xe9"]
    assert [c.type for c in batch.schema.columns] == ["int", "varchar(300)", "blob"]


def test_damage_in_a_log_names_column_and_place() -> None:
    with pytest.raises(DecodeError, match=r"f\.000001:\d+ and after: column shop\.t\.v .*compress"):
        list(decode_events(logged([b"\x90"]), file="f.000001"))
