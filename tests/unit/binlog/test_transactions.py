"""Transactions: boundaries, positions, GTIDs, times, ordinals, statements."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE, TableBatch, TableEvent
from databus.binlog.log.transactions.gtids import TaggedGtid, parse_tagged_gtid
from databus.binlog.log.walker import Walker
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import SOURCE, Log, int_col, table_map_body, text_col
from tests.unit.binlog.value_encoder import integer, prefixed

ID = [int_col()]
FILE = "mysql-bin.000001"


def four(*numbers: int) -> list[list[bytes | None]]:
    return [[integer(n, 4)] for n in numbers]


def batches(log: Log, **options: object) -> list[TableBatch]:
    decoded = decode_events(bytes(log.data), file=FILE, **options)  # type: ignore[arg-type]
    return [x for x in decoded if isinstance(x, TableBatch)]


def test_mysql_transaction_has_gtid_boundary_and_original_commit_time() -> None:
    log = Log()
    start = log.position
    log.gtid(5, commit_us=1_700_000_001_500_000, original_us=1_700_000_000_250_000).begin()
    log.table_map(1, "t", ID).rows(30, 1, 1, four(1)).xid()
    found = decode_events(bytes(log.data), file=FILE).transactions
    assert found.gtid.to_pylist() == [f"{SOURCE}:5"]
    assert (found.start_pos.tolist(), found.end_pos.tolist()) == ([start], [log.position])
    assert found.ts_ms.tolist() == [1_700_000_000_250]
    assert found.server_id.tolist() == [7]


def test_commit_time_falls_back_to_immediate_then_to_the_header() -> None:
    log = Log()
    log.gtid(1, commit_us=1_700_000_001_500_000).begin().xid()
    log.gtid(2).begin().xid()
    found = decode_events(bytes(log.data), file=FILE).transactions
    assert found.ts_ms.tolist() == [1_700_000_001_500, 1_700_000_000_000]


def test_mariadb_transactions_end_at_xid_commit_or_standalone_statement() -> None:
    log = Log(version="10.11.19-MariaDB-log")
    log.mariadb_gtid(10, domain=3).table_map(1, "t", ID).rows(23, 1, 1, four(1)).xid()
    first = log.position
    log.mariadb_gtid(11, flags=2, tail=struct.pack("<Q", 77)).table_map(1, "t", ID).rows(23, 1, 1, four(2)).query(
        "COMMIT"
    )
    second = log.position
    log.mariadb_gtid(12, flags=1).query("CREATE TABLE x (a INT)")
    decoded = decode_events(bytes(log.data), file=FILE)
    assert decoded.transactions.gtid.to_pylist() == ["3-7-10", "0-7-11", "0-7-12"]
    assert decoded.transactions.end_pos.tolist() == [first, second, log.position]
    event = next(x for x in decoded if isinstance(x, TableEvent))
    assert (event.op, event.table, event.transaction) == ("m", "x", 2)


def test_without_gtid_begin_and_xid_bound_a_transaction() -> None:
    log = Log()
    log.gtid(0, kind=34).begin().table_map(1, "t", ID).rows(30, 1, 1, four(1)).xid()
    start = log.position
    log.begin().table_map(1, "t", ID).rows(30, 1, 1, four(2)).xid()
    found = decode_events(bytes(log.data), file=FILE).transactions
    assert found.gtid.to_pylist() == ["", ""]
    assert found.start_pos.tolist()[1] == start
    assert found.server_id.tolist() == [7, 7]


def _serialized(value: int, *, signed: bool = False) -> bytes:
    """mysql::serialization: as many one bits as further bytes, a zero bit, then the value."""
    value = value << 1 if signed else value
    extra = 0
    while value >= 1 << (7 * (extra + 1)) and extra < 8:
        extra += 1
    if extra == 8:
        return b"\xff" + value.to_bytes(8, "little")
    return ((value << (extra + 1)) | ((1 << extra) - 1)).to_bytes(extra + 1, "little")


def tagged_body(tag: str, number: int, commit_us: int) -> bytes:
    fields = _serialized(0) + _serialized(1)
    fields += _serialized(1) + b"".join(_serialized(b) for b in SOURCE.bytes)
    fields += _serialized(2) + _serialized(number, signed=True)
    fields += _serialized(3) + _serialized(len(tag)) + tag.encode()
    fields += _serialized(4) + _serialized(3, signed=True) + _serialized(5) + _serialized(4, signed=True)
    fields += (
        _serialized(6)
        + _serialized(commit_us)
        + _serialized(8)
        + _serialized(300)
        + _serialized(9)
        + _serialized(80400)
    )
    size = len(fields) + 3
    return _serialized(1) + _serialized(size) + _serialized(0) + fields


def test_tagged_gtids_of_newer_servers() -> None:
    log = Log(version="8.4.0")
    log.add(42, tagged_body("blue", 300, 1_700_000_009_000_000)).begin().xid()
    log.gtid(6).begin().xid()
    log.add(42, tagged_body("", 1 << 40, 1_700_000_010_000_000)).begin().xid()
    found = decode_events(bytes(log.data), file=FILE).transactions
    assert found.gtid.to_pylist() == [f"{SOURCE}:blue:300", f"{SOURCE}:6", f"{SOURCE}:{1 << 40}"]
    assert found.ts_ms.tolist() == [1_700_000_009_000, 1_700_000_000_000, 1_700_000_010_000]


# Body of an event of MySQL 8.4 as `mysqlbinlog --hexdump` shows it (go-mysql issue 845).
WRITTEN_BY_MYSQL = bytes.fromhex(
    "02780000 0002aaaa aaaa8888 66664444 22222222 22220473 201b0614 7365636f"
    "6e647465 737408c1 0e0ad10e 0c7f2335 4861bd26 06105904 12a3ff0a"
)


def test_a_tagged_gtid_that_a_server_wrote() -> None:
    assert parse_tagged_gtid(WRITTEN_BY_MYSQL) == TaggedGtid(
        "55555555-4444-3333-2222-111111111111:secondtest:111111", 1731444683060515
    )


@pytest.mark.parametrize("number", [1, 63, 64, 1 << 27, (1 << 55) - 1, 1 << 55, 1 << 61, (1 << 63) - 1])
def test_numbers_of_every_length(number: int) -> None:
    assert parse_tagged_gtid(tagged_body("t", number, 1)).text == f"{SOURCE}:t:{number}"


def test_ordinals_run_across_tables_whatever_the_filter() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "a", ID).table_map(2, "b", [int_col(), text_col("x")])
    log.rows(30, 1, 1, four(1, 2))
    log.rows(30, 2, 2, [[integer(1, 4), prefixed(b"q", 1)], [integer(2, 4), None]])
    log.rows(31, 1, 1, four(1, 5))
    log.rows(32, 2, 2, [[integer(1, 4), prefixed(b"q", 1)]])
    log.rows(30, 1, 1, four(9)).xid()
    log.transaction(1, "a", ID, four(3, 4))
    everything = {b.schema.table: b for b in batches(log)}
    assert everything["a"].ordinal.tolist() == [0, 1, 4, 6, 0, 1]
    assert everything["a"].op.tolist() == [INSERT, INSERT, UPDATE, INSERT, INSERT, INSERT]
    assert everything["a"].transaction.tolist() == [0, 0, 0, 0, 1, 1]
    assert everything["b"].ordinal.tolist() == [2, 3, 5]
    assert everything["b"].op.tolist() == [INSERT, INSERT, DELETE]
    (only,) = batches(log, tables=lambda database, table: (database, table) == ("shop", "b"))
    assert only.ordinal.tolist() == [2, 3, 5]


def test_updates_point_at_their_two_images() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "a", ID).rows(31, 1, 1, four(1, 2, 3, 4)).rows(32, 1, 1, four(7)).xid()
    (batch,) = batches(log)
    assert batch.images.column("id").to_pylist() == [1, 2, 3, 4, 7]
    assert batch.before_row.tolist() == [0, 2, 4]
    assert batch.after_row.tolist() == [1, 3, -1]


def test_truncate_and_definitions_are_events_in_order() -> None:
    log = Log()
    log.transaction(1, "a", ID, four(1))
    log.gtid().query("TRUNCATE TABLE `a`")
    log.gtid().query("ALTER TABLE other.a ADD x INT")
    log.transaction(1, "a", ID, four(2))
    events = [x for x in decode_events(bytes(log.data), file=FILE) if isinstance(x, TableEvent)]
    assert [(e.op, e.database, e.table, e.transaction, e.ordinal) for e in events] == [
        ("t", "shop", "a", 1, 0),
        ("m", "other", "a", 2, 0),
    ]
    assert events[0].statement == "TRUNCATE TABLE `a`"


def test_create_table_select_keeps_its_rows_in_its_transaction() -> None:
    log = Log()
    log.gtid().query("CREATE TABLE a (id INT) START TRANSACTION").table_map(1, "a", ID).rows(30, 1, 1, four(1, 2)).xid()
    decoded = decode_events(bytes(log.data), file=FILE)
    event, batch = list(decoded)
    assert isinstance(event, TableEvent)
    assert isinstance(batch, TableBatch)
    assert (event.ordinal, batch.ordinal.tolist(), len(decoded.transactions)) == (0, [1, 2], 1)


def test_the_body_of_a_routine_begins_no_transaction() -> None:
    log = Log()
    log.gtid().query("CREATE DEFINER=`r`@`%` PROCEDURE `p`()\nSTART TRANSACTION", database="elsewhere")
    log.transaction(1, "t", ID, four(1))
    found = decode_events(bytes(log.data), file=FILE)
    assert len(found.transactions) == 2
    assert [b.images.column("id").to_pylist() for b in found if isinstance(b, TableBatch)] == [[1]]


def test_positions_past_four_gibibytes() -> None:
    far = (1 << 32) + 1000
    log = Log()
    head = len(log.data)
    log.start = far - head
    log.transaction(1, "a", ID, four(1))
    found = decode_events(bytes(log.data), file=FILE, base_pos=far).transactions
    assert found.start_pos.tolist() == [far]
    assert found.end_pos.tolist() == [far + len(log.data) - head]


def test_made_up_events_take_no_room_in_the_file() -> None:
    log = Log()
    log.transaction(1, "a", ID, four(1))
    end = log.position
    for kind, flags in ((27, 0), (4, 0x20)):
        extra = log.event(kind, bytes(8) + FILE.encode(), flags=flags, log_pos=0)
        log.data += extra
        log.start -= len(extra)
    log.transaction(1, "a", ID, four(2))
    found = decode_events(bytes(log.data), file=FILE).transactions
    assert found.end_pos.tolist() == [end, log.position]


def test_known_events_that_change_nothing_are_passed_over() -> None:
    log = Log()
    log.add(35, bytes(8)).add(161, b"\0\0\0\0").add(163, bytes(4))
    log.gtid().begin().add(29, b"\x05hello", flags=0x80).add(160, b"INSERT").table_map(1, "a", ID).rows(
        30, 1, 1, four(1)
    ).xid()
    log.add(4, bytes(8) + b"mysql-bin.000002")
    (batch,) = batches(log)
    assert len(batch) == 1


@pytest.mark.parametrize("kind", [43, 99, 172, 255])
@pytest.mark.parametrize("checksum", [True, False])
def test_ignorable_events_of_unknown_types_are_passed_over(kind: int, checksum: bool) -> None:
    log = Log(checksum=checksum)
    log.transaction(1, "a", ID, four(1)).add(kind, bytes(70), flags=0x80)
    log.gtid().begin().table_map(1, "a", ID).add(kind, bytes(9), flags=0x80 | 0x08).rows(30, 1, 1, four(2)).xid()
    found = decode_events(bytes(log.data), file=FILE)
    assert [b.images.column("id").to_pylist() for b in found if isinstance(b, TableBatch)] == [[1, 2]]
    assert found.event_counts[kind] == 2
    for known in (5, 26):  # what is known, and cannot be followed, is refused whatever its flags say
        refused = Log().gtid().begin().add(known, bytes(40), flags=0x80).xid()
        with pytest.raises(DecodeError, match=rf"\({known}\)"):
            decode_events(bytes(refused.data), file=FILE)


@pytest.mark.parametrize("kind", [3, 4, 35, 36, 161, 163, 164])
def test_events_of_the_file_inside_a_transaction_are_refused(kind: int) -> None:
    for place in range(3):
        log = Log(checksum=False).gtid()
        if place > 0:
            log.begin()
        if place > 1:
            log.table_map(1, "a", ID).rows(30, 1, 1, four(1))
        at = log.position
        log.add(kind, bytes(8) + b"mysql-bin.000002", flags=0x80).xid()
        with pytest.raises(DecodeError, match=rf":{at}: event .* \({kind}\) lies inside a transaction"):
            decode_events(bytes(log.data), file=FILE)


@pytest.mark.parametrize("kind", [28, 29])
def test_comments_of_a_transaction_must_say_that_they_are(kind: int) -> None:
    for flags in (0x80, 0):
        log = Log(checksum=False).gtid().begin().table_map(1, "a", ID)
        log.add(kind, b"\x05hello", flags=flags).rows(30, 1, 1, four(1)).xid()
        if flags:
            assert len(next(iter(batches(log)))) == 1
        else:
            with pytest.raises(DecodeError, match="not marked as ignorable"):
                decode_events(bytes(log.data), file=FILE)


def test_a_stream_walked_piece_by_piece_gives_the_same_transactions() -> None:
    log = Log()
    for number in range(20):
        log.gtid().begin().table_map(number % 3 + 1, f"t{number % 3}", ID).rows(
            30, number % 3 + 1, 1, four(number)
        ).xid()
        log.add(42, tagged_body("x", number, 1_700_000_009_000_000)).begin().xid()
    data = bytes(log.data)
    whole = Walker(FILE).walk(data)
    for step in (1, 7, 64, 333):
        walker, pending, gtids, ends, rows = Walker(FILE), b"", [], [], 0
        for at in range(0, len(data), step):
            pending += data[at : at + step]
            walk = walker.walk(pending)
            pending = pending[walk.consumed_bytes :]
            gtids += walk.transactions.gtid.to_pylist()
            ends += walk.transactions.end_pos.tolist()
            rows += len(walk.rows)
        assert (gtids, ends) == (whole.transactions.gtid.to_pylist(), whole.transactions.end_pos.tolist())
        assert (rows, pending, walker.position) == (20, b"", log.position)


def test_cutting_at_a_boundary_gives_segments_that_decode_alone() -> None:
    log = Log()
    head = len(log.data)
    for number in range(5):
        log.transaction(1, "a", ID, four(number))
    data = bytes(log.data)
    cut = int(Walker(FILE).walk(data).transaction_offsets[1])
    second = decode_events(data[:head] + data[cut:], file=FILE, base_pos=4 + cut)
    (batch,) = [x for x in second if isinstance(x, TableBatch)]
    assert batch.images.column("id").to_pylist() == [2, 3, 4]
    assert second.transactions.end_pos.tolist()[-1] == log.position


def test_one_table_id_can_come_to_mean_another_table() -> None:
    log = Log()
    log.transaction(1, "a", ID, four(1))
    log.transaction(1, "b", [int_col(unsigned=True)], [[integer(2**32 - 1, 4)]])
    log.transaction(9, "a", ID, four(3))
    found = {b.schema.table: b.images.column("id").to_pylist() for b in batches(log)}
    assert found == {"a": [1, 3], "b": [2**32 - 1]}


def test_hundreds_of_tables() -> None:
    log = Log()
    for number in range(500):
        log.transaction(1000 + number, f"t{number}", ID, four(number))
    found = {b.schema.table: b.images.column("id").to_pylist() for b in batches(log)}
    assert found == {f"t{n}": [n] for n in range(500)}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT INTO a VALUES (1)", "binlog_format=ROW"),
        ("XA START 'x'", "XA"),
        ("XA COMMIT X'31',X'',1", "XA"),
        ("XA RECOVER", "XA"),
        ("ROLLBACK TO SAVEPOINT s", "savepoint that the transaction has not set"),
    ],
)
def test_statements_that_cannot_be_followed_are_refused(sql: str, words: str) -> None:
    log = Log()
    log.gtid().begin().table_map(1, "a", ID).rows(30, 1, 1, four(1))
    at = log.position
    log.query(sql).xid()
    with pytest.raises(DecodeError) as caught:
        decode_events(bytes(log.data), file=FILE)
    assert f"{FILE}:{at}" in caught.value.message
    assert words in str(caught.value)


def test_a_rolled_back_transaction_without_rows_is_empty() -> None:
    log = Log()
    log.gtid().begin().query("SAVEPOINT s").query("ROLLBACK TO s").query("ROLLBACK")
    log.transaction(1, "a", ID, four(1))
    (batch,) = batches(log)
    assert batch.transaction.tolist() == [1]


def test_events_that_end_inside_a_transaction_are_refused() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "a", ID).rows(30, 1, 1, four(1))
    with pytest.raises(DecodeError, match="inside a transaction"):
        decode_events(bytes(log.data), file=FILE)


def test_ts_and_arrays_have_the_promised_types() -> None:
    log = Log()
    log.transaction(1, "a", ID, four(1, 2))
    decoded = decode_events(np.frombuffer(bytes(log.data), np.uint8), file=FILE)
    (batch,) = [x for x in decoded if isinstance(x, TableBatch)]
    types = (batch.op, batch.before_row, batch.after_row, batch.transaction, batch.ordinal, batch.presence)
    assert [t.dtype.name for t in types] == ["int8", "int32", "int32", "int32", "int64", "int32"]
    assert decoded.transactions.ts_ms.dtype.name == "int64"
    assert batch.schema.primary_key == ("id",)


def test_table_map_bodies_are_told_apart_to_the_last_byte() -> None:
    one, two = table_map_body(1, "shop", "a", [int_col("x")]), table_map_body(1, "shop", "a", [int_col("y")])
    assert len(one) == len(two)
    log = Log()
    log.gtid().begin().add(19, one).rows(30, 1, 1, four(1)).add(19, two).rows(30, 1, 1, four(2)).xid()
    assert [b.images.schema.names for b in batches(log)] == [["x"], ["y"]]
