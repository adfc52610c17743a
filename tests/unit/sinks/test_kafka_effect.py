"""What a rewind is said to do to topics: those that are there, and those that are gone."""

from __future__ import annotations

from typing import Any

import pytest

from databus.sinks.kafka.topics.cluster_topics import Topics, effect_of


class Cluster(Topics):
    """A cluster that has the topics a and b."""

    def __init__(self) -> None:
        pass

    def partitions(self) -> dict[str, int]:
        return {"a": 1, "b": 1}

    def configs(self, _kind: Any, names: Any) -> dict[str, dict[str, str]]:
        return {name: {"cleanup.policy": "delete"} for name in names}


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (("a[0]",), "a gets duplicates, "),
        (("a", "a[0]"), "a gets duplicates, "),
        (("a[0]", "b[0]"), "a, b get duplicates, "),
        ((), "its topics get duplicates, "),
        (("gone[0]",), "not there any more, and so without duplicates: gone"),
    ],
)
def test_a_rewind_says_which_topics_get_duplicates(outputs: tuple[str, ...], said: str) -> None:
    assert effect_of("kafka", Cluster(), outputs, back=True).effect.startswith(said)


def test_a_topic_that_is_gone_is_named_beside_those_that_are_there() -> None:
    effect = effect_of("kafka", Cluster(), ("a[0]", "gone[0]"), back=True).effect
    assert effect.startswith("a gets duplicates, ")
    assert effect.endswith("; not there any more, and so without duplicates: gone")
