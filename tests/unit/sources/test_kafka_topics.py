"""What a flow may write down of Kafka topics, how batches are shared out, and how gaps are told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import ConfigError
from databus.core.positions.offsets import KafkaOffsets, Ordering
from databus.sources.kafka.positions import (
    JOINED,
    RECREATED,
    RETENTION,
    TRUNCATED,
    LogState,
    advanced,
    behind_gaps,
    gaps,
    shares,
)
from databus.sources.kafka.spec import KafkaTopics


def spec(**options: Any) -> KafkaTopics:
    return KafkaTopics(**{"conn_id": "kafka_east", "topics": ("orders",), **options})


@pytest.mark.parametrize(
    ("options", "topic", "wanted"),
    [
        ({"topics": ("orders", "shop.*")}, "orders", True),
        ({"topics": ("orders", "shop.*")}, "shop.items", True),
        ({"topics": ("orders", "shop.*")}, "orders2", False),
        ({"topics": ("re:shop[.](a|b)",)}, "shop.b", True),
        ({"topics": ("re:shop[.](a|b)",)}, "shop.bb", False),
        ({"topics": ("*",), "exclude_topics": ("*.private",)}, "shop.private", False),
        ({"topics": ("*",)}, "_databus_markers", False),
        ({"topics": ("_databus_markers",)}, "_databus_markers", True),
    ],
)
def test_topics_are_chosen_by_name_and_pattern(options: dict[str, Any], topic: str, *, wanted: bool) -> None:
    assert spec(**options).wants(topic) is wanted


def test_names_and_patterns_without_topics_are_told() -> None:
    read = spec(topics=("orders", "gone", "shop.*", "re:x[0-9]", "left.out"), exclude_topics=("left.*",))
    assert read.unmatched({"orders"}) == ("gone", "shop.*", "re:x[0-9]")
    assert read.unmatched({"orders", "gone", "shop.a", "x1"}) == ()
    assert [read.names_one(pattern) for pattern in read.topics] == [True, True, False, False, True]
    # A mirror's first run makes the topic of its heartbeats.
    assert spec(topics=("heartbeats",), raw=True, identity="offset").unmatched(()) == ()


def test_a_plan_in_flight_is_finished_under_another_on_missing_topic() -> None:
    fails, waits = spec(), spec(on_missing_topic="wait")
    assert "on_missing_topic" not in fails.to_json()
    assert waits.to_json()["on_missing_topic"] == "wait"
    assert fails in waits.alike()
    assert waits in fails.alike()
    assert len(waits.alike()) == 5


def test_internal_topics_are_read_only_by_name() -> None:
    assert not spec(topics=("*",)).wants("__consumer_offsets", internal=True)
    assert spec(topics=("__consumer_offsets",)).wants("__consumer_offsets", internal=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": ("re:(",)}, "not a regular expression"),
        ({"topics": ()}, "topics"),
        ({"start": "newest"}, "is none of latest, earliest"),
        ({"start": "offsets:orders:0"}, "is none of"),
        ({"start": "group:"}, "is none of"),
        ({"consumer": {"group.id": "x"}}, "exactly once rests on it"),
        ({"consumer": {"sasl.password": "x"}}, "belongs into the connection"),
        ({"fields": {"id": "bigint"}}, 'need value_format="json"'),
        ({"fields": {"id": "int"}, "value_format": "json"}, "unknown type 'int'"),
        ({"fields": {"offset": "bigint"}, "value_format": "json"}, "a record's own column"),
        ({"value_format": "avro"}, "avro needs registry_conn_id"),
        ({"registry_conn_id": "reg", "value_format": "json"}, "of no use without a format of avro, json_schema"),
        ({"raw": True, "identity": "offset", "key_format": "avro", "registry_conn_id": "reg"}, "are not decoded"),
        ({"cluster": "a.b"}, "must not hold a dot"),
        ({"on_gap": "skip"}, "on_gap"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        spec(**options)


def test_what_is_done_with_values_that_are_not_of_their_format() -> None:
    assert spec(value_format="json").undecodable() == ()
    assert spec(key_format="bytes", on_undecodable="fail").undecodable() == (("value", "undecodable", "fail"),)
    decoded = spec(value_format="protobuf", registry_conn_id="reg")
    reasons = ("unframed", "schema_unknown", "undecodable")
    assert decoded.undecodable() == tuple(("value", reason, "quarantine") for reason in reasons)
    assert decoded.conn_ids() == (("kafka_east", "kafka"), ("reg", "http|schema_registry"))
    assert decoded.model_copy(update={"on_undecodable": "deliver"}).undecodable() == ()


backlogs = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), st.integers(0, 50), max_size=12)


@given(backlogs, st.integers(1, 120), st.integers(0, 20))
def test_shares_fill_a_batch_and_no_partition_gets_less_than_its_part(
    backlog: dict[tuple[str, int], int], most: int, turn: int
) -> None:
    taken = shares(backlog, most, turn)
    assert sum(taken.values()) == min(most, sum(backlog.values()))
    assert all(0 <= taken[place] <= backlog[place] for place in taken)
    waiting = [place for place, behind in backlog.items() if behind]
    if len(waiting) <= most:
        part = most // max(1, len(waiting))
        assert all(taken[place] >= min(part, backlog[place]) for place in waiting)


def test_with_more_partitions_than_offsets_each_has_its_turn() -> None:
    backlog = {("t", p): 9 for p in range(7)}
    served = {place for turn in range(7) for place in shares(backlog, 2, turn)}
    assert served == backlog.keys()


AFTER = KafkaOffsets({"t": {0: 10, 1: 10}}, {"t": "id-1"}, {"t": {0: 3}})


def state(topic_id: str = "id-1", **of: tuple[int, int]) -> LogState:
    """Return logs by partition number: p0=(earliest, end)."""
    logs = {("t", int(name[1:])): edges for name, edges in of.items()}
    return LogState(
        {"t": topic_id},
        {place: edges[0] for place, edges in logs.items()},
        {place: edges[1] for place, edges in logs.items()},
        dict.fromkeys(logs, 4),
    )


@pytest.mark.parametrize(
    ("logs", "causes", "expected"),
    [
        (state(p0=(0, 10), p1=(10, 20)), [], None),
        (state(p0=(11, 20), p1=(0, 10)), [RETENTION], {0: 11, 1: 10}),
        (state(p0=(0, 9), p1=(0, 10)), [TRUNCATED], {0: 9, 1: 10}),
        (state("id-2", p0=(0, 50), p1=(2, 3)), [RECREATED, RECREATED], {0: 0, 1: 2}),
        (state("id-2", p0=(0, 50)), [RECREATED], {0: 0, 1: 0}),
        (state(p0=(0, 10), p1=(0, 10), p2=(5, 6)), [JOINED], {0: 10, 1: 10, 2: 5}),
        (state(p0=(0, 10), p1=(0, 10), p2=(0, 6)), [], None),
    ],
)
def test_gaps_are_told_apart_and_their_end_lies_behind(
    logs: LogState, causes: list[str], expected: dict[int, int] | None
) -> None:
    found = gaps(AFTER, logs)
    assert [gap.cause for gap in found] == causes
    if expected is not None:
        end = behind_gaps(AFTER, logs, found, "earliest")
        assert end.passed
        assert end.positions == {"t": expected}
        assert end.compare(AFTER) is Ordering.AFTER
        assert gaps(end, logs) == []
        # Going on from there is no gap any more, and the range read next is none.
        assert not advanced(end, logs, {}).passed


def test_a_range_is_followed_by_the_epochs_it_was_planned_with() -> None:
    logs = state(p0=(0, 20), p1=(0, 20))
    end = advanced(AFTER, logs, {("t", 0): 5})
    assert end.positions == {"t": {0: 15, 1: 10}}
    assert end.epochs == {"t": {0: 4, 1: 4}}
