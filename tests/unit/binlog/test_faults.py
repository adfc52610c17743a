"""Damage, truncation and what cannot be decoded: stopped with file, position and type, never skipped."""

from __future__ import annotations

import struct

import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.log.events import BETWEEN_TYPES, EventType
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import Col, Log, int_col, text_col
from tests.unit.binlog.value_encoder import integer, prefixed

FILE = "mysql-bin.000009"
COLUMNS = [int_col(), text_col("x")]


def small_log(*, checksum: bool = True) -> Log:
    log = Log(checksum=checksum)
    log.add(35, bytes(8))
    log.gtid().begin().table_map(1, "t", COLUMNS)
    log.rows(30, 1, 2, [[integer(1, 4), prefixed(b"hello", 1)], [integer(2, 4), None]]).xid()
    log.gtid().query("CREATE TABLE y (z INT)")
    log.gtid().begin().table_map(1, "t", COLUMNS).rows(
        31, 1, 2, [[integer(1, 4), None], [integer(1, 4), prefixed(b"k", 1)]]
    ).xid()
    return log.add(4, bytes(8) + b"mysql-bin.000010")


def read(data: bytes) -> list[object]:
    out: list[object] = []
    decoded = decode_events(data, file=FILE)
    out.append((decoded.transactions.gtid.to_pylist(), decoded.transactions.end_pos.tolist()))
    out += [
        (x.images.to_pylist(), x.op.tolist(), x.ordinal.tolist()) if isinstance(x, TableBatch) else x for x in decoded
    ]
    return out


def error(data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read(data)
    return caught.value


def test_every_flipped_bit_of_a_checksummed_log_is_detected() -> None:
    data = bytes(small_log().data)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << ((at + 1) % 8)
        if at == 17:  # the flag that the file is open, which servers set without a new checksum
            damaged[at] = 2
        with pytest.raises(DecodeError):
            read(bytes(damaged))


def test_every_changed_type_byte_without_checksum_is_detected_or_harmless() -> None:
    log = small_log(checksum=False)
    data = bytes(log.data)
    right = read(data)
    starts = [0, *log.ends[:-1]]
    silent = []
    for start in starts:
        for kind in range(256):
            damaged = bytearray(data)
            damaged[start + 4] = kind
            try:
                if read(bytes(damaged)) != right:
                    silent.append((EventType(data[start + 4]).name, kind))
            except DecodeError:
                continue
    # Without a checksum these are each a well-formed event of another meaning: nothing in the bytes tells.
    allowed = {
        ("GTID", 34),
        ("WRITE_ROWS", 32),
        ("UPDATE_ROWS", 30),
        ("UPDATE_ROWS", 32),
    }
    between = {(kind, other.value) for kind in ("GTID", "PREVIOUS_GTIDS") for other in BETWEEN_TYPES}
    comments = {EventType.VIEW_CHANGE, EventType.ANNOTATE_ROWS}  # these stand inside transactions, without a mark
    assert {s for s in silent if s[1] not in comments} <= allowed | between


def test_a_log_cut_anywhere_but_at_an_end_is_refused() -> None:
    log = small_log()
    data = bytes(log.data)
    whole = {log.ends[i] for i in range(len(log.ends))}
    for size in range(len(data)):
        if size not in whole:
            assert error(data[:size]).message.startswith(f"{FILE}:")


@pytest.mark.parametrize(
    "kind", [0, 1, 5, 13, 14, 17, 18, 20, 26, 38, 39, 40, 43, 99, 165, 166, 167, 168, 169, 170, 171, 172, 255]
)
def test_unsupported_events_are_named_with_position_and_hint(kind: int) -> None:
    log = Log()
    log.gtid().begin()
    at = log.position
    log.add(kind, bytes(40)).xid()
    found = error(bytes(log.data))
    assert f"{FILE}:{at}:" in found.message
    assert f"({kind})" in found.message
    assert found.hint
    assert found.code == "source_decode"
    assert not found.retryable


def test_mariadb_gtid_flags_that_are_not_known_are_named() -> None:
    log = Log(version="10.11.2-MariaDB")
    at = log.position
    log.mariadb_gtid(1, tail=b"\x20").query("CREATE TABLE x (a INT)")
    found = error(bytes(log.data))
    assert f"{FILE}:{at}: event MARIADB_GTID (162)" in found.message
    assert "0x20" in found.message


def test_mariadb_events_in_a_mysql_log_are_refused() -> None:
    log = Log()
    log.mariadb_gtid(1, tail=b"\x02").query("CREATE TABLE x (a INT)")
    assert "is not one this decoder understands" in error(bytes(log.data)).message


def test_bytes_missing_between_events_show_without_checksum() -> None:
    log = small_log(checksum=False)
    data = bytes(log.data)
    without_one = data[: log.ends[0]] + data[log.ends[1] :]
    assert "does not lie where" in error(without_one).message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: body + b"\0", "ends inside a row"),
        (lambda body: body[:-1], "ends inside a row"),
        (lambda body: body[:10] + b"\x03" + body[11:], "columns of its TABLE_MAP"),
        (lambda body: b"\x05" + body[1:], "no TABLE_MAP event before it"),
    ],
)
def test_rows_that_do_not_fit_their_table(change: object, words: str) -> None:
    log = Log(checksum=False)
    log.gtid().begin().table_map(1, "t", COLUMNS)
    whole = Log(checksum=False).rows(30, 1, 2, [[integer(1, 4), prefixed(b"hello", 1)]])
    body = bytes(whole.data[whole.ends[0] + 19 :])
    at = log.position
    log.add(30, change(body)).xid()  # type: ignore[operator]
    found = error(bytes(log.data))
    assert words in found.message
    assert f"{FILE}:{at}" in found.message


def test_rows_outside_a_transaction_and_nested_transactions() -> None:
    log = Log().table_map(1, "t", COLUMNS).rows(30, 1, 2, [[integer(1, 4), None]])
    assert "outside any transaction" in error(bytes(log.data)).message
    assert "inside another" in error(bytes(Log().gtid().begin().gtid().data)).message


def test_a_table_without_names_is_refused_only_when_wanted() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "t", COLUMNS, full=False).rows(30, 1, 2, [[integer(1, 4), None]]).xid()
    found = error(bytes(log.data))
    assert "binlog_row_metadata=FULL" in found.hint
    assert list(decode_events(bytes(log.data), file=FILE, tables=lambda database, table: False)) == []


def test_unknown_column_types_and_collations_are_refused() -> None:
    for column, words in ((Col("c", 20), "column type 20"), (text_col("c", collation=5000), "collation 5000")):
        log = Log()
        log.gtid().begin()
        at = log.position
        log.table_map(1, "t", [int_col(), column])
        found = error(bytes(log.data))
        assert words in found.message
        assert f"{FILE}:{at}" in found.message


def test_a_compressed_column_without_its_character_set_is_refused_by_name() -> None:
    log = Log()
    columns = [int_col(), Col("body", 140, b"\x02")]
    log.gtid().begin().table_map(1, "t", columns).rows(30, 1, 2, [[integer(1, 4), prefixed(b"zz", 2)]]).xid()
    assert "shop.t.body is logged without its character set" in error(bytes(log.data)).message


def test_other_things_than_a_log() -> None:
    assert "FORMAT_DESCRIPTION" in error(b"\0" * 200).message
    assert "whole event header" in error(b"abc").message
    version3 = bytearray(Log(checksum=False).data)
    version3[19] = 3
    assert "binlog version 3" in error(bytes(version3)).message
    strange = bytearray(Log(checksum=False).data)
    strange[-5] = 9
    assert "checksum algorithm 9" in error(bytes(strange)).message


def test_an_event_of_impossible_size() -> None:
    log = Log(checksum=False)
    data = bytes(log.data) + struct.pack("<IBIIIH", 0, 16, 1, 5, 0, 0)
    assert "impossible size of 5" in error(data).message
