"""Sinks that are behind and cannot catch up: they go forward by hand, and the flow has a way on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from databus.connections.environment import EnvironmentConnections
from databus.core.errors import (
    CheckpointConflictError,
    ConfigError,
    MarkerDivergedError,
    OffsetPurgedError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.core.positions.gaps import OPEN, SKIPPED
from databus.core.positions.offsets import KafkaOffsets, OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.amendments import SinkEffect
from databus.core.times import SystemClock
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint import giving_up
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.health.preflight import preflight
from databus.runtime.context import Services
from databus.runtime.sink_outage.lagging_sinks import SinksBehind
from databus.runtime.sink_outage.probe import Probe
from databus.sources.mock.source import MockSource
from tests.unit.ops.test_mediation import abandoned
from tests.unit.runtime.marked_sinks import BROKERS, ROWS, SLOTS, Installation, MarkedSink, brokers

assert brokers  # a fixture that is used by all tests here

ADA = Attribution("ada", "nothing brings them")


@pytest.fixture(autouse=True)
def amendable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarkedSink, "abandon", abandoned)
    effect = SinkEffect("b", "rows are passed over")
    monkeypatch.setattr(MarkedSink, "effect_of", lambda *_, **__: effect, raising=False)


@pytest.fixture
def services_of(tmp_path: Path) -> Callable[[Installation], Any]:
    settings, connections = Settings("test", str(tmp_path), ""), EnvironmentConnections({})
    clock: Any = SystemClock()
    return lambda flow: Services(settings, connections, flow.store, None, flow.reports, clock)  # type: ignore[arg-type]


def place(at: int) -> str:
    return json.dumps(SequenceOffset(at).to_json())


def behind_at_20() -> Installation:
    """A flow at 100 whose sink b stands at 20, and has its next batch half written."""
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].fails_after = 2 * SLOTS + 1
    flow.run(max_batches=8)
    assert flow.store.sinks_behind("shop") == ("b",)
    assert {marker.batch for marker in BROKERS["b"].markers.values()} == {2, 3}
    BROKERS["b"].fails_after, BROKERS["b"].down, BROKERS["b"].refuses = None, False, True
    with patch.object(SinksBehind, "_probe", _answered), pytest.raises(SinkSettingError):
        flow.run(max_batches=1)
    assert str(flow.store.load("shop").offset) == "110"  # type: ignore[union-attr]
    return flow


_probe = SinksBehind._probe


def _answered(behind: SinksBehind, name: str) -> Probe:
    """Return a probe that has its answer: the only batch of a run may be over before it."""
    probe = _probe(behind, name)
    probe.first_answer(10)
    return probe


def missed_by_b() -> set[str]:
    return {*BROKERS["a"].held} - {*BROKERS["b"].held}


def test_it_gives_up_all_that_it_lacks_and_goes_with_the_flow_again(services_of: Any) -> None:
    flow = behind_at_20()
    services, before = services_of(flow), flow.store.load("shop")
    looked = giving_up.preview(flow.flow, services, "b", None).to_json()
    assert (looked["from"], looked["to"], looked["then"]) == ("20", "110", "goes with the flow again")
    assert looked["plan_closed"].startswith("batch 3 ")
    assert (flow.store.load("shop"), flow.store.sinks_behind("shop")) == (before, ("b",))
    giving_up.execute(flow.flow, services, "b", None, ADA)
    assert flow.store.sinks_behind("shop") == ()
    (gap,) = flow.store.gaps("shop")
    assert (str(gap), gap.who, gap.why) == ("(20, 110] sink b: skip, skipped", "ada", "nothing brings them")
    BROKERS["b"].refuses = False
    flow.run()
    assert len(BROKERS["a"].held) == len({*BROKERS["a"].held}) == ROWS
    lost = sorted(int(event.split(":")[-3]) for event in missed_by_b())
    assert set(lost) <= set(range(21, 111))
    assert len(BROKERS["b"].held) == len({*BROKERS["b"].held}) == ROWS - len(lost)
    mediation.execute(flow.flow, services, "rewind", Target(batches=1), ADA)
    with pytest.raises(CheckpointConflictError, match="sink b is not behind: no sink is"):
        giving_up.execute(flow.flow, services, "b", None, ADA)


def test_it_goes_to_a_place_and_catches_up_from_there(services_of: Any) -> None:
    flow = behind_at_20()
    services = services_of(flow)
    for wrong in (20, 120, 10):
        with pytest.raises(CheckpointConflictError, match=f"cannot go to {wrong}: it stands at 20, the flow at 110"):
            giving_up.execute(flow.flow, services, "b", Target(place(wrong)), ADA)
    with pytest.raises(ConfigError, match="new log"):
        giving_up.preview(flow.flow, services, "b", Target(new_log=True))
    found = giving_up.execute(flow.flow, services, "b", Target(place(60)), ADA)
    assert found.to_json()["then"] == "catches up with the flow from there"
    assert flow.store.sinks_behind("shop") == ("b",)
    BROKERS["b"].refuses = False
    flow.run()
    assert flow.store.sinks_behind("shop") == ()
    assert {int(event.split(":")[-3]) for event in missed_by_b()} <= set(range(21, 61))
    assert len(BROKERS["b"].held) == len({*BROKERS["b"].held})


def test_it_passes_what_the_server_has_deleted(services_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = behind_at_20()
    services = services_of(flow)
    with pytest.raises(ConfigError, match="nothing is missing for sink b"):
        giving_up.execute(flow.flow, services, "b", Target(past_gap=True), ADA)
    lag, plan = MockSource.lag, MockSource.reopen

    def purged(at: Any) -> None:
        if at.sequence < 50:
            error = OffsetPurgedError("the log was deleted", hint="skip shop --past-gap")
            error.missing = OffsetRange(at, SequenceOffset(50))
            raise error

    monkeypatch.setattr(MockSource, "lag", lambda source, at: purged(at) or lag(source, at))
    monkeypatch.setattr(MockSource, "reopen", lambda source, moved: purged(moved.start) or plan(source, moved))
    BROKERS["b"].refuses = False
    with pytest.raises(OffsetPurgedError, match="--sink b --past-gap"):
        flow.run()
    assert len(BROKERS["a"].held) == ROWS
    assert [(gap.decision, str(gap.start)) for gap in flow.store.gaps("shop")] == [(OPEN, "20")]
    with pytest.raises(CheckpointConflictError, match="--sink b"):
        mediation.execute(flow.flow, services, "rewind", Target(batches=1), ADA)
    giving_up.execute(flow.flow, services, "b", Target(past_gap=True), ADA)
    assert [(gap.decision, str(gap)) for gap in flow.store.gaps("shop")] == [
        (SKIPPED, "(20, 50] sink b: purged, skipped")
    ]
    flow.run()
    assert flow.store.sinks_behind("shop") == ()
    assert {int(event.split(":")[-3]) for event in missed_by_b()} <= set(range(21, 51))


def test_one_that_was_taken_out_of_the_flow_keeps_it_from_nothing(services_of: Any) -> None:
    flow = behind_at_20()
    both = flow.flow
    flow.flow = both.model_copy(update={"sinks": both.sinks[:1]})
    services = services_of(flow)
    flow.run()
    told = [finding for finding in preflight(flow.flow, services) if "no part of the flow" in finding.message]
    assert [finding.subject for finding in told] == ["sink b"]
    assert "--sink b" in told[0].hint
    with pytest.raises(CheckpointConflictError, match="stand behind the others: b"):
        mediation.execute(flow.flow, services, "rewind", Target(batches=1), ADA)
    with pytest.raises(ConfigError, match="no part of the flow"):
        giving_up.execute(flow.flow, services, "b", Target(place(60)), ADA)
    told_of_plan = giving_up.execute(flow.flow, services, "b", None, ADA).to_json()["plan_closed"]
    assert told_of_plan.startswith("batch 3 (20, 30], not at the sink itself")
    assert flow.store.sinks_behind("shop") == ()
    mediation.execute(flow.flow, services, "rewind", Target(batches=1), ADA)
    flow.run()


def test_markers_that_an_earlier_databus_has_closed_before_it_refused_are_passed(services_of: Any) -> None:
    """It closed the plan in flight at sink a, and refused the amendment then, because of sink b."""
    flow = behind_at_20()
    services = services_of(flow)
    BROKERS["a"].fails_after = 1
    with pytest.raises(SinkUnavailableError):
        flow.run()
    BROKERS["a"].fails_after, BROKERS["a"].down = None, False
    plan = flow.store.pending_plan("shop")
    assert plan is not None
    abandoned(MarkedSink("a"), plan)
    BROKERS["b"].refuses = False
    with pytest.raises(MarkerDivergedError):
        flow.run()
    BROKERS["b"].refuses = True
    found = giving_up.execute(flow.flow, services, "b", None, ADA)
    assert found.to_json()["then"] == "goes with the flow again once its plan in flight is committed or closed"
    mediation.execute(flow.flow, services, "rewind", Target(place(100)), ADA)
    assert (flow.store.sinks_behind("shop"), flow.store.pending_plan("shop")) == ((), None)
    BROKERS["b"].refuses = False
    flow.run()
    assert {*BROKERS["a"].held} >= {*BROKERS["b"].held}
    assert len({*BROKERS["a"].held}) == ROWS


@pytest.mark.parametrize("target", [Target(past_gap=True), Target("t:0:60,t:1:80")], ids=["gap", "place"])
def test_of_many_logs_each_is_passed_up_to_where_the_flow_stands(
    monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    """Of one partition even what the flow lacks is purged, of the other the sink has to get what the flow has: the end
    of the gap lies neither before the flow nor behind it. It was refused when the sink's plan was closed for it."""
    flow, ends = Installation("a", "b").flow, SimpleNamespace(sinks={"b": None}, source=None)
    own, stands = (SimpleNamespace(offset=KafkaOffsets({"t": at})) for at in ({0: 5, 1: 80}, {0: 50, 1: 100}))
    monkeypatch.setattr(giving_up, "missing", lambda *_: OffsetPurgedError("gone"))
    monkeypatch.setattr(giving_up, "resolve", lambda *_: KafkaOffsets({"t": {0: 60, 1: 80}}))
    arguments: Any = (flow, None, ends, ("b", own), stands, target)
    if target.past_gap:
        assert giving_up._end(*arguments) == KafkaOffsets({"t": {0: 50, 1: 80}})
    else:
        with pytest.raises(CheckpointConflictError, match="sink b cannot go to t:0:60,t:1:80"):
            giving_up._end(*arguments)
