"""Settings of the topic with the producers' state."""

from __future__ import annotations

import pytest

from databus.core.errors import StreamRequestError, StreamStateError
from databus.stream.body import StreamRecord
from databus.stream.topics import Topic, check_state_settings, state_settings

WEEK_MS = 7 * 86_400_000


def test_what_the_service_makes_does() -> None:
    made = state_settings(WEEK_MS, 3)
    assert made["retention.bytes"] == "-1"
    assert int(made["segment.bytes"]) <= 64 * 1024 * 1024
    assert float(made["min.cleanable.dirty.ratio"]) <= 0.1
    check_state_settings("state", made, WEEK_MS)
    check_state_settings("state", {**made, "retention.ms": "-1"}, WEEK_MS)
    check_state_settings("state", {**made, "cleanup.policy": "compact", "retention.ms": "1"}, WEEK_MS)


@pytest.mark.parametrize(
    ("setting", "value"), [("cleanup.policy", "delete"), ("retention.ms", str(WEEK_MS)), ("retention.bytes", "1000")]
)
def test_what_forgets_producers_is_refused_by_name(setting: str, value: str) -> None:
    found = {**state_settings(4 * WEEK_MS, 3), setting: value}
    with pytest.raises(StreamStateError, match=f"topic state has {setting}={value}"):
        check_state_settings("state", found, 4 * WEEK_MS)


def test_a_compacted_topic_takes_keys_alone() -> None:
    records = [StreamRecord(b"x", b"k"), StreamRecord(None, b""), StreamRecord(b"x")]
    Topic("events", 1, 1, 2_000_000).check(records)
    compacted = Topic("events", 1, 1, 2_000_000, compacted=True)
    compacted.check(records[:2])
    with pytest.raises(StreamRequestError, match="record 3 has no key, and topic events is compacted"):
        compacted.check(records)


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, "1"), (2, "1"), (3, "2")])
def test_one_replica_of_three_may_be_away(replicas: int, in_sync: str) -> None:
    assert state_settings(WEEK_MS, replicas)["min.insync.replicas"] == in_sync
