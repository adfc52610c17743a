"""Compressed transactions (MySQL) and compressed events (MariaDB): the same rows at the same places as without."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable

import numpy as np
import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch, TableEvent
from databus.binlog.log.scan import scan_events
from databus.binlog.log.walker import Walker
from databus.core.errors import DecodeError
from tests.unit.binlog.compressed_encoder import (
    add_payload,
    compress_last,
    contents,
    payload_body,
    zlib_part,
    zstd,
)
from tests.unit.binlog.log_encoder import Log, int_col, text_col
from tests.unit.binlog.value_encoder import integer, prefixed

FILE = "mysql-bin.000009"
COLUMNS = [int_col(), text_col("x", 4000)]


def row(number: int, text: str = "hello") -> list[bytes | None]:
    return [integer(number, 4), prefixed(text.encode(), 2)]


def transaction(log: Log, *numbers: int, repeat: int = 200) -> Log:
    """Write a transaction's events, from BEGIN to commit: two tables, an update between inserts."""
    log.begin().table_map(1, "t", COLUMNS).table_map(2, "u", COLUMNS)
    for n in numbers:
        log.rows(30, 1, 2, [row(n, "é" * repeat), row(n + 1)])
        log.rows(30, 2, 2, [row(n, "u")])
        log.rows(31, 1, 2, [row(n, "é" * repeat), row(n, "new")])
    return log.xid()


def mysql_log(*, compressed: bool, checksum: bool = True, streamed: bool = True) -> Log:
    """Plain transactions, compressed ones, definitions, a payload at the end."""
    log = Log(checksum=checksum)
    log.add(35, bytes(8))
    for first in (10, 20, 30):
        log.gtid(commit_us=1_700_000_000_000_000 + first)
        if compressed and first != 20:
            add_payload(log, transaction(contents(), first, first + 3), streamed=streamed)
        else:
            transaction(log, first, first + 3)
        if first == 10:
            log.gtid().query("CREATE TABLE y (z INT)")
    return log


def mariadb_log(*, compressed: bool, checksum: bool = True) -> Log:
    log = Log(checksum=checksum, version="10.11.2-MariaDB")

    def maybe(head_bytes: int) -> None:
        if compressed:
            compress_last(log, head_bytes)

    for number, (insert, update, delete) in enumerate(((23, 24, 25), (30, 31, 32)), start=1):
        log.mariadb_gtid(number).table_map(1, "t", COLUMNS)
        extra = 0 if insert == 23 else 2
        log.rows(insert, 1, 2, [row(1, "é" * 300), row(2)])
        maybe(8 + extra + 1 + 1)
        log.rows(insert, 1, 2, [row(3)])
        log.rows(update, 1, 2, [row(1, "é" * 300), row(1, "new")])
        maybe(8 + extra + 1 + 2)
        log.rows(delete, 1, 2, [row(2), row(3, "x" * 900)])
        maybe(8 + extra + 1 + 1)
        log.xid()
    log.mariadb_gtid(3, flags=1).query("CREATE TABLE a_table (id INT, name VARCHAR(100) DEFAULT 'aaaaaaaaaaaaa')")
    maybe(13 + 5)
    return log


def read(data: bytes, **options: object) -> list[object]:
    """Return what a log says, without file positions."""
    decoded = decode_events(data, file=FILE, **options)  # type: ignore[arg-type]
    log = decoded.transactions
    out: list[object] = [log.gtid.to_pylist(), log.ts_ms.tolist(), log.server_id.tolist()]
    for item in decoded:
        if isinstance(item, TableBatch):
            facts = (item.op, item.ordinal, item.transaction, item.before_row, item.after_row)
            out.append((item.schema.full_name, item.images.to_pylist(), [f.tolist() for f in facts]))
        else:
            out.append(item)
    return out


def error(data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read(data)
    return caught.value


BOTH = pytest.mark.parametrize("make", [mysql_log, mariadb_log])


@BOTH
@pytest.mark.parametrize("checksum", [True, False])
def test_the_same_rows_with_and_without_compression(make: Callable[..., Log], checksum: bool) -> None:
    plain = read(bytes(make(compressed=False, checksum=checksum).data))
    assert read(bytes(make(compressed=True, checksum=checksum).data)) == plain
    assert sum(len(x[1]) for x in plain if isinstance(x, tuple)) >= 14
    assert any(isinstance(x, TableEvent) for x in plain)


def test_frames_that_state_their_size_and_payloads_of_several_frames() -> None:
    plain = read(bytes(mysql_log(compressed=False).data))
    assert read(bytes(mysql_log(compressed=True, streamed=False).data)) == plain
    inner = bytes(transaction(contents(), 10).data)
    log = Log().gtid().add(40, payload_body(zstd(inner[:99]) + zstd(inner[99:]), len(inner)))
    assert read(bytes(log.data)) == read(bytes(transaction(Log().gtid(), 10).data))


@BOTH
def test_places_are_those_of_the_compressed_log(make: Callable[..., Log]) -> None:
    log = make(compressed=True)
    found = decode_events(bytes(log.data), file=FILE).transactions
    begins = [i for i, kind in enumerate(log.types) if kind in (33, 162)]
    starts = [4 + log.ends[i - 1] for i in begins]
    assert found.start_pos.tolist() == starts
    assert found.end_pos.tolist() == [*starts[1:], log.position]
    scan = scan_events(bytes(log.data), file=FILE)
    assert scan.boundaries.tolist() == [p - 4 for p in found.end_pos.tolist()]
    assert (scan.consumed_bytes, scan.position) == (len(log.data), log.position)
    compressed = [k for k in log.types if k in (40, 165, 166, 167, 168, 169, 170, 171)]
    assert sum(n for name, n in scan.events.items() if "COMPRESSED" in name or "PAYLOAD" in name) == len(compressed)


@BOTH
@pytest.mark.parametrize("step", [1, 7, 100, 1000])
def test_a_log_walked_in_pieces_cut_anywhere(make: Callable[..., Log], step: int) -> None:
    data = bytes(make(compressed=True).data)
    whole = Walker(FILE).walk(data)
    walker, pending, done = Walker(FILE), b"", 0
    ends: list[int] = []
    gtids: list[str] = []
    rows = 0
    for at in range(0, len(data), step):
        pending += data[at : at + step]
        walk = walker.walk(pending)
        ends += (walk.transaction_offsets + done).tolist()
        gtids += walk.transactions.gtid.to_pylist()
        rows += len(walk.rows)
        done += walk.consumed_bytes
        pending = pending[walk.consumed_bytes :]
        assert walker.position == 4 + done
    assert pending == b""
    assert (ends, gtids, rows) == (
        whole.transaction_offsets.tolist(),
        whole.transactions.gtid.to_pylist(),
        len(whole.rows),
    )


@BOTH
def test_a_log_cut_at_each_boundary_reads_on(make: Callable[..., Log]) -> None:
    log = make(compressed=True)
    data = bytes(log.data)
    head = data[: log.ends[0]]
    walk = Walker(FILE).walk(data)
    whole = decode_events(data, file=FILE).transactions
    for number, cut in enumerate(walk.transaction_offsets[:-1].tolist(), start=1):
        rest = decode_events(head + data[cut:], file=FILE, base_pos=4 + cut)
        assert rest.transactions.end_pos.tolist() == whole.end_pos.tolist()[number:]
        before = decode_events(data[:cut], file=FILE).transactions
        assert before.end_pos.tolist() == whole.end_pos.tolist()[:number]


def test_a_walk_expands_no_more_than_it_is_told_to() -> None:
    data = bytes(mysql_log(compressed=True).data)
    walker, at, pieces, rows = Walker(FILE), 0, 0, 0
    while at < len(data):
        walk = walker.walk(data[at:], 1)
        assert walk.consumed_bytes > 0
        at, pieces, rows = at + walk.consumed_bytes, pieces + 1, rows + len(walk.rows)
    assert pieces == 2
    assert rows == len(Walker(FILE).walk(data).rows)


def broken(inner: bytes, problem: str) -> bytes:
    """Return a payload event's body with one thing wrong."""
    packed, size = zstd(inner), len(inner)
    checked = zstd(inner, streamed=False)
    return {
        "cut": lambda: payload_body(packed[:-3], size),
        "cut whole": lambda: payload_body(checked[:-3], size),
        "corrupt": lambda: payload_body(packed[:2] + b"\0\0" + packed[4:], size),
        "larger": lambda: payload_body(packed, size + 1),
        "smaller": lambda: payload_body(packed, size - 1),
        "huge": lambda: payload_body(packed, 1 << 50),
        "larger than can be": lambda: payload_body(packed, (1 << 63) - 1),
        "none": lambda: payload_body(inner, size, compression=255),
        "unknown": lambda: payload_body(packed, size, compression=7),
        "no type": lambda: payload_body(packed, size, compression=None),
        "no plain size": lambda: payload_body(packed, None),
        "no size": lambda: payload_body(packed, size, size=None),
        "wrong size": lambda: payload_body(packed, size, size=3),
        "junk after": lambda: payload_body(packed + b"junk", size),
        "twice": lambda: b"\x02\x01\0" + payload_body(packed, size),
        "no end mark": lambda: payload_body(packed, size)[:5],
        "empty": lambda: b"",
    }[problem]()


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("cut", "zstd|holds"),
        ("cut whole", "zstd|holds"),
        ("corrupt", "zstd"),
        ("larger", "states .* uncompressed and holds"),
        ("smaller", "uncompressed and holds more"),
        ("huge", "which no compression can do"),
        ("larger than can be", "which no compression can do"),
        ("none", r"compression type 255 \(NONE\)"),
        ("unknown", "unknown compression type 7"),
        ("no type", "unknown compression type None"),
        ("no plain size", "does not state its sizes"),
        ("no size", "does not state its sizes"),
        ("wrong size", "states a payload of 3 bytes"),
        ("junk after", "zstd"),
        ("twice", "stands there twice"),
        ("no end mark", "cannot be read"),
        ("empty", "cannot be read"),
    ],
)
def test_a_broken_payload_is_named_with_its_position(problem: str, words: str, checksum: bool) -> None:
    log = Log(checksum=checksum)
    transaction(log.gtid(), 1)
    log.gtid()
    at = log.position
    log.add(40, broken(bytes(transaction(contents(), 5).data), problem))
    transaction(log.gtid(), 9)
    found = error(bytes(log.data))
    assert found.message.startswith(f"{FILE}:{at}: event TRANSACTION_PAYLOAD (40) ")
    assert re.search(words, found.message)
    assert found.hint


def without_end(log: Log) -> Log:
    log.begin().table_map(1, "t", COLUMNS)
    return log.rows(30, 1, 2, [row(1)])


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (without_end, "does not end with the transaction's end"),
        (lambda log: without_end(log).query("SAVEPOINT a"), "not one whole transaction"),
        (lambda log: transaction(transaction(log, 1), 2), "not one whole transaction"),
        (lambda log: log.table_map(1, "t", COLUMNS).rows(30, 1, 2, [row(1)]).xid(), "does not begin with"),
        (lambda log: add_payload(log.begin(), transaction(contents(), 1)).xid(), "no compressed transaction can hold"),
        (lambda log: transaction(log.begin().gtid(), 1), "no compressed transaction can hold"),
        (lambda log: log.begin().add(4, bytes(8) + b"x.000002").xid(), "no compressed transaction can hold"),
        (lambda log: log.begin().add(29, b"\0x", flags=0x20).xid(), "no compressed transaction can hold"),
        (lambda log: log.begin().add(99, b"").xid(), "no compressed transaction can hold"),
        (lambda log: without_end(log).query("CREATE TABLE y (z INT)"), "not one whole transaction"),
    ],
)
def test_a_payload_holds_one_whole_transaction(inner: Callable[[Log], Log], words: str) -> None:
    log = Log()
    log.gtid()
    at = log.position
    add_payload(log, inner(contents()))
    found = error(bytes(transaction(log.gtid(), 9).data))
    assert words in found.message
    assert found.message.startswith(f"{FILE}:{at}: ")


def test_contents_cut_inside_an_event() -> None:
    inner = bytes(transaction(contents(), 1).data)
    for data in (inner[:-1], inner + b"x", inner + bytes(19), inner[:9] + b"\x05\0\0\0" + inner[13:]):
        log = Log().gtid()
        at = log.position
        log.add(40, payload_body(zstd(data), len(data)))
        assert f"{FILE}:{at}: event TRANSACTION_PAYLOAD (40) holds bytes" in error(bytes(log.data)).message


def test_a_fault_among_the_contents_is_placed_at_the_payload() -> None:
    log = Log()
    transaction(log.gtid(), 1)
    log.gtid()
    at = log.position
    inner = contents().begin().rows(30, 77, 2, [row(1)]).xid()
    add_payload(log, inner)
    found = error(bytes(log.data)).message
    assert found.startswith(f"{FILE}:{at}: ")
    assert "no TABLE_MAP event before it" in found
    log = Log().gtid()
    at = log.position
    add_payload(log, contents().begin().table_map(1, "t", COLUMNS).rows(30, 1, 2, [[row(1)[0], b"\xff\xff"]]).xid())
    assert error(bytes(log.data)).message.startswith(f"{FILE}:{at}: event WRITE_ROWS (30) for shop.t")


def test_a_payload_outside_and_inside_of_a_transaction() -> None:
    assert "outside any transaction" in error(bytes(add_payload(Log(), transaction(contents(), 1)).data)).message
    nested = add_payload(Log().gtid().begin(), transaction(contents(), 1))
    assert "inside another one" in error(bytes(nested.data)).message


@BOTH
def test_the_first_fault_is_the_one_named(make: Callable[..., Log]) -> None:
    log = make(compressed=True)
    at = log.position
    log.gtid() if make is mysql_log else log.mariadb_gtid(9)
    data = bytearray(log.data)
    data[-6] ^= 1
    later = Log(start=4, version=log.version)
    later.data = bytearray(data)
    later.add(40 if make is mysql_log else 166, b"no compressed event")
    assert error(bytes(later.data)).message.startswith(f"{FILE}:{at}: ")
    # And one before it is not hidden by it.
    assert "does not match its CRC32" in error(bytes(later.data)).message


@BOTH
def test_every_flipped_bit_of_a_checksummed_compressed_log_is_detected(make: Callable[..., Log]) -> None:
    log = make(compressed=True)
    data = bytes(log.data)
    for at in range(log.ends[0], len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        error(bytes(damaged))


@BOTH
def test_flipped_bits_without_checksum_never_break_the_decoder(make: Callable[..., Log]) -> None:
    log = make(compressed=True, checksum=False)
    data = bytes(log.data)
    step = int(os.environ.get("DATABUS_FLIP_STEP", "5"))  # 1 for all
    detected = harmless = 0
    places = range(log.ends[0], len(data), step)
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at // step % 8)
        try:
            read(bytes(damaged))
        except DecodeError as found:
            detected += found.message.startswith(f"{FILE}:")
        else:
            harmless += 1
    assert detected + harmless == len(places)
    assert detected > len(places) // 5  # the rest flips values: text that is none is kept and flagged


@BOTH
def test_position_of_a_compressed_event_is_checked(make: Callable[..., Log]) -> None:
    log = make(compressed=True, checksum=False)
    data = bytearray(log.data)
    number = next(i for i, kind in enumerate(log.types) if kind in (40, 166))
    start = log.ends[number - 1]
    data[start + 13 : start + 17] = struct.pack("<I", 5)
    found = error(bytes(data)).message
    assert found.startswith(f"{FILE}:{4 + start}: ")
    assert "does not lie where" in found


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (zlib_part(b"a" * 100)[:-2], "holds 100 or more"),
        (zlib_part(b"a" * 100, stated=99), "states 99 bytes uncompressed"),
        (zlib_part(b"a" * 100, stated=101), "states 101 bytes uncompressed"),
        (zlib_part(b"a" * 100) + b"x", "1 bytes after its zlib stream"),
        (zlib_part(b"a" * 100, stated=0xFFFFFF00), "more than an event can have|no compression can do"),
        (zlib_part(b"a" * 100, stated=1 << 30), "no compression can do"),
        (b"\x82\0\x64garbage here", "no sound zlib stream"),
        (b"\x02" + zlib_part(b"a" * 100)[1:], "not zlib's mark"),
        (b"\x92" + zlib_part(b"a" * 100)[1:], "not zlib's mark"),
        (b"\x80", "ends before its compressed part"),
        (b"\x85\1\1\1\1\1\1\1", "not zlib's mark"),
        (b"", "ends before its compressed part"),
    ],
)
def test_a_broken_mariadb_event_is_named_with_its_position(part: bytes, words: str) -> None:
    log = Log(version="10.11.2-MariaDB").mariadb_gtid(1).table_map(1, "t", COLUMNS)
    at = log.position
    log.add(166, (1).to_bytes(6, "little") + b"\x01\0\x02\x03" + part).xid()
    found = error(bytes(log.data)).message
    assert found.startswith(f"{FILE}:{at}: event WRITE_ROWS_COMPRESSED_V1 (166) ")
    assert re.search(words, found)


def test_a_compressed_event_of_the_other_server_is_not_understood() -> None:
    for log, kind in ((Log(), 166), (Log(version="10.11.2-MariaDB"), 40)):
        log.gtid() if kind == 166 else log.mariadb_gtid(1)
        at = log.position
        log.add(kind, bytes(40))
        assert f"{FILE}:{at}: event " in error(bytes(log.data)).message


def test_a_log_without_compression_is_not_copied() -> None:
    data = np.frombuffer(bytes(mysql_log(compressed=False).data), np.uint8)
    assert np.shares_memory(Walker(FILE).walk(data).expansion.buffer, data)
