"""Staging a compressed log: raw bytes are kept as they are, segments are cut by what they take when read."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.store import load_segment
from databus.binlog.server import log_walk
from tests.unit.binlog.compressed_encoder import add_payload, contents
from tests.unit.binlog.log_encoder import Log
from tests.unit.binlog.test_range_staging import COLUMNS, batches, number, read, stage

ROWS = 400


def transaction(log: Log, number_: int) -> Log:
    log.begin().table_map(9, "t", COLUMNS)
    return log.rows(30, 9, 1, [[number(number_ * ROWS + r)] for r in range(ROWS)]).xid()


def log_of(transactions: int, *, compressed: bool) -> Log:
    """Every third transaction is not compressed."""
    log = Log()
    for n in range(transactions):
        log.gtid()
        if compressed and n % 3:
            add_payload(log, transaction(contents(), n))
        else:
            transaction(log, n)
    return log


@pytest.mark.parametrize("step", [1, 2, 5, 1000])
@pytest.mark.parametrize("most_bytes", [1, 64 << 20])
def test_segments_hold_the_raw_log_whatever_the_batches(
    tmp_path: Path, step: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_walk, "MOST_EXPANDED_BYTES", most_bytes)
    log = log_of(12, compressed=True)
    index, store = stage(tmp_path, batches(log, step), RangeBounds(segment_bytes=6000))
    assert index is not None
    assert (index.rows, index.range.end.to_json()["pos"]) == (12 * ROWS, log.position)
    assert index.bytes == log.position - 4
    head = log.ends[0]
    kept = b"".join(load_segment(store.address(index, s)).tobytes()[head:] for s in index.segments)
    assert kept == bytes(log.data[head:])
    assert read(store, index) == [v for n in range(12) for v in ids(n)]


def ids(transaction_: int) -> list[int]:
    return [transaction_ * ROWS + r for r in range(ROWS)]


def test_segments_end_where_those_of_a_plain_log_do(tmp_path: Path) -> None:
    cuts, sizes = [], []
    for compressed in (False, True):
        log = log_of(12, compressed=compressed)
        index, _ = stage(tmp_path / str(compressed), batches(log, 3), RangeBounds(segment_bytes=6000))
        assert index is not None
        cuts.append([s.transactions for s in index.segments])
        sizes.append(index.bytes)
    assert sizes[1] < 0.8 * sizes[0]
    assert cuts[0] == cuts[1]
    assert len(cuts[0]) > 3


@pytest.mark.parametrize("max_rows", [1, ROWS, ROWS + 1, 3 * ROWS])
def test_ranges_of_a_compressed_log_are_bounded_by_rows(tmp_path: Path, max_rows: int) -> None:
    log = log_of(5, compressed=True)
    index, store = stage(tmp_path, batches(log, 1000), RangeBounds(max_rows=max_rows))
    assert index is not None
    transactions = -(-max_rows // ROWS)
    assert index.rows == transactions * ROWS
    assert read(store, index) == [v for n in range(transactions) for v in ids(n)]
