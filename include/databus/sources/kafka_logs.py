"""The logs that a Kafka source reads: which topics they are, and where each begins and ends now."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from databus.core.offsets import KafkaOffsets, OffsetRange
from databus.kafka.cluster import KafkaCluster, TopicFacts
from databus.sources.kafka_between import Between
from databus.sources.kafka_positions import LogState
from databus.sources.kafka_ranges import places_of
from databus.sources.kafka_topics import KafkaTopics

log = logging.getLogger(__name__)


class KafkaLogs:
    """Asks the cluster anew each time.

    Args:
        spec: says which topics.
        cluster: asked.
        flow: flow name, for the log.
        between: what is looked at of them; None for all.
    """

    def __init__(self, spec: KafkaTopics, cluster: KafkaCluster, flow: str, between: Between | None = None):
        self.between = between
        self._spec, self._cluster, self._flow = spec, cluster, flow
        self._said_missing: frozenset[str] = frozenset()

    def cut(self, wanted: OffsetRange) -> KafkaLogs:
        """Return the logs as if they held only what lies in a range.

        Raises:
            OffsetPurgedError: a log was replaced between its ends.
        """
        return KafkaLogs(self._spec, self._cluster, self._flow, Between(wanted, self._cluster.where))

    def topics(self) -> dict[str, TopicFacts]:
        """Return the topics that are read."""
        if self.between is not None:
            return self._described(self.between.topics)
        listed = self._cluster.topic_names()
        # A topic that the account may not look at is in no list: one that is named is asked for, and refused by name.
        names = [name for name in dict.fromkeys((*listed, *self._spec.named())) if self._spec.wants(name)]
        return self._cluster.describe(names, lambda name, internal: self._spec.wants(name, internal=internal))

    def state(self, topics: dict[str, TopicFacts] | None = None) -> LogState:
        """Return where each partition begins and ends.

        Args:
            topics: what `topics` has just returned, if it was asked for.

        Raises:
            OffsetPurgedError: a log of the range that is looked at is gone.
        """
        state = self._state(self.topics() if topics is None else topics)
        return state if self.between is None else self.between.cut(state)

    def whole_state(self, topics: Sequence[str]) -> LogState:
        """Return where each partition of some topics begins and ends, whatever is looked at."""
        return self._state(self._described(topics))

    def say_missing(self, start: KafkaOffsets, state: LogState) -> None:
        """Log, once, topics that are read no more because they are not there any more."""
        if self.between is not None:  # refuses it
            return
        missing = frozenset(topic for topic in start.positions if topic not in state.ids and self._spec.wants(topic))
        if missing - self._said_missing:
            log.warning(
                "flow %s: topics %s are not on %s any more; nothing is read of them",
                self._flow,
                ", ".join(sorted(missing)),
                self._spec.conn_id,
            )
        self._said_missing = missing

    def _described(self, topics: Sequence[str]) -> dict[str, TopicFacts]:
        return self._cluster.describe(topics, lambda _name, _internal: True)

    def _state(self, topics: dict[str, TopicFacts]) -> LogState:
        places = places_of(topics)
        ends, earliest = self._cluster.ends(places), self._cluster.earliest(places)
        both = [place for place in places if place in ends and place in earliest]
        return LogState(
            {topic: facts.id for topic, facts in topics.items()},
            {place: earliest[place].offset for place in both},
            {place: max(ends[place].offset, earliest[place].offset) for place in both},
            {place: ends[place].epoch for place in both},
            None if self._spec.raw else {},  # records as they are, as a mirror moves them, have no versions
        )
