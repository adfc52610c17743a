"""What a kill left in the segment store is swept under the claim, and nothing else."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.segments.segment import RangeIndex
from databus.binlog.segments.store import LEFT_AGE_S, SegmentStore
from databus.core.errors import SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.runtime.takeover.sweep import sweep

OLD = time.time() - LEFT_AGE_S - 60


def _range(start: int, end: int) -> OffsetRange:
    return OffsetRange(BinlogOffset("bin.000001", start), BinlogOffset("bin.000001", end))


def _publish(store: SegmentStore, start: int, end: int) -> None:
    store.publish(store.stage(), RangeIndex(_range(start, end), "*", (), (), 0, more=False))


def _age(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (OLD, OLD))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "orders" / "server"


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(str(tmp_path), "orders", "server")


def _names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def test_old_ranges_that_nobody_planned_go(store: SegmentStore, home: Path) -> None:
    for start in (4, 10, 20):
        _publish(store, start, start + 5)
    (store.stage().folder / "half").write_bytes(b"rows")
    (home / "prepared").mkdir()
    for folder in home.iterdir():
        _age(folder)
    _publish(store, 30, 40)
    fresh = store.stage().folder.name
    gone = store.sweep(store.leftovers(time.time()), [_range(10, 15)])
    assert len(gone) == 3
    wanted = [fresh, "bin.000001.10-bin.000001.15", "bin.000001.30-bin.000001.40", "prepared"]
    assert _names(home) == sorted(wanted)


def test_a_range_that_is_being_staged_is_no_leftover(store: SegmentStore, home: Path) -> None:
    staging = store.stage()
    _age(home)
    (staging.folder / "segment").write_bytes(b"rows")
    os.utime(staging.folder, (OLD, OLD))  # a file that grows leaves its folder's time as it is
    assert store.leftovers(time.time()) == []


def test_another_server_and_another_flow_are_not_looked_at(store: SegmentStore, tmp_path: Path) -> None:
    other = SegmentStore(str(tmp_path), "items", "server")
    _publish(other, 4, 10)
    _age(tmp_path / "items")
    assert store.leftovers(time.time()) == []
    assert len(other.leftovers(time.time())) == 1


def test_a_store_of_another_kind_is_swept_by_the_times_of_its_files() -> None:
    store = SegmentStore("memory://swept", "orders", "server")
    _publish(store, 4, 10)
    _publish(store, 10, 20)
    later = time.time() + LEFT_AGE_S + 60
    assert store.leftovers(time.time()) == []
    assert len(store.sweep(store.leftovers(later), [_range(4, 10)])) == 1
    assert store.find(_range(4, 10)) is not None
    assert store.find(_range(10, 20)) is None


@dataclass
class _Plan:
    range: OffsetRange


@dataclass
class _Store:
    """Plans in flight of a flow and of its sinks that are behind."""

    plans: dict[str, OffsetRange]
    sink: str = ""
    asked: list[str] = field(default_factory=list)

    def sinks_behind(self, _flow: str) -> list[str]:
        return [sink for sink in self.plans if sink]

    def of_sink(self, sink: str) -> _Store:
        return _Store(self.plans, sink, self.asked)

    def pending_plan(self, _flow: str) -> _Plan | None:
        self.asked.append(self.sink)
        return _Plan(self.plans[self.sink]) if self.sink in self.plans else None


@dataclass
class _Source:
    found: list[OffsetRange] = field(default_factory=list)
    fails: bool = False
    left: bool = True

    def sweep(self, plans: Any) -> None:
        if self.fails:
            raise SourceUnavailableError("no store")
        self.found += plans.in_flight() if self.left else ()


@dataclass
class _Session:
    store: _Store
    source: _Source
    raw_store: None = None

    @property
    def flow(self) -> Any:
        return type("F", (), {"name": "orders"})


class TestUnderTheClaim:
    def test_plans_of_the_flow_and_of_sinks_that_are_behind_are_kept(self) -> None:
        session = _Session(_Store({"": _range(10, 15), "search": _range(4, 10)}), _Source())
        sweep(session)  # type: ignore[arg-type]
        assert session.source.found == [_range(10, 15), _range(4, 10)]

    def test_zookeeper_is_asked_only_where_something_is_left(self) -> None:
        session = _Session(_Store({"": _range(10, 15)}), _Source(left=False))
        sweep(session)  # type: ignore[arg-type]
        assert session.store.asked == []

    def test_a_failure_stops_no_flow(self) -> None:
        sweep(_Session(_Store({}), _Source(fails=True)))  # type: ignore[arg-type]


def test_what_somebody_wrote_into_a_committed_range_meanwhile_is_left_to_a_sweep(
    store: SegmentStore, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _publish(store, 4, 10)
    (home / "bin.000001.4-bin.000001.10" / "of another process").mkdir()
    store.delete(_range(4, 10))
    assert "bin.000001.4-bin.000001.10 is not deleted whole" in caplog.text
    for folder in home.iterdir():
        _age(folder)
    store.sweep(store.leftovers(time.time()), [])
    assert _names(home) == []
    store.delete(_range(4, 10))
