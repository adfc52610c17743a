"""A claim sweeps what stands beside the flow: what the flow's own store knows of the flow stays what it was."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus.binlog.segments.store import LEFT_AGE_S
from databus.core.flow import Flow
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.protocols import StagedPlans
from databus.core.settings import Settings
from databus.core.state.amendments import Amendment
from databus.core.state.backfill import Aim, Backfill, Mode
from databus.core.times import SystemClock
from databus.runtime.context import FlowSession, RunIdentity
from databus.runtime.drain import Drain
from databus.runtime.takeover.sweep import sweep
from databus.runtime.takeover.takeover import ClaimedFlow, take_over
from databus.runtime.zookeeper_loss.policy import is_detached, outlasting
from databus.sinks.noop import Noop
from databus.sources.mock.spec import Mock
from databus.sources.mysql.flow_stores import FlowStores
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.spool_holder import FLOW, Holder, Line, Register, Slots, done, move, plan_of

PIECES = OffsetRange(SequenceOffset(0), SequenceOffset(1))
ASKED = Backfill(
    FLOW, Aim(Mode.REPLAY, ".again"), PIECES, ("0", "1"), (PIECES, PIECES), "ada", datetime(2024, 1, 31, tzinfo=UTC)
)
OVER, BEGUN = ASKED.piece_name(0), ASKED.piece_name(1)


class Asked:
    """The one backfill that was asked for."""

    def backfill(self, flow: str, id_: str) -> Backfill | None:
        return ASKED if (flow, id_) == (ASKED.flow, ASKED.id) else None


@dataclass
class Staging:
    """A source of which only what it staged is looked at."""

    root: str

    def sweep(self, plans: StagedPlans) -> None:
        server: Any = SimpleNamespace(identity="server")
        FlowStores(server, self.root, FLOW).sweep(plans)


class Marked(Slots):
    """A sink whose register outlives its holders."""

    said = Register()

    def register(self) -> Register:
        return self.said


class Installation:
    """A flow and two pieces of a backfill, one done and one begun, whose folders nobody wrote for a day."""

    def __init__(self, root: Path):
        self.real, self.root = MemoryCheckpoints(), root
        self.line: Any = Line(self.real)
        for piece, batches in ((OVER, 1), (BEGUN, 0)):
            lease = self.real.claim(piece, "backfill", 0)
            self.real.start(piece, lease, SequenceOffset(0), "backfill")
            if batches:
                move(self.real, lease, replace(plan_of(1), flow=piece))
            lease.release()
            self._stage(piece)
        self._stage(FLOW)
        lease = self.real.claim(FLOW, "before", 0)
        self.real.start(FLOW, lease, SequenceOffset(0), "before")
        self.first = move(self.real, lease, plan_of(1))
        lease.release()
        self.real.claim(FLOW, "idle", 0).release()  # so that its epochs are not the pieces'

    def _stage(self, name: str) -> None:
        folder = self.root / name / "server" / "0-1"
        folder.mkdir(parents=True)
        old = time.time() - LEFT_AGE_S - 60
        for path in (folder, folder.parent, folder.parent.parent):
            os.utime(path, (old, old))

    def session(self, on_loss: str) -> FlowSession:
        flow: Any = Flow(name=FLOW, source=Mock(rows=10), sinks=(Noop(name="a"), Noop(name="b")))
        flow = flow.model_copy(update={"on_zookeeper_loss": on_loss})
        sinks: Any = {name: Marked((1, self.first.hash)) for name in ("a", "b")}
        source, recorder, backfills = Staging(str(self.root)), None, Asked()
        given: Any = (recorder, SystemClock(), None, RunIdentity("run", "", "1"), source)
        who: Any = backfills
        settings = Settings("test", str(self.root), "")
        return FlowSession(flow, settings, self.line, *given, sinks, backfills=who)

    def staged(self) -> set[str]:
        return {path.parent.parent.name for path in self.root.glob("*/server/*")}


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    Marked.said = Register()
    return Installation(tmp_path)


@pytest.mark.parametrize("committed", [True, False], ids=["after a commit", "before the claim's first commit"])
@pytest.mark.parametrize("killed", [False, True], ids=["holder lives", "holder is killed"])
def test_a_holder_that_swept_goes_on_without_zookeeper_and_is_reconciled(
    installation: Installation, committed: bool, killed: bool
) -> None:
    plans = [plan_of(2), plan_of(3)] if committed else [plan_of(2)]
    with outlasting(installation.session("continue"), Drain(), 0.0) as session:
        lease = session.store.claim(FLOW, "run", 0)
        take_over(ClaimedFlow.of(session, lease))
        sweep(session)
        assert (installation.staged(), (installation.root / OVER).exists()) == (set(), False)
        for plan in plans:
            installation.line.cut = plan is plans[-1]
            move(session.store, lease, plan)
        assert is_detached(session)
        installation.line.cut = False
        if not killed:
            assert session.store.load(FLOW) == installation.real.load(FLOW) == done(plans[-1], lease.epoch)
            return
    lease.release()
    with outlasting(installation.session("continue"), Drain(), 0.0) as session:
        later = session.store.claim(FLOW, "next", 0)
        reached = take_over(ClaimedFlow.of(session, later))
        assert reached is not None
        assert (reached.batch, reached.plan_hash) == (plans[-1].batch, plans[-1].hash)


def test_a_sweep_while_zookeeper_goes_away_waits_for_nothing_and_deletes_nothing_beside(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    with outlasting(installation.session("stop"), Drain(), 1.0) as session:
        session.store.claim(FLOW, "run", 0)
        (installation.root / FLOW / "server" / "0-1").rmdir()  # so that the flow itself is not asked about
        installation.line.cut = True
        sweep(session)
    assert installation.staged() == {OVER, BEGUN}
    (told,) = caplog.messages
    assert "leftovers in the segment store stay" in told  # and not a word of waiting


def test_the_store_of_one_flow_is_asked_about_no_other(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    store, lease, piece = holder.store, holder.lease, replace(plan_of(2), flow=BEGUN)
    amendment = Amendment("rewind", "ada", "", SequenceOffset(0))
    for ask in (
        lambda: store.claim(BEGUN, "run", 0),
        lambda: store.load(BEGUN),
        lambda: store.pending_plan(BEGUN),
        lambda: store.start(BEGUN, lease, SequenceOffset(0), "run"),
        lambda: store.write_plan(lease, piece),
        lambda: store.commit(lease, piece, done(piece, lease.epoch), [], {}),
        lambda: store.reconcile(lease, BEGUN, [], None),
        lambda: store.paused(BEGUN),
        lambda: store.sinks_behind(BEGUN),
        lambda: store.highest_batch(BEGUN),
        lambda: store.amend(BEGUN, lease, amendment),
        lambda: store.adopt(lease, BEGUN, done(piece, lease.epoch), ""),
        lambda: store.join(BEGUN, lease, "b", "run"),
        lambda: store.of_sink("b").load(BEGUN),
    ):
        with pytest.raises(AssertionError, match=f"the store of flow {FLOW} is asked about {BEGUN}"):
            ask()
    assert BEGUN not in holder.server.flows
    holder.line.cut = True
    last = move(store, lease, plan_of(2))
    holder.line.cut = False
    assert store.load(FLOW) == holder.real.load(FLOW) == done(last, lease.epoch)
