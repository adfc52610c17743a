"""What stands beside a flow's folder in the segment store goes once nothing needs it: pieces, rehearsals, looks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from databus.binlog.segments.segment import RangeIndex
from databus.binlog.segments.store import LEFT_AGE_S, SegmentStore
from databus.core.errors import LeaseBusyError
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange
from databus.core.state.backfill import Aim, Backfill, Mode, piece_of
from databus.runtime.takeover.sweep import sweep
from databus.sources.mysql.flow_stores import FlowStores

OLD = time.time() - LEFT_AGE_S - 60


def place(pos: int) -> BinlogOffset:
    return BinlogOffset("bin.000001", pos)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange(place(start), place(end))


BACKFILL = Backfill(
    "orders", Aim(Mode.REPLAY, ".r"), span(4, 90), ("a", "b"), (span(4, 50), span(50, 90)), "ada", datetime.now(UTC)
)
FIRST, SECOND = BACKFILL.piece_name(0), BACKFILL.piece_name(1)


@dataclass
class Store:
    """Where pieces stand, what they have planned, who holds them."""

    stands: dict[str, Offset] = field(default_factory=dict)
    plans: dict[str, OffsetRange] = field(default_factory=dict)
    chunks: tuple[str, ...] = ()
    busy: set[str] = field(default_factory=set)
    behind: set[str] = field(default_factory=set)
    claimed: list[str] = field(default_factory=list)

    def load(self, name: str) -> Any:
        return SimpleNamespace(offset=self.stands[name]) if name in self.stands else None

    def pending_plan(self, name: str) -> Any:
        if name not in self.plans:
            return None
        files = [SimpleNamespace(name=name) for name in self.chunks]
        return SimpleNamespace(range=self.plans[name], chunks=SimpleNamespace(files=files) if files else None)

    def sinks_behind(self, name: str) -> list[str]:
        return ["search"] if name in self.behind else []

    def of_sink(self, sink: str) -> Store:
        return Store()

    def claim(self, name: str, who: str, wait_s: float) -> Any:
        if name in self.busy:
            raise LeaseBusyError("somebody has it")
        self.claimed.append(name)
        return SimpleNamespace(release=lambda: None)

    def backfill(self, flow: str, id_: str) -> Backfill | None:
        return BACKFILL if (flow, id_) == ("orders", BACKFILL.id) else None


class Beside:
    """A flow's segment store, swept as under its claim."""

    def __init__(self, root: Path):
        self.root, self.store = root, Store()
        (root / "orders" / "server").mkdir(parents=True)

    def stage(self, name: str, *ranges: tuple[int, int]) -> None:
        store = SegmentStore(str(self.root), name, "server")
        for start, end in ranges:
            store.publish(store.stage(), RangeIndex(span(start, end), "*", (), (), 0, more=False))
        (self.root / name / "server" / "prepared").mkdir(parents=True, exist_ok=True)
        (self.root / name / "server" / "prepared" / "one").write_bytes(b"xa")

    def age(self) -> None:
        for path in (*self.root.rglob("*"), self.root):
            os.utime(path, (OLD, OLD))

    def sweep(self) -> set[str]:
        session = SimpleNamespace(
            source=FlowStores(cast("Any", SimpleNamespace(identity="server")), str(self.root), "orders"),
            store=self.store,
            raw_store=None,
            backfills=self.store,
            flow=SimpleNamespace(name="orders"),
            identity=SimpleNamespace(run_id="run"),
        )
        sweep(cast("Any", session))
        return {path.name for path in self.root.iterdir()} - {"orders"}


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path)


def test_names_of_pieces_tell_what_they_are_of() -> None:
    assert piece_of(SECOND) == ("orders", BACKFILL.id, 1)
    others = ("orders", "orders.rehearsal", "orders.backfill", "orders.backfill-order", ".backfill-x-1")
    assert [piece_of(name) for name in others] == [None] * len(others)


def test_rehearsals_and_looks_at_the_log_go_when_they_are_old(beside: Beside) -> None:
    for name in ("orders.rehearsal", "orders.ledger", "orders.trace"):
        beside.stage(name, (4, 10))
    beside.stage("orders_eu", (4, 10))
    beside.stage("items.rehearsal", (4, 10))
    assert len(beside.sweep()) == 5
    beside.age()
    beside.stage("orders.rehearsal", (10, 20))
    assert beside.sweep() == {"orders.rehearsal", "orders_eu", "items.rehearsal"}
    assert beside.store.claimed == []


def test_a_done_piece_leaves_nothing_and_one_that_is_not_keeps_what_it_planned(beside: Beside) -> None:
    beside.stage(FIRST, (4, 10), (10, 50))
    beside.stage(SECOND, (50, 60), (60, 90))
    beside.store.stands = {FIRST: place(50), SECOND: place(60)}
    beside.store.plans = {SECOND: span(60, 90)}
    beside.age()
    assert beside.sweep() == {SECOND}
    assert sorted(beside.store.claimed) == [FIRST, SECOND]
    left = {path.name for path in (beside.root / SECOND / "server").iterdir()}
    assert left == {"bin.000001.60-bin.000001.90", "prepared"}
    beside.age()
    beside.store.claimed.clear()
    assert beside.sweep() == {SECOND}
    assert beside.store.claimed == []  # there is nothing to be had: nobody is disturbed
    assert (beside.root / SECOND / "server" / "prepared" / "one").exists()


@pytest.mark.parametrize("why", ["held", "unknown", "planned", "behind", "fresh"])
def test_what_may_be_needed_stays(beside: Beside, why: str) -> None:
    name = SECOND if why != "unknown" else "orders.backfill-replay-0123456789ab-0"
    beside.stage(name, (50, 60))
    beside.store.stands = {name: place(90)}
    beside.store.busy = {name} if why == "held" else set()
    beside.store.plans = {name: span(50, 60)} if why == "planned" else {}
    beside.age()
    if why == "behind":
        beside.store.behind, beside.store.plans = {name}, {}
        beside.store.of_sink = lambda sink: Store(plans={name: span(50, 60)})  # type: ignore[method-assign]
    if why == "fresh":
        (beside.root / name / "server" / "bin.000001.50-bin.000001.60" / "more").write_bytes(b"rows")
    assert beside.sweep() == {name}
    assert (beside.root / name / "server" / "bin.000001.50-bin.000001.60").is_dir()


def test_chunk_files_of_no_plan_go_and_none_while_a_sink_is_behind(beside: Beside) -> None:
    folder = beside.root / "orders" / "server" / "chunks"
    folder.mkdir()
    for name in ("planned.chunk", "left.chunk", ".staging-1"):
        (folder / name).write_bytes(b"rows")
    beside.store.plans, beside.store.chunks = {"orders": span(4, 10)}, ("planned.chunk",)

    def left() -> set[str]:
        beside.sweep()
        return {path.name for path in folder.iterdir()}

    everything = {"planned.chunk", "left.chunk", ".staging-1"}
    assert left() == everything
    beside.age()
    beside.store.behind = {"orders"}
    assert left() == everything
    beside.store.behind = set()
    assert left() == {"planned.chunk"}
    beside.store.chunks = ()
    assert left() == set()
