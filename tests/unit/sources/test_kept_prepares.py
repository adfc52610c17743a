"""Kept copies of prepared XA transactions: looks read and keep them, and none goes that a place still names."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from databus.binlog.segments.segment import PinnedPrepare, RangeIndex, pinned_name
from databus.binlog.segments.staged_beside import REHEARSAL
from databus.binlog.segments.store import LEFT_AGE_S, SegmentStore
from databus.core.connections import Connection
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset, OffsetRange, PreparedTransaction
from databus.core.settings import Settings
from databus.core.state.plan import SourcePlan
from databus.runtime.beside.look import look
from databus.runtime.takeover.sweep import sweep
from databus.sinks.noop import Noop
from databus.sources.mysql.flow_stores import FlowStores
from databus.sources.mysql.spec import MysqlBinlog

HERE, FORMER = "here", "former"
SERVER = cast("Any", SimpleNamespace(identity=HERE))
AN_XA = PreparedTransaction("X'61',X'',1", "b.000003", 100, 900)
ANOTHER = PreparedTransaction("X'62',X'',1", "b.000003", 900, 990)
A_NEW_ONE = PreparedTransaction("X'63',X'',1", "b.000009", 700, 800)


def place(pos: int, *prepared: PreparedTransaction, file: str = "b.000009", server: str = HERE) -> BinlogOffset:
    return BinlogOffset(file, pos, "", "mysql", server, prepared=prepared)


def keep(root: Path, prepared: PreparedTransaction, flow: str = "orders", server: str = HERE) -> None:
    copy = root / pinned_name(prepared)
    copy.write_bytes(prepared.xid.encode())
    SegmentStore(str(root), flow, server).pin(PinnedPrepare(copy, prepared.xid, ()))


def kept(root: Path, flow: str = "orders") -> set[str]:
    return {path.name for path in root.glob(f"{flow}/*/prepared/*") if path.suffix != ".json"}


class Shop:
    """One connection, which nobody opens."""

    def get(self, conn_id: str) -> Connection:
        return Connection(conn_id=conn_id, conn_type="mysql", host="nowhere")


def test_a_look_at_the_xa_commit_leaves_the_flow_its_copy_and_its_segments(tmp_path: Path) -> None:
    keep(tmp_path, AN_XA)
    ahead = OffsetRange(place(500, AN_XA), place(900))
    own = SegmentStore(str(tmp_path), "orders", HERE)
    own.publish(own.stage(), RangeIndex(ahead, "orders.*", (), (), 0, more=False))
    flow = Flow(name="orders", source=MysqlBinlog(conn_id="shop", tables=("orders.*",)), sinks=(Noop(),), checks=())
    with look(flow, Shop(), FlowContext("orders", Settings("test", str(tmp_path), ""))) as source:
        source.discard(SourcePlan(ahead, (), 1, 1))
    assert kept(tmp_path) == {pinned_name(AN_XA)}
    assert own.find(ahead) is not None


@pytest.mark.parametrize("reader", ["orders.look_1", "orders.backfill-replay-0123456789ab-0"])
@pytest.mark.parametrize("server", [HERE, FORMER])
def test_who_reads_beside_the_flow_finds_its_copies(tmp_path: Path, reader: str, server: str) -> None:
    keep(tmp_path, AN_XA, server=server)
    stores = FlowStores(SERVER, str(tmp_path), reader)
    copy = tmp_path / "found"
    found = [former for store, former in stores.copies() if store.load_pin(AN_XA, copy, named=former)]
    assert (found, copy.read_bytes()) == ([server == FORMER], AN_XA.xid.encode())
    stores.segments().unpin(AN_XA)
    assert kept(tmp_path) == {pinned_name(AN_XA)}


def test_a_range_that_the_flow_has_staged_is_described_to_a_look(tmp_path: Path) -> None:
    planned = OffsetRange(place(4), place(90))
    own = SegmentStore(str(tmp_path), "orders", HERE)
    own.publish(own.stage(), RangeIndex(planned, "*", (), (), 7, more=False))
    found = FlowStores(SERVER, str(tmp_path), "orders", "orders.look_1").staged_by_flow(planned, HERE)
    assert found is not None
    store, index = found
    assert index.bytes == 7
    assert store.find(planned) == index
    assert FlowStores(SERVER, str(tmp_path), "orders").staged_by_flow(planned, HERE) is None


@dataclass
class Store:
    """Where a flow and its sinks behind stand, and what they have planned."""

    stands: BinlogOffset | None
    plan: OffsetRange | None = None
    behind: dict[str, Store] = field(default_factory=dict)

    def load(self, _: str) -> Any:
        return SimpleNamespace(offset=self.stands) if self.stands else None

    def pending_plan(self, _: str) -> Any:
        return SimpleNamespace(range=self.plan) if self.plan else None

    def sinks_behind(self, _: str) -> list[str]:
        return list(self.behind)

    def of_sink(self, sink: str) -> Store:
        return self.behind[sink]


def swept(root: Path, store: Store, *, aged: bool = True) -> set[str]:
    """Sweep under a claim; return the names of the copies that are left."""
    old = time.time() - LEFT_AGE_S - 60
    for path in (*root.rglob("*"), root) if aged else ():
        os.utime(path, (old, old))
    session = SimpleNamespace(
        source=FlowStores(SERVER, str(root), "orders"), store=store, raw_store=None, backfills=None,
        flow=SimpleNamespace(name="orders"), identity=SimpleNamespace(run_id="run"),
    )  # fmt: skip
    sweep(cast("Any", session))
    return kept(root)


def test_a_copy_that_a_kill_or_a_skip_left_goes_a_day_later(tmp_path: Path) -> None:
    keep(tmp_path, AN_XA)
    keep(tmp_path, ANOTHER)
    stands = Store(place(500, ANOTHER))
    assert swept(tmp_path, stands, aged=False) == {pinned_name(AN_XA), pinned_name(ANOTHER)}
    assert swept(tmp_path, stands) == {pinned_name(ANOTHER)}
    assert not list(tmp_path.glob(f"*/*/prepared/{pinned_name(AN_XA)}*"))
    assert swept(tmp_path, Store(place(600))) == set()


def test_copies_of_a_rehearsal_go_by_age_though_the_flow_rehearses_each_hour(tmp_path: Path) -> None:
    """Its folder as a whole is never left for a day."""
    rehearsal = REHEARSAL.format("orders")
    for prepared in (AN_XA, ANOTHER):
        keep(tmp_path, prepared, rehearsal)
    old = time.time() - LEFT_AGE_S - 60
    for path in tmp_path.rglob("*"):
        os.utime(path, (old, old))
    keep(tmp_path, A_NEW_ONE, rehearsal)
    swept(tmp_path, Store(place(500, ANOTHER)), aged=False)
    assert kept(tmp_path, rehearsal) == {pinned_name(ANOTHER), pinned_name(A_NEW_ONE)}


BOTH = {pinned_name(AN_XA), pinned_name(ANOTHER)}


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(Store(place(500), behind={"s": Store(place(4, AN_XA, ANOTHER))}), id="of a sink behind"),
        pytest.param(Store(place(500), OffsetRange(place(500, AN_XA, ANOTHER), place(600))), id="of a plan's start"),
        pytest.param(Store(place(500), OffsetRange(place(500), place(600, AN_XA, ANOTHER))), id="of a plan's end"),
        pytest.param(Store(place(50, file="b.000003")), id="behind the flow's place"),
        pytest.param(Store(place(500), behind={"s": Store(place(50, file="b.000003"))}), id="behind a sink's place"),
        pytest.param(Store(place(500, server=FORMER)), id="of another server"),
        pytest.param(Store(place(500), behind={"s": Store(place(4, server=FORMER))}), id="a sink before a failover"),
        pytest.param(Store(None), id="of a flow that stands nowhere"),
    ],
)
def test_a_copy_that_may_be_needed_stays(tmp_path: Path, store: Store) -> None:
    keep(tmp_path, AN_XA)
    keep(tmp_path, ANOTHER)
    assert swept(tmp_path, store) == BOTH


def test_one_prepared_meanwhile_and_what_is_no_copy_stay(tmp_path: Path) -> None:
    keep(tmp_path, A_NEW_ONE)
    (tmp_path / "orders" / HERE / "prepared" / "notes.prepared").write_bytes(b"a person's")
    assert swept(tmp_path, Store(place(500))) == {pinned_name(A_NEW_ONE), "notes.prepared"}
    assert swept(tmp_path, Store(replace(place(900), prepared=(A_NEW_ONE,)))) > {pinned_name(A_NEW_ONE)}
