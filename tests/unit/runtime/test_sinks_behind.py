"""Sinks that fall behind, under kills at every step of the protocol (ADR 16): each holds all rows once, in order."""

from __future__ import annotations

import os
import random
from functools import partialmethod

import pytest

from databus.core.errors import (
    MarkerDivergedError,
    PlanChangedError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.runtime.context import RunIdentity
from databus.sinks.kafka.markers import Marker
from tests.unit.runtime.marked_sinks import BROKERS, ROWS, SLOTS, Installation, Killed, brokers

assert brokers  # a fixture that is used by all tests here


def test_the_others_go_on_and_the_dead_one_catches_up() -> None:
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].down = True
    result = flow.run()
    assert list(result.behind) == ["b"]
    assert len(set(BROKERS["a"].held)) == len(BROKERS["a"].held) == ROWS
    assert len(BROKERS["b"].held) == 40
    assert str(flow.store.of_sink("b").load("shop").offset) == "20"  # type: ignore[union-attr]
    BROKERS["b"].down = False
    result = flow.run()
    assert (result.behind, result.caught_up, result.rows) == ({}, {"b": ROWS - 40}, 0)
    flow.assert_each_holds_all_once()
    numbers = [report.plan.batch for report in flow.reports.all]
    assert numbers == list(range(1, 23))
    assert flow.store.load("shop").slots == {"a": (12, 12), "b": (max(numbers),) * 2}  # type: ignore[union-attr]


def test_a_sink_that_is_behind_waits_for_the_records_store_and_the_others_go_on() -> None:
    """What the flow has held back is known there alone, and goes to all sinks by a replay."""
    flow = Installation("a", "b")
    BROKERS["b"].down = True
    flow.run(max_batches=2)
    BROKERS["b"].down, flow.reports.away = False, True
    result = flow.run()
    assert (list(result.behind), len(BROKERS["a"].held), BROKERS["b"].held) == (["b"], ROWS, [])
    flow.reports.away = False
    assert flow.run().behind == {}
    flow.assert_each_holds_all_once()


def test_counts_are_the_same_on_both_sides() -> None:
    flow = Installation("a", "b")
    BROKERS["b"].down = True
    flow.run()
    BROKERS["b"].down = False
    flow.run()
    for sink in ("a", "b"):
        reports = [r for r in flow.reports.all if sink in {receipt.sink for receipt in r.receipts}]
        assert sum(r.rows for r in reports) == ROWS
        assert sum(receipt.written for r in reports for receipt in r.receipts if receipt.sink == sink) == ROWS
        assert all(c.reconciled and c.dispatched == c.read for r in reports for c in r.tables.values())


def test_a_half_written_batch_is_finished_by_its_own_plan() -> None:
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].fails_after = 2 * SLOTS + 1  # prepare, two touches of slot 0 and its end: then slot 1 finds it away
    flow.run()
    written = {slot: marker.batch for slot, marker in BROKERS["b"].markers.items()}
    assert written == {0: 3, 1: 2}
    shared = flow.store.of_sink("b").pending_plan("shop")
    assert shared is not None
    assert (shared.batch, sorted(shared.sinks)) == (3, ["a", "b"])
    BROKERS["b"].fails_after, BROKERS["b"].down = None, False
    flow.run()
    flow.assert_each_holds_all_once()


def test_within_the_bound_the_same_plan_is_tried_again() -> None:
    flow = Installation("a", "b", outage_s=60)
    flow.run(max_batches=1)
    broker, attempts = BROKERS["b"], []

    def back_at_the_third() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise SinkUnavailableError("nobody answers")

    broker.touch = back_at_the_third  # type: ignore[method-assign]
    result = flow.run()
    assert (result.behind, flow.store.of_sink("b").history("shop", 9)) == ({}, ())
    flow.assert_each_holds_all_once()


def test_a_window_that_ends_in_an_outage_says_so() -> None:
    flow = Installation("a", "b", outage_s=60)
    BROKERS["b"].down = True
    with pytest.raises(SinkUnavailableError):
        flow.run(max_seconds=0.05)
    assert flow.store.sinks_behind("shop") == ()


@pytest.mark.parametrize("sinks", [("a",), ("a", "b")])
def test_the_last_sink_stops_the_flow(sinks: tuple[str, ...]) -> None:
    flow = Installation(*sinks)
    for name in sinks:
        BROKERS[name].down = True
    with pytest.raises(SinkUnavailableError) as away:
        flow.run()
    assert away.value.sink == sinks[-1]
    assert flow.store.sinks_behind("shop") == sinks[:-1]
    for name in sinks:
        BROKERS[name].down = False
    flow.run()
    flow.assert_each_holds_all_once()


def test_what_needs_a_person_stops_the_flow_and_a_sink_behind_alone() -> None:
    flow = Installation("a", "b")
    BROKERS["b"].refuses = True
    with pytest.raises(SinkSettingError):
        flow.run()
    assert flow.store.sinks_behind("shop") == ()
    BROKERS["b"].refuses, BROKERS["b"].down = False, True
    flow.run(max_batches=2)
    BROKERS["b"].refuses, BROKERS["b"].down = True, False
    with pytest.raises(SinkSettingError) as caught:
        flow.run()
    assert caught.value.sink == "b"
    assert len(BROKERS["a"].held) == ROWS
    BROKERS["b"].refuses = False
    flow.run()
    flow.assert_each_holds_all_once()


def test_a_marker_of_another_hand_stops_the_sink_that_is_behind() -> None:
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].down = True
    flow.run(max_batches=1)
    BROKERS["b"].down = False
    BROKERS["b"].markers[0] = Marker(99, "of another installation")
    with pytest.raises(MarkerDivergedError):
        flow.run()
    assert len(BROKERS["a"].held) == ROWS
    assert len(BROKERS["b"].held) <= 60


@pytest.mark.parametrize("seed", range(int(os.environ.get("DATABUS_TEST_SEEDS", "10"))))
def test_kills_and_outages_at_random(seed: int) -> None:
    chance = random.Random(seed)
    flow = Installation("a", "b", "c")
    for name in "abc":
        BROKERS[name].chance = chance
    for _ in range(30):
        for name in "abc":
            BROKERS[name].down = chance.random() < 0.35
        try:
            flow.run(chance, max_batches=chance.randrange(1, 4))
        except (Killed, SinkUnavailableError):
            continue
    for name in "abc":
        BROKERS[name].down, BROKERS[name].chance = False, None
    flow.run()
    flow.assert_each_holds_all_once()
    assert flow.store.sinks_behind("shop") == ()


def test_an_upgrade_while_a_sink_is_behind_in_mid_batch_fails_that_sink_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Installation("a", "b")
    flow.run(max_batches=2)
    BROKERS["b"].fails_after = 4  # its first slot is written
    flow.run(max_batches=2)
    assert flow.store.sinks_behind("shop") == ("b",)
    held = len(BROKERS["b"].held)
    assert 0 < held < len(BROKERS["a"].held)
    BROKERS["b"].fails_after, BROKERS["b"].down = None, False
    with monkeypatch.context() as upgraded:
        upgraded.setattr(RunIdentity, "__init__", partialmethod(RunIdentity.__init__, plan_code="another"))
        with pytest.raises(PlanChangedError, match="half written") as caught:
            flow.run()
    assert caught.value.sink == "b"
    assert (len(BROKERS["a"].held), len(BROKERS["b"].held)) == (ROWS, held)
    flow.run()
    flow.assert_each_holds_all_once()
