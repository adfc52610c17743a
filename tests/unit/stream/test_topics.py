"""Settings of the topic with the producers' state."""

from __future__ import annotations

import pytest

from databus.core.errors import StreamTopicError
from databus.stream.topics import check_state_settings, state_settings

WEEK_MS = 7 * 86_400_000


def test_what_the_service_makes_does() -> None:
    made = state_settings(WEEK_MS)
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
    found = {**state_settings(4 * WEEK_MS), setting: value}
    with pytest.raises(StreamTopicError, match=f"topic state has {setting}={value}"):
        check_state_settings("state", found, 4 * WEEK_MS)
