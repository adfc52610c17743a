"""A store that came back from an older copy: refused by name, and adopted from what each sink's markers say."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus import __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import MarkersAheadError
from databus.core.settings import Settings
from databus.core.state.sink_markers import SlotMark
from databus.core.times import SystemClock
from databus.ops.checkpoint import adopt
from databus.runtime.context import RunIdentity, Services
from tests.unit.runtime.marked_sinks import BROKERS, brokers
from tests.unit.runtime.test_sinks_behind_detached import Detachable

assert brokers  # a fixture that is used by all tests here

WHO = RunIdentity("ada", "", __version__)


def services_of(flow: Detachable) -> Any:
    settings = Settings("test", str(flow.folder), "")
    return Services(settings, EnvironmentConnections({}), flow.store, None, flow.reports, SystemClock())  # type: ignore[arg-type]


def marked_end(flow: Detachable) -> None:
    """Let the markers say where their rows end, as Kafka's do: slots of this sink are whole batches."""
    ends = {report.plan.batch: report.plan.range.end for report in flow.reports.all}
    for broker in BROKERS.values():
        for slot, marker in broker.markers.items():
            end = ends[marker.batch]
            broker.markers[slot] = type(marker)(marker.batch, marker.hash, end=end.to_json(), at=str(end))


@pytest.mark.parametrize("option", ["stop", "continue"])
def test_a_flow_and_its_sink_behind_are_adopted_each_by_its_own_markers(tmp_path: Path, option: str) -> None:
    flow = Detachable(tmp_path, "a", "b")
    flow.flow = flow.flow.model_copy(update={"on_zookeeper_loss": option})
    flow.go(max_batches=2)
    BROKERS["b"].down = True
    flow.go(max_batches=2)
    older = copy.deepcopy(flow.server.flows)
    flow.go(max_batches=3)
    BROKERS["b"].down = False
    flow.go(max_batches=2)
    assert flow.store.sinks_behind("shop") == ("b",)
    stood = (flow.store.load("shop"), flow.store.of_sink("b").load("shop"))
    flow.server.flows.clear()
    flow.server.flows.update(older)
    marked_end(flow)
    with pytest.raises(MarkersAheadError) as caught:
        flow.go()
    assert "checkpoint adopt shop" in caught.value.hint
    found = adopt.preview(flow.flow, services_of(flow))
    assert (found.needed, list(found.behind), found.repeated) == (True, ["b"], ())
    adopt.execute(flow.flow, services_of(flow), WHO, "disk lost")
    adopted = (flow.store.load("shop"), flow.store.of_sink("b").load("shop"))
    for mine, before in zip(adopted, stood, strict=True):
        assert mine is not None
        assert before is not None
        assert (mine.offset, mine.slots, mine.plan_hash) == (before.offset, before.slots, before.plan_hash)
    assert flow.store.history("shop", 1)[0].action == "adopt"
    again = adopt.execute(flow.flow, services_of(flow), WHO, "again")
    assert not again.needed
    assert flow.store.history("shop", 1)[0].why == "disk lost"
    flow.go()
    flow.assert_each_holds_all_once()


def test_a_slot_that_the_flow_has_no_more_does_not_hold_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Detachable(tmp_path, "a")
    flow.go(max_batches=2)
    stood = flow.store.load("shop")
    assert stood is not None
    lowered = replace(stood, slots={"a": (*stood.slots["a"], 1)})  # one slot more, until batch 1
    at = {report.plan.batch: report.plan.range.end for report in flow.reports.all}
    marks = [SlotMark(2, stood.plan_hash, at[2])] * len(stood.slots["a"])
    monkeypatch.setattr(adopt, "marks_of", lambda *_: [*marks, SlotMark(1, "", at[1])])
    ends: Any = SimpleNamespace(sinks={})
    found = adopt._adoption(flow.flow, ends, ("a",), lowered, allow_repeats=False)
    assert (found.offset, found.slots, found.repeated) == (stood.offset, lowered.slots, ())


def test_an_adoption_is_numbered_above_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Detachable(tmp_path, "a", "b")
    flow.go(max_batches=2)
    older = copy.deepcopy(flow.server.flows)
    flow.go(max_batches=3)
    flow.server.flows.clear()
    flow.server.flows.update(older)
    marked_end(flow)
    monkeypatch.setattr(flow.reports, "paged", lambda _flow: 5)
    adopt.execute(flow.flow, services_of(flow), WHO, "disk lost")
    numbers = [(entry.number, entry.action, entry.batch) for entry in flow.store.history("shop", 2)]
    assert numbers == [(6, "adopt", 5), (3, "commit", 2)]
    flow.go()
    flow.assert_each_holds_all_once()
    assert flow.store.history("shop", 99)[0].number == 6 + 7
