"""Row images: absent columns, batches of bounded size, long values, several versions of rows events."""

from __future__ import annotations

import numpy as np
import pytest

from databus.binlog.decoding import table_rows
from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import MAX_IMAGES, TableBatch
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import Col, Log, int_col, text_col
from tests.unit.binlog.value_encoder import decimal, integer, prefixed

COLUMNS = [int_col(), text_col("a"), text_col("b"), int_col("n")]


def decode(log: Log) -> list[TableBatch]:
    return [b for b in decode_events(bytes(log.data), file="mysql-bin.000001") if isinstance(b, TableBatch)]


def present_names(batch: TableBatch, row: int) -> set[str]:
    present = batch.presence_sets[batch.presence[row]]
    return {name for name, there in zip(batch.images.schema.names, present.tolist(), strict=True) if there}


def test_absent_columns_are_told_apart_from_null() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "t", COLUMNS)
    log.rows(
        31, 1, 4, [[integer(1, 4)], [None, integer(5, 4)]], [True, False, False, False], [False, True, False, True]
    )
    log.rows(30, 1, 4, [[integer(2, 4), prefixed(b"x", 1), None, integer(3, 4)]])
    log.rows(32, 1, 4, [[integer(2, 4)]], [True, False, False, False]).xid()
    (batch,) = decode(log)
    assert [present_names(batch, row) for row in range(4)] == [{"id"}, {"a", "n"}, {"id", "a", "b", "n"}, {"id"}]
    assert batch.images.to_pylist() == [
        {"id": 1, "a": None, "b": None, "n": None},
        {"id": None, "a": None, "b": None, "n": 5},
        {"id": 2, "a": "x", "b": None, "n": 3},
        {"id": 2, "a": None, "b": None, "n": None},
    ]


def test_full_images_share_one_presence_set() -> None:
    log = Log()
    log.transaction(1, "t", COLUMNS, [[integer(n, 4), None, None, integer(n, 4)] for n in range(50)])
    (batch,) = decode(log)
    assert len(batch.presence_sets) == 1
    assert batch.presence_sets[0].all()
    assert not batch.presence.any()


def test_more_presence_sets_than_one_batch_keeps() -> None:
    columns = [int_col(f"c{n}") for n in range(10)]
    log = Log()
    log.gtid().begin().table_map(1, "t", columns)
    for number in range(1, 600):
        present = [bool(number >> bit & 1) for bit in range(10)]
        log.rows(30, 1, 10, [[integer(number, 4)] * sum(present)], present)
    log.xid()
    found = []
    for batch in decode(log):
        found += [sum(1 << int(name[1:]) for name in present_names(batch, row)) for row in range(batch.images.num_rows)]
    assert found == list(range(1, 600))


def test_rows_without_any_column_are_refused() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "t", COLUMNS).rows(30, 1, 4, [[]], [False] * 4).xid()
    with pytest.raises(DecodeError, match="without any column"):
        decode(log)


@pytest.mark.parametrize("kinds", [(23, 24, 25), (30, 31, 32)])
def test_both_versions_of_rows_events(kinds: tuple[int, int, int]) -> None:
    log = Log()
    row = [integer(1, 4), prefixed(b"x", 1), None, integer(9, 4)]
    log.gtid().begin().table_map(1, "t", COLUMNS)
    log.rows(kinds[0], 1, 4, [row]).rows(kinds[1], 1, 4, [row, row]).rows(kinds[2], 1, 4, [row]).xid()
    (batch,) = decode(log)
    assert batch.op.tolist() == [0, 1, 2]
    assert batch.images.num_rows == 4


def test_batches_are_bounded_and_resume_inside_events() -> None:
    log = Log()
    count = 2 * MAX_IMAGES + 77
    log.gtid().begin().table_map(1, "t", [int_col()])
    numbers = np.arange(count, dtype="<i4")
    for start in range(0, count, 50_001):
        log.rows(30, 1, 1, [[n.tobytes()] for n in numbers[start : start + 50_001]])
    log.rows(31, 1, 1, [[integer(n, 4)] for n in range(9)] + [[integer(0, 4)]]).xid()
    found = decode(log)
    assert [b.images.num_rows for b in found][:2] == [MAX_IMAGES, MAX_IMAGES]
    assert np.concatenate([b.images.column("id").to_numpy() for b in found]).tolist() == [*range(count), *range(9), 0]
    assert np.concatenate([b.ordinal for b in found]).tolist() == list(range(count + 5))


def test_an_update_is_never_torn_between_batches() -> None:
    log = Log()
    log.gtid().begin().table_map(1, "t", [int_col()])
    log.rows(30, 1, 1, [[integer(0, 4)]])
    log.rows(31, 1, 1, [[integer(n, 4)] for n in range(MAX_IMAGES + 2)]).xid()
    for batch in decode(log):
        updates = batch.op == 1
        assert (batch.after_row[updates] == batch.before_row[updates] + 1).all()
        before = batch.images.column("id").to_numpy()[batch.before_row[updates]]
        assert (before % 2 == 0).all()


def test_values_larger_than_a_batch_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "_TEXT_BYTES", 1000)
    columns = [
        int_col(),
        Col("v", 252, b"\x04"),
        text_col("w"),
        Col("d", 246, bytes([65, 30])),
        Col("p", 254, b"\xfe\xff", collation=63),
    ]
    money = decimal(__import__("decimal").Decimal("-12.5"), 65, 30)
    texts = [b"", b"x" * 990, b"y" * 5000, b"z" * 300, b"q" * 300, b"r" * 300, b"s" * 100_000, b""]
    log = Log()
    rows = [
        [integer(n, 4), prefixed(t, 4), prefixed(b"k%d" % n, 1), money, prefixed(b"\x01", 1)]
        for n, t in enumerate(texts)
    ]
    log.transaction(1, "t", columns, rows)
    found = decode(log)
    assert len(found) > 1
    got = [row for b in found for row in b.images.to_pylist()]
    assert [row["v"].encode() for row in got] == texts
    assert [row["w"] for row in got] == [f"k{n}" for n in range(len(texts))]
    assert {row["d"] for row in got} == {"-12.5" + "0" * 29}
    assert {row["p"] for row in got} == {b"\x01" + bytes(254)}
    assert np.concatenate([b.ordinal for b in found]).tolist() == list(range(len(texts)))


def test_wide_tables() -> None:
    columns = [int_col(f"c{n}") for n in range(300)]
    log = Log()
    log.transaction(1, "wide", columns, [[integer(n, 4) if n % 7 else None for n in range(300)]])
    (batch,) = decode(log)
    assert list(batch.images.to_pylist()[0].values()) == [n if n % 7 else None for n in range(300)]
