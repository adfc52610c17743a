"""What becomes of the rows of a replay that was closed, by what its sinks hold, and how refused replays are told."""

from __future__ import annotations

import pytest

from databus.core.batches.receipts import CHECK
from databus.core.errors import ConfigError, DatabusError, OffsetPurgedError, ReplaysRefusedError, SourceDivergedError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.ops.quarantine.outcome import ReplayResult
from databus.ops.quarantine.replay_closing import settled, told
from databus.ops.quarantine.replay_refusals import ReplayRefusal, is_gone, require_none
from databus.records.quarantine.held_row import HeldState
from databus.runtime.beside.replay import ROWS_GONE
from databus.runtime.takeover.closing import ClosedForGood
from tests.unit.ops.test_quarantine import entry

SINKS = {"shop.orders": ["kafka", "search"]}


def closed(*whole: str, **partly: str) -> ClosedForGood:
    return ClosedForGood(frozenset(whole), partly, {})


@pytest.mark.parametrize(
    ("stage", "found", "state", "held"),
    [
        (CHECK, closed(), HeldState.HELD, {}),
        (CHECK, closed("kafka", "search"), HeldState.REPLAYED, {}),
        (CHECK, closed("kafka"), HeldState.REPLAYED, {"search": ""}),
        (
            CHECK,
            closed("kafka", search=""),
            HeldState.REPLAYED,
            {"search": ": search may hold it: it keeps no markers"},
        ),
        (CHECK, closed(kafka="1 of 2 slots"), HeldState.HELD, {CHECK: ": kafka holds it in part (1 of 2 slots)"}),
        ("search", closed("kafka"), HeldState.HELD, {}),
        ("search", closed("search"), HeldState.REPLAYED, {}),
        (
            "search",
            closed("kafka", search="2 of 3 slots"),
            HeldState.HELD,
            {"search": ": search holds it in part (2 of 3 slots)"},
        ),
    ],
)
def test_markers_decide(stage: str, found: ClosedForGood, state: HeldState, held: dict[str, str]) -> None:
    row = entry("e1", stage)
    states, again = settled([row], 4, SINKS, found)
    assert states == {("e1", stage): state}
    expected = {name: f"a cause, replay 4 could not be finished{why}" for name, why in held.items()}
    assert {one.stage: one.cause for one in again} == expected
    assert {(one.event_id, one.table, one.payload) for one in again} <= {("e1", "shop.orders", "{}")}


def test_a_sink_that_does_not_take_the_table_lacks_nothing() -> None:
    row = entry("e1", CHECK)
    states, again = settled([row], 4, {"shop.orders": ["kafka"]}, closed("kafka"))
    assert (states, again) == ({("e1", CHECK): HeldState.REPLAYED}, [])
    states, again = settled([row], 4, {"shop.orders": []}, closed("kafka"))
    assert (states, again) == ({("e1", CHECK): HeldState.DISCARDED}, [])


def test_what_was_added_to_a_cause_does_not_grow() -> None:
    (first,) = settled([entry("e1", CHECK)], 4, SINKS, closed(kafka="1 of 2 slots"))[1]
    row = entry("e1", CHECK)
    object.__setattr__(row, "cause", first.cause)
    (again,) = settled([row], 7, SINKS, closed(kafka="1 of 2 slots"))[1]
    assert again.cause == "a cause, replay 7 could not be finished: kafka holds it in part (1 of 2 slots)"


def test_where_the_rows_of_a_closed_replay_are_is_told() -> None:
    assert told(closed()) == "no sink holds any of it"
    assert told(closed("kafka", search="")) == "kafka holds all of it; search may hold it: it keeps no markers"


def at(position: int, generation: int) -> BinlogOffset:
    return BinlogOffset("b.000001", position, "", "mysql", "3e11fa47-71ca-11e1-9e33-c80aa9429562", 1, (), 0, generation)


@pytest.mark.parametrize(
    ("error", "generation", "gone"),
    [
        (OffsetPurgedError("gone"), 0, True),
        (DatabusError("not in the range", code=ROWS_GONE), 0, True),
        (SourceDivergedError("of a former log"), 1, True),
        (SourceDivergedError("errant transactions"), 0, False),  # a person puts the server right
        (ConfigError("unknown"), 1, False),
    ],
)
def test_what_cannot_be_read_any_more(error: DatabusError, generation: int, gone: bool) -> None:
    assert is_gone(error, OffsetRange(at(4, 0), at(900, 0)), at(900, generation)) is gone
    assert is_gone(OffsetPurgedError("gone"), OffsetRange(at(4, 0), at(900, 0)), None)


def test_refused_replays_are_told_together() -> None:
    require_none("orders", [], [])
    one = ReplayRefusal(3, 2, OffsetPurgedError("the log is gone", hint="Discard them."))
    with pytest.raises(OffsetPurgedError, match="the log is gone"):
        require_none("orders", [], [one])
    done = ReplayResult(1, 7, 4, 0, 0, {}, {})
    other = ReplayRefusal(5, 1, OffsetPurgedError("that too", hint="Discard them."))
    with pytest.raises(ReplaysRefusedError) as refused:
        require_none("orders", [done], [one, other])
    assert refused.value.done == (done,)
    assert refused.value.hint == "Discard them."
    assert refused.value.message == (
        "flow orders: 4 rows were replayed, 3 cannot be: batch 3 (2 rows): the log is gone; batch 5 (1 rows): that too"
    )
