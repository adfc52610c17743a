"""The logs that a Kafka source reads: which topics they are, and where each begins and ends now."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.tables.wanted import TablesNow
from databus.kafka.cluster import KafkaCluster, TopicFacts
from databus.kafka.selection import is_name
from databus.sources.kafka.bounded_view import OffsetBounds
from databus.sources.kafka.positions import LogState
from databus.sources.kafka.ranges import places_of, unread_of
from databus.sources.kafka.rows import tables_of
from databus.sources.kafka.spec import KafkaTopics

_SETTLES_S = 1.0


class KafkaLogs:
    """Asks the cluster anew each time.

    Args:
        spec: says which topics.
        cluster: asked.
        between: what is looked at of them; None for all.
    """

    def __init__(self, spec: KafkaTopics, cluster: KafkaCluster, between: OffsetBounds | None = None):
        self.between = between
        self._spec, self._cluster = spec, cluster
        self._noticed: frozenset[str] = frozenset()
        self._seen: LogState | None = None
        self._former: dict[str, LogState] = {}

    def cut(self, wanted: OffsetRange) -> KafkaLogs:
        """Return the logs as if they held only what lies in a range.

        Raises:
            OffsetPurgedError: a log was replaced between its ends.
        """
        return KafkaLogs(self._spec, self._cluster, OffsetBounds(wanted, self._cluster.where))

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
        if self.between is not None:
            return self.between.cut(state)
        self._remember(state)
        return state

    def whole_state(self, topics: Sequence[str]) -> LogState:
        """Return where each partition of some topics begins and ends, whatever is looked at."""
        return self._state(self._described(topics))

    def tables_now(self) -> TablesNow:
        """Return which topics the flow reads, with the columns that its source gives them.

        A name that is not there is looked for twice: a topic that was just made is not known to every broker at once.
        """
        found = self.topics()
        if any(map(is_name, self._spec.unmatched(found))):
            time.sleep(_SETTLES_S)
            found = self.topics()
        told = {schema.table: schema for schema in reversed(tables_of(self._spec, sorted(found)))}
        captured = tuple(replace(told[topic], schema_id=number) for number, topic in enumerate(sorted(found)))
        names = self._cluster.topic_names()
        known = (*names, *(f"{self._spec.database}.{name}" for name in names))
        return TablesNow(self._cluster.where, captured, known, self._spec.unmatched(found))

    def gone(self, standing: KafkaOffsets | None) -> tuple[str, ...]:
        """Return names and patterns that match no topic, and topics of an offset that are not there any more."""
        found = self.topics()
        self._noticed = frozenset() if standing is None else self._missing(standing, found)
        return tuple(dict.fromkeys((*self._spec.unmatched(found), *sorted(self._noticed))))

    def notices(self, start: KafkaOffsets, state: LogState) -> bool:
        """Return whether topics of an offset were seen to be gone since `gone` was asked; views refuse that by name."""
        return self.between is None and bool(self._missing(start, state.ids) - self._noticed)

    def unread(self, standing: KafkaOffsets) -> dict[str, int]:
        """Return topic → offsets that were left when `state` saw it last, also of topics that are gone since."""
        if self._seen is None:
            return {}
        former = {topic: unread_of(standing, state)[topic] for topic, state in self._former.items()}
        return former | unread_of(standing, self._seen)

    def _remember(self, state: LogState) -> None:
        before = self._seen
        known = self._former | ({topic: before.only(topic) for topic in before.ids} if before is not None else {})
        self._former = {topic: seen for topic, seen in known.items() if _lost(topic, seen, state)}
        self._seen = state.without(self._former)

    def _missing(self, standing: KafkaOffsets, there: Collection[str]) -> frozenset[str]:
        return frozenset(t for t in standing.positions if t not in there and self._spec.wants(t))

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


def _lost(topic: str, before: LogState, state: LogState) -> bool:
    """Return whether a topic is gone or going: in mid-deletion it is listed, but its logs' ends are unknown."""
    if topic not in state.ids:
        return True
    return state.ids[topic] == before.ids[topic] and not before.told(topic) <= state.told(topic)
