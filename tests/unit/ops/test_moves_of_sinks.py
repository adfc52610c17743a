"""Sinks that are moved or got batches alone: what a move of theirs, the flow's, or a backfill's says and does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databus.connections.environment import EnvironmentConnections
from databus.core.errors import DecodeError, LeaseBusyError
from databus.core.positions.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.core.state.amendments import SinkEffect
from databus.core.times import SystemClock
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.runtime.context import Services
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.ops.test_backfill_passing import Passing, at, gap
from tests.unit.ops.test_mediation import abandoned
from tests.unit.runtime.marked_sinks import BROKERS, Installation, Killed, MarkedSink, brokers

assert brokers  # a fixture


def test_what_a_sink_alone_gave_up_is_no_decision_of_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """`skip --sink b` names its gap among the flow's; the flow itself was never moved over it."""
    passing = Passing(monkeypatch, replace(gap(at(5), at(50)), cause="sink b: skip"))
    with pytest.raises(DecodeError):
        passing.run()
    assert not passing.done


def test_two_who_run_one_backfill_do_not_fail_over_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has the piece's lease again, and passes the statement: this one has to look again, not to fail."""
    passing = Passing(monkeypatch, gap(at(10), at(20)))

    def busy(*_: Any) -> None:
        raise LeaseBusyError("the other one holds it")

    monkeypatch.setattr(mediation, "execute", busy)
    passing.run()


def fallen_behind_in_mid_batch(monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Sink b holds one slot of batch 3, (20, 30], and fell behind at 20, where the flow stands; the process ends."""
    monkeypatch.setattr(MarkedSink, "abandon", abandoned)
    effect = SinkEffect("b", "rows are passed over")
    monkeypatch.setattr(MarkedSink, "effect_of", lambda *_, **__: effect, raising=False)
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].fails_after = 4  # prepare, and three steps of the first slot's writer
    detach = MemoryCheckpoints.detach

    def killed(*arguments: Any) -> Any:
        detach(*arguments)
        raise Killed

    with monkeypatch.context() as ending:
        ending.setattr(MemoryCheckpoints, "detach", killed)
        with pytest.raises(Killed):
            flow.run()
    BROKERS["b"].fails_after, BROKERS["b"].down = None, False
    assert {marker.batch for marker in BROKERS["b"].markers.values()} == {2, 3}
    return flow


@pytest.mark.parametrize("to", [None, 25])
def test_a_half_written_batch_that_comes_once_more_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, to: int | None
) -> None:
    """`skip SHOP --sink b` where it lacks nothing, or to a place within its plan in flight; a flow's own move names
    the sinks that hold a part of the closed plan (`half_written`)."""
    flow = fallen_behind_in_mid_batch(monkeypatch)
    if to is not None:
        BROKERS["b"].down = True
        flow.run(max_batches=1)
        BROKERS["b"].down = False
    clock: Any = SystemClock()
    settings = Settings("test", str(tmp_path), "")
    services: Any = Services(settings, EnvironmentConnections({}), flow.store, None, flow.reports, clock)  # type: ignore[arg-type]
    target = None if to is None else Target(json.dumps(SequenceOffset(to).to_json()))
    told = giving_up.preview(flow.flow, services, "b", target).to_json()
    giving_up.execute(flow.flow, services, "b", target, Attribution("ada", "nothing brings them"))
    flow.run()
    assert flow.store.sinks_behind("shop") == ()
    twice = len(BROKERS["b"].held) - len({*BROKERS["b"].held})
    assert twice == 0 or "half" in json.dumps(told) or "once more" in json.dumps(told), told


def test_a_rewind_counts_what_a_sink_got_while_it_was_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its batches of that time stand in its own history alone: the preview says that it gets nothing again, and asks
    it about no output, so that the guard of compacted topics lets the rewind pass."""
    monkeypatch.setattr(MarkedSink, "abandon", abandoned)
    asked: dict[str, Any] = {}

    def effect_of(sink: MarkedSink, outputs: Any, *, back: bool) -> SinkEffect:
        asked[sink.name] = (tuple(outputs), back)
        return SinkEffect(sink.name, "told")

    monkeypatch.setattr(MarkedSink, "effect_of", effect_of, raising=False)
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].down = True
    flow.run()
    BROKERS["b"].down = False
    assert flow.run().behind == {}
    clock: Any = SystemClock()
    settings = Settings("test", str(tmp_path), "")
    services: Any = Services(settings, EnvironmentConnections({}), flow.store, None, flow.reports, clock)  # type: ignore[arg-type]
    place = Target(json.dumps(SequenceOffset(20).to_json()))
    move = mediation.preview(flow.flow, services, "rewind", place)
    told = {effect.sink: effect.effect for effect in move.effects}
    assert told["a"].startswith("up to 200 records again")
    assert told["b"].startswith("up to 200 records again")
