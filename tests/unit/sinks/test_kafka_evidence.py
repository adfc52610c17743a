"""What Kafka's markers and topics say against the ledger, case by case."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.evidence import AcceptedOutput, CommittedState
from databus.core.state.plan import Plan, SinkPlan
from databus.sinks.kafka.evidence import accepted_notes, marker_problems, output_problems, outputs_of, written_of
from databus.sinks.kafka.markers import Marker

NOON = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = Plan(
    "default", "orders", 6, OffsetRange(SequenceOffset(5), SequenceOffset(6)), {"kafka": SinkPlan()}, "spec", NOON
)


def claim(*receipts, plan=None, accepted=None) -> CommittedState:
    checkpoint = Checkpoint(SequenceOffset(5), 5, Epoch(1), "run", "h5", {}, None, NOON, {"kafka": (5,)})
    return CommittedState("orders", checkpoint, plan, {5: "h5"}, receipts, accepted or {})


@pytest.mark.parametrize(
    ("marker", "plan", "problem"),
    [
        (Marker(5, "h5"), None, ""),
        (Marker(6, PLAN.hash), PLAN, ""),  # written, the commit is to come
        (Marker(6, PLAN.hash, last=False), PLAN, ""),
        (Marker(6, "other"), PLAN, "ahead"),
        (Marker(6, PLAN.hash), None, "ahead"),
        (Marker(6, "other", state="abandoned"), None, ""),
        (Marker(4, "h4"), None, "behind"),
        (Marker(5, "h6"), None, "committed with plan h5"),
        (Marker(5, "h5", last=False), None, "the whole of batch 5"),
        (None, None, "no marker, batch 5"),
    ],
)
def test_a_marker_is_the_committed_batch_or_the_plan_in_flight(marker, plan, problem) -> None:
    found = marker_problems(claim(plan=plan), "kafka", [marker])
    assert [problem in line for line in found] == ([True] if problem else [])


def test_a_slot_that_nothing_was_committed_to_needs_no_marker() -> None:
    checkpoint = Checkpoint(SequenceOffset(0), 0, Epoch(1), "run", "", {}, None, NOON, {"kafka": (0, 0)})
    assert marker_problems(CommittedState("orders", checkpoint, None, {}, ()), "kafka", [None, None]) == []


def outputs(batch: int, first: int, last: int, records: int, output: str = "cdc.orders[0]"):
    return batch, {"outputs": {output: {"first_offset": first, "last_offset": last, "records": records}}}


@pytest.mark.parametrize(
    ("receipts", "end", "problems"),
    [
        ([outputs(1, 0, 9, 10), outputs(2, 11, 15, 5)], 17, []),
        ([outputs(1, 0, 9, 11)], 11, ["batch 1: cdc.orders[0] cannot hold 11 records at 0–9"]),
        ([outputs(1, 0, 9, 10), outputs(2, 9, 12, 3)], 14, ["batch 2: cdc.orders[0] begins at 9, batch 1 ended at 9"]),
        ([outputs(1, 0, 9, 10)], 9, ["cdc.orders[0] ends at 9, batch 1 wrote up to 9: records were lost"]),
        ([outputs(1, 0, 9, 10)], None, ["cdc.orders[0] is gone, batch 1 wrote up to 9"]),
        ([(1, {"outputs": None}), (2, {"outputs": {"": {"retries": 2}}}), (3, {})], None, []),
    ],
)
def test_receipts_must_fit_into_the_topics(receipts, end, problems) -> None:
    assert output_problems(claim(*receipts), {"cdc.orders[0]": end}) == problems


OTHER_TOPIC = {"cdc.orders": AcceptedOutput(NOON, 2)}
FORMER = [outputs(1, 0, 9, 10), outputs(2, 10, 12, 3)]
NOTE = (
    "cdc.orders was accepted as another topic at 2026-01-01T00:00:00+00:00: "
    "what batches up to 2 wrote there is not looked for"
)


@pytest.mark.parametrize(
    ("receipts", "end", "problems"),
    [
        (FORMER, None, []),
        (FORMER, 0, []),
        ([*FORMER, outputs(3, 0, 4, 5), outputs(4, 5, 6, 2)], 7, []),
        ([*FORMER, outputs(3, 0, 4, 5)], 4, ["cdc.orders[0] ends at 4, batch 3 wrote up to 4: records were lost"]),
        ([*FORMER, outputs(3, 0, 4, 5)], None, ["cdc.orders[0] is gone, batch 3 wrote up to 4"]),
        (
            [*FORMER, outputs(3, 0, 4, 5), outputs(4, 0, 1, 2)],
            2,
            ["batch 4: cdc.orders[0] begins at 0, batch 3 ended at 4"],
        ),
    ],
)
def test_what_went_to_a_topic_that_was_accepted_as_another_is_a_note(receipts, end, problems) -> None:
    said = claim(*receipts, accepted=OTHER_TOPIC)
    assert output_problems(said, {"cdc.orders[0]": end}) == problems
    assert accepted_notes(said) == [NOTE]
    assert outputs_of(said) == (["cdc.orders[0]"] if len(receipts) > len(FORMER) else [])
    # Not accepted, it is a problem, and so it is of another topic.
    for accepted in ({}, {"cdc": OTHER_TOPIC["cdc.orders"]}):
        other = claim(*receipts, accepted=accepted)
        assert output_problems(other, {"cdc.orders[0]": end}) != problems
        assert accepted_notes(other) == []


@pytest.mark.parametrize(
    ("written", "end", "problems"),
    [
        ({"cdc.orders[0]": 1}, 3, []),
        (
            {"cdc.orders[0]": 1},
            1,
            ["ends at 1, batch 2 wrote 2 records there since it was accepted: records were lost"],
        ),
        ({"cdc.orders[0]": 1}, None, ["is gone, batch 2 wrote 2 records there since it was accepted"]),
        ({}, 2, ["ends at 2, batch 2 wrote 3 records there since it was accepted: records were lost"]),
        ({"cdc.orders[0]": 3}, None, []),  # all of it was in the former topic
        (None, None, []),  # accepted by an older databus, or the markers did not say
    ],
)
def test_what_a_batch_in_flight_wrote_after_its_topic_was_accepted_is_looked_for(written, end, problems) -> None:
    said = claim(*FORMER, accepted={"cdc.orders": AcceptedOutput(NOON, 2, written)})
    assert output_problems(said, {"cdc.orders[0]": end}) == [f"cdc.orders[0] {problem}" for problem in problems]
    since = written is not None and written.get("cdc.orders[0]", 0) < 3
    assert outputs_of(said) == (["cdc.orders[0]"] if since else [])
    assert accepted_notes(said) == [NOTE + (", but for what batch 2 wrote since" if since else "")]


def test_markers_tell_what_a_plan_in_flight_has_written() -> None:
    mine = Marker(6, PLAN.hash, last=False, outputs={"t[0]": (0, 4, 5), "t[1]": (0, 1, 2)})
    of_another = Marker(5, "h5", outputs={"t[2]": (0, 9, 10)})
    assert written_of(PLAN, [mine, None, of_another]) == {"t[0]": 5, "t[1]": 2}
    assert written_of(PLAN, [mine, Marker(6, PLAN.hash, outputs=None)]) is None


def test_outputs_are_named_once() -> None:
    receipts = [outputs(1, 0, 1, 1), outputs(2, 2, 3, 1), outputs(2, 0, 1, 1, "cdc.orders[1]")]
    assert outputs_of(claim(*receipts)) == ["cdc.orders[0]", "cdc.orders[1]"]
