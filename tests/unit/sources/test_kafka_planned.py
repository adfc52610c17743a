"""What is left of a planned range of Kafka topics when it is taken up again, by the policy of gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from databus import Flow, Kafka, KafkaTopics
from databus.core.errors import OffsetPurgedError, SourceUnavailableError
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.state.plan import LostRange
from databus.kafka.cluster import Place
from databus.sources.kafka.gaps import KafkaGaps
from databus.sources.kafka.positions import LogState, PartitionGap
from databus.sources.kafka.ranges import stretches_of

IDS = {"t": "id-t", "u": "id-u"}
START = KafkaOffsets({"t": {0: 10, 1: 10, 2: 5}}, {"t": "id-t"}, {"t": {0: 3, 1: 3}}, passed=True)
END = KafkaOffsets({"t": {0: 20, 1: 30, 2: 5}, "u": {0: 4}}, IDS)
PLANNED = OffsetRange(START, END)


class Cluster:
    where = "east (a:1)"

    def written(self, places: list[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 0)


def state(earliest: dict[Place, int] | None = None, ids: dict[str, str] = IDS, **partitions: int) -> LogState:
    """Return logs of so many partitions that end at 50, and begin at 0 or where `earliest` says."""
    places = [(topic, p) for topic in ids for p in range(partitions.get(topic, {"t": 3, "u": 1}[topic]))]
    return LogState(
        ids, {p: (earliest or {}).get(p, 0) for p in places}, dict.fromkeys(places, 50), dict.fromkeys(places, 4)
    )


def lost(logs: LogState, policy: str = "earliest", *, view: bool = False) -> LostRange | None:
    spec = KafkaTopics(conn_id="east", topics=("t", "u"), on_gap=policy)  # type: ignore[arg-type] # parametrized
    found = KafkaGaps(spec, cast("Any", Cluster()), "orders")
    return found.lost_of(PLANNED, stretches_of(START, END), logs, passes=policy != "fail", view=view)


def test_a_whole_range_has_lost_nothing() -> None:
    assert lost(state(), "fail") is None
    assert lost(state({("t", 0): 10, ("t", 2): 40})) is None  # it moves nothing of t[2]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_what_retention_left_is_read(policy: str) -> None:
    found = lost(state({("t", 0): 13, ("t", 1): 44, ("u", 0): 1}), policy)
    assert found is not None
    begin = found.range.end
    assert isinstance(begin, KafkaOffsets)
    assert found.range.start == START
    assert begin.positions == {"t": {0: 13, 1: 30, 2: 5}, "u": {0: 1}}
    assert (begin.epochs, begin.passed) == ({}, False)  # epochs are of the places that are gone
    assert f"on_gap={policy}: t[0]: records 10 to 12 were deleted (retention); t[1]: records 10 to 43" in found.why
    assert [(s.topic, s.partition, s.begin, s.end) for s in stretches_of(begin, END)] == [
        ("t", 0, 13, 20),
        ("u", 0, 1, 4),
    ]
    assert lost(state({("t", 0): 13}), policy, view=True) is not None


ANEW = {"t": "id-new", "u": "id-u"}
CASES = {
    "made anew": (state(ids=ANEW), "t[0]: the topic was made anew", {0: 20, 1: 30}),
    "made anew with fewer partitions": (state(ids=ANEW, t=1), "t[1]: the topic was made anew", {0: 20, 1: 30}),
    "made anew without any partition of the range": (state(ids=ANEW, t=0), "t[0]: the topic was made", {0: 20, 1: 30}),
    "deleted": (state(ids={"u": "id-u"}), "t[1]: the topic is gone", {0: 20, 1: 30}),
    "cut back": (
        replace(state(), ends={**state().ends, ("t", 0): 7}),
        "t[0]: the log was cut back to 7",
        {0: 20, 1: 10},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_of_a_log_that_was_replaced_nothing_is_read(case: str) -> None:
    logs, text, expected = CASES[case]
    found = lost(logs)
    assert found is not None
    assert isinstance(found.range.end, KafkaOffsets)
    assert found.range.end.positions["t"] == {**expected, 2: 5}
    assert text in found.why
    for policy, view in (("fail", False), ("earliest", True)):
        with pytest.raises(OffsetPurgedError, match="of the planned range") as refused:
            lost(logs, policy, view=view)
        assert text in refused.value.message
        assert "skip orders --past-gap" in refused.value.hint
        assert "retention.ms" not in refused.value.hint
        missing = refused.value.missing
        assert (missing is None) == (case == "deleted")


def test_what_retention_took_is_to_be_kept_longer() -> None:
    with pytest.raises(OffsetPurgedError) as refused:
        lost(state({("t", 0): 13}), "fail")
    assert "Raise retention.ms" in refused.value.hint


def test_the_gap_of_a_topic_made_anew_with_fewer_partitions_counts_each_once() -> None:
    with pytest.raises(OffsetPurgedError) as refused:
        lost(state(ids=ANEW, t=1), "fail")
    assert refused.value.missing is not None
    end = refused.value.missing.end
    assert isinstance(end, KafkaOffsets)
    assert end.generations == {"t": {0: 1, 1: 1, 2: 1}}
    assert end.positions == {"t": {0: 0, 1: 0, 2: 0}}


def test_a_partition_without_an_answer_is_asked_for_again() -> None:
    with pytest.raises(SourceUnavailableError, match=r"t\[1\] of the planned range is not there") as away:
        lost(state(t=1))
    assert away.value.retryable


def test_a_plan_in_flight_is_finished_under_another_policy_of_gaps_and_no_other_setting() -> None:
    source = KafkaTopics(conn_id="east", topics=("t",))
    flow = Flow(name="f", source=source, sinks=(Kafka(conn_id="west", topic="o"),))
    made = flow.spec_hash("1")
    for policy in ("fail", "earliest", "latest"):
        willing = flow.model_copy(update={"source": source.model_copy(update={"on_gap": policy})})
        assert willing.takes_up(made, "1")
        assert flow.takes_up(willing.spec_hash("1"), "1")
        assert not willing.takes_up(made, "2")
    other = flow.model_copy(update={"source": source.model_copy(update={"isolation": "read_uncommitted"})})
    assert not other.takes_up(made, "1")


def test_gaps_say_what_happened() -> None:
    assert str(PartitionGap(("t", 1), "topic deleted", 10, 30, 30)).startswith("t[1]: the topic is gone")
