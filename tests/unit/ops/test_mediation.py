"""Amendments by hand: what is refused leaves the flow as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databus.connections.environment import EnvironmentConnections
from databus.core.errors import CheckpointConflictError, SinkUnavailableError
from databus.core.positions.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.core.state.amendments import SinkEffect
from databus.core.state.plan import Plan
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.times import SystemClock
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import preview as moves
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.runtime.context import Services
from databus.sinks.kafka.markers import compare, untouched
from tests.unit.runtime.marked_sinks import BROKERS, SLOTS, Installation, MarkedSink, brokers

assert brokers  # a fixture that is used by all tests here


def abandoned(self: MarkedSink, plan: Plan) -> Mapping[int, str]:
    """As `sinks.kafka.upkeep.abandon_slot` does: closed for good, so that `open_again` puts nothing back."""
    markers, states = BROKERS[self.name].markers, {}
    for slot in range(SLOTS):
        if (m := markers.get(slot)) is not None and (m.batch, m.hash, m.state) == (plan.batch, plan.hash, "abandoned"):
            states[slot] = "abandoned"
        elif compare(markers.get(slot), plan, self.name, slot).finished:
            states[slot] = "written"
        else:
            markers[slot], states[slot] = untouched(plan), "abandoned"
    return states


def test_an_amendment_that_is_refused_has_closed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers that are closed for good and a plan that stays let no run go on, no sink join, no amendment through."""
    monkeypatch.setattr(MarkedSink, "abandon", abandoned)
    effect = SinkEffect("s", "rows are passed over")
    monkeypatch.setattr(MarkedSink, "effect_of", lambda *_, **__: effect, raising=False)
    flow = Installation("a", "b")
    flow.run(max_batches=1)
    BROKERS["b"].down = True
    flow.run(max_batches=1)
    BROKERS["a"].fails_after = 1  # in mid-batch: its plan stays in flight
    with pytest.raises(SinkUnavailableError):
        flow.run()
    BROKERS["a"].fails_after, BROKERS["a"].down = None, False
    assert flow.store.pending_plan("shop") is not None
    assert flow.store.sinks_behind("shop") == ("b",)
    services: Any = Services(
        Settings("test", str(tmp_path), ""),
        EnvironmentConnections({}),
        flow.store,
        None,
        flow.reports,
        SystemClock(),  # type: ignore[arg-type]
    )
    place = Target(place=json.dumps(SequenceOffset(60).to_json()))
    with pytest.raises(CheckpointConflictError, match="cannot skip while sinks stand behind"):
        mediation.preview(flow.flow, services, "skip", place)
    with pytest.raises(CheckpointConflictError, match="cannot skip while sinks stand behind"):
        mediation.execute(flow.flow, services, "skip", place, Attribution("ada", "on"))
    with monkeypatch.context() as looked:  # whatever else the store refuses
        looked.setattr(moves, "require_all_joined", lambda *_: None)
        with pytest.raises(CheckpointConflictError, match="cannot skip while sinks stand behind"):
            mediation.execute(flow.flow, services, "skip", place, Attribution("ada", "on"))
    BROKERS["b"].down = False
    flow.run()
    flow.assert_each_holds_all_once()


def test_a_preview_says_what_a_move_means_for_a_snapshot_that_is_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MarkedSink, "effect_of", lambda *_, **__: SinkEffect("s", "told"), raising=False)
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    settings = Settings("test", str(tmp_path), "")
    services: Any = Services(settings, EnvironmentConnections({}), flow.store, None, flow.reports, SystemClock())  # type: ignore[arg-type]
    back, forward = (Target(place=json.dumps(SequenceOffset(place).to_json())) for place in (5, 60))

    def told(action: Any, target: Target) -> str:
        move = mediation.preview(flow.flow, services, action, target)
        assert ("snapshot" in move.to_json()) == bool(move.snapshot)
        return move.snapshot

    assert (told("rewind", back), told("skip", forward)) == ("", "")
    begun = Snapshot(1, "initial", datetime.now(UTC), (TableProgress("shop.orders"),))
    flow.store.begin_snapshot("shop", None, begun, "ada", "a new index")
    assert "rows that it has delivered get older states again until the log is replayed" in told("rewind", back)
    assert told("skip", forward).startswith("snapshot 1 is unfinished and goes on where it stands: rows that it has")
    lack = "lack the changes that are passed over; to read them again, give --repair, or cancel it and begin another"
    assert told("skip", forward).endswith(lack)
    flow.store.cancel_snapshot("shop", "ada", "not now")
    assert (told("rewind", back), told("skip", forward)) == ("", "")
