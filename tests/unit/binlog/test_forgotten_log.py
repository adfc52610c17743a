"""What is kept of a log that was replaced is forgotten whole, and nothing of other servers or flows with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.binlog.log.events import HEADER_BYTES
from databus.binlog.schema_history.definition import LogPosition
from databus.binlog.schema_history.history import SchemaHistory
from databus.binlog.schema_history.store import HistoryStore
from databus.binlog.segments.kept_segments import KeptSegments
from databus.binlog.segments.segment import RangeIndex
from databus.binlog.segments.store import SegmentStore
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from tests.unit.binlog.test_kept_segments import A, staged

BEGIN, END = BinlogOffset("bin.000001", 4), BinlogOffset("bin.000001", 900)


def test_staged_ranges_and_prepares_of_the_server_go(tmp_path: Path) -> None:
    one, other = (SegmentStore(str(tmp_path), "orders", server) for server in ("one", "other"))
    index = RangeIndex(OffsetRange(BEGIN, END), "*", (), (), 0, more=False)
    for store in (one, other):
        store.publish(store.stage(), index)
    (tmp_path / "orders" / "one" / "prepared").mkdir()
    one.forget()
    assert (one.find(index.range), other.find(index.range) is None) == (None, False)
    assert not (tmp_path / "orders" / "one").exists()
    one.forget()


def test_definitions_of_tables_go(tmp_path: Path) -> None:
    one, other = (HistoryStore(str(tmp_path), "orders", server) for server in ("one", "other"))
    for store in (one, other):
        store.save(SchemaHistory(BEGIN, LogPosition(1, 900)))
    one.forget()
    assert (one.load(), other.load() is None) == (None, False)
    one.forget()
    one.save(SchemaHistory(BEGIN, LogPosition(1, 4)))
    found = one.load()
    assert found is not None
    assert found.covered == LogPosition(1, 4)


def test_kept_segments_of_the_server_go(tmp_path: Path) -> None:
    one, other = (KeptSegments(str(tmp_path), server) for server in (A, "other"))
    for store in (one, other):
        store.keep(tmp_path / "range", staged(tmp_path / "range"))
    segments = one.list()
    one.forget(segments[:2])
    assert (one.list(), len(other.list())) == (segments[2:], 3)
    one.forget(segments)
    assert (len(one.list()), len(other.list())) == (0, 3)
    one.forget(segments)


@pytest.mark.parametrize("created_s", [0, 1_700_000_000])
def test_a_kept_segment_tells_when_its_file_was_begun(tmp_path: Path, created_s: int) -> None:
    store, index = KeptSegments(str(tmp_path), A), staged(tmp_path / "range", 1)
    description = created_s.to_bytes(4, "little") + bytes(HEADER_BYTES - 4)
    file = tmp_path / "range" / index.segments[0].name
    file.write_bytes(description + file.read_bytes()[HEADER_BYTES:])
    store.keep(tmp_path / "range", index)
    (kept,) = store.list()
    assert store.created_s(kept) == created_s
    store.forget([kept])
    assert store.created_s(kept) == 0
