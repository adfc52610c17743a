"""Rows on disk are their owner's alone, from the first byte, and doctor names what is wider."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from databus.binlog.segments.large_values import LargeValueStore
from databus.binlog.segments.segment import PinnedPrepare, RangeIndex
from databus.binlog.segments.store import SegmentStore
from databus.checkpoints.connection.transaction import create
from databus.checkpoints.nodes.large_values import LargeValues
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.private_files import private_file, wider
from databus.core.settings import Settings
from databus.ops.health.doctor import examine_private_data
from databus.records.ledger.pages import LedgerPages
from databus.records.store import RecordStore


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _settings(home: Path) -> Settings:
    return Settings("test", str(home / "segments"), f"sqlite:///{home / 'records' / 'r.db'}")


def _write_all(home: Path) -> None:
    root = str(home / "segments")
    store, place = SegmentStore(root, "orders", "server"), BinlogOffset("bin.000001", 4)
    staging = store.stage()
    with private_file(staging.folder / "one.prepared") as file:
        file.write(b"rows")
    store.pin(PinnedPrepare(staging.folder / "one.prepared", "x", ()))
    store.publish(staging, RangeIndex(OffsetRange(place, place), "*", (), (), 0, more=False))
    LargeValueStore(root).put(np.frombuffer(b"large", np.uint8))
    LargeValues(root, "test").pack("orders", create("/databus/x", b"x" * 100_000))
    with RecordStore(_settings(home).records_url) as records:
        LedgerPages(records).paged("orders")


def test_nothing_that_is_written_is_wider(tmp_path: Path) -> None:
    _write_all(tmp_path)
    for folder in ("segments", "records"):
        assert list(wider(tmp_path / folder)) == []
    assert len(list((tmp_path / "segments").rglob("*"))) > 10
    assert examine_private_data(_settings(tmp_path)).level is Level.OK


def test_a_file_is_private_while_it_is_written(tmp_path: Path) -> None:
    with private_file(tmp_path / "rows"):
        assert stat.S_IMODE((tmp_path / "rows").stat().st_mode) == 0o600


def test_doctor_names_what_is_wider_and_its_command_mends_it(tmp_path: Path) -> None:
    _write_all(tmp_path)
    wide = tmp_path / "segments" / "orders"
    wide.chmod(0o755)
    found = examine_private_data(_settings(tmp_path))
    assert (found.level, found.code) == (Level.WARN, "private_data_wider")
    assert f"{wide} (0755)" in found.message
    assert os.system(found.hint) == 0
    assert examine_private_data(_settings(tmp_path)).level is Level.OK


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert examine_private_data(_settings(tmp_path)).level is Level.OK
