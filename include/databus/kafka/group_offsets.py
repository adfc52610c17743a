"""Offsets that consumer groups have committed, asked for by a consumer of each group that never joins it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

Place = tuple[str, int]

_READER = {"enable.auto.commit": False, "isolation.level": "read_uncommitted"}
"""Settings of a client that reads offsets: it does not wait for what an open transaction would commit."""

_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001


_TOLD = 1_000
"""Events that are taken from a client at most before it is asked."""


class GroupOffsets:
    """Offsets of groups of one cluster; used by one thread.

    An admin client would ask for all groups, and get their own partitions; its request (`ListConsumerGroupOffsets`)
    ends the process with SIGSEGV where the coordinator has just moved: librdkafka 2.16 then has the client's own group
    look for the new one (`rd_kafka_handle_OffsetFetch`), and it has none. A consumer asks for its own group alone, and
    for partitions that it names. So clients are kept from one time to the next, and after a first look at every topic
    a group is asked for the partitions of those that it had offsets in, until `look_again`.

    Args:
        settings: how to reach the cluster.
        seen: what the clients report in the background.
        kept: clients that stay open until `close`, one for a group.
    """

    def __init__(self, settings: ClientSettings, seen: LastError, kept: int = 0):
        self._settings, self._seen, self._kept = settings, seen, kept
        self._open: dict[str, Consumer] = {}
        self._there: Mapping[str, Sequence[int]] | None = None  # topic → partitions: of a large cluster it is much
        self._topics: dict[str, frozenset[str]] = {}

    def look_again(self) -> None:
        """Look at every topic the next time."""
        self._there = None
        self._topics.clear()

    def of(self, groups: Collection[str]) -> dict[str, dict[Place, int]]:
        """Return group → place → next offset, of topics that are there; groups that have committed none are left out.

        Raises:
            SourceError: the cluster, or a group's coordinator, does not answer or refuses.
        """
        found: dict[str, dict[Place, int]] = {}
        for group in groups:
            if self._topics.get(group) == frozenset():
                continue
            with self._client(group) as consumer:
                if self._there is None:
                    listed = consumer.list_topics(timeout=self._settings.timeout_s).topics
                    self._there = {name: sorted(topic.partitions) for name, topic in listed.items()}
                topics = self._topics.get(group, self._there.keys())
                places = self._committed(consumer, [(t, n) for t in topics for n in self._there.get(t, ())])
            self._topics.setdefault(group, frozenset(topic for topic, _ in places))
            if places:
                found[group] = places
        for group in self._open.keys() - set(groups):
            self._open.pop(group).close()
        return found

    def at(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Return place → next offset of one group, of these places; the others and what is not there are left out.

        Raises:
            SourceError: the group's coordinator does not answer or refuses.
        """
        with self._client(group) as consumer:
            return self._committed(consumer, places)

    def close(self) -> None:
        """Close the clients that were kept; safe to call twice."""
        while self._open:
            self._open.popitem()[1].close()

    @contextmanager
    def _client(self, group: str) -> Iterator[Consumer]:
        consumer = self._open.pop(group, None) or self._settings.consumer({**_READER, "group.id": group}, self._seen)
        done = False
        try:
            for _ in range(_TOLD):  # what it has reported since it was used last, which nobody else takes
                if consumer.poll(0) is None:
                    break
            yield consumer
            done = True
        except KafkaException as error:
            consumer.poll(0)  # a refused login is reported here
            raise source_error(self._settings, f"read the offsets of group {group}", error, self._seen) from error
        finally:
            if done and len(self._open) < self._kept:
                self._open[group] = consumer
            else:
                consumer.close()

    def _committed(self, consumer: Consumer, places: Collection[Place]) -> dict[Place, int]:
        asked = [TopicPartition(*place) for place in places]
        answers = consumer.committed(asked, self._settings.timeout_s) if asked else []
        for answer in answers:
            if answer.error is not None and answer.error.code() not in _GONE:
                raise KafkaException(answer.error)
        return {(p.topic, p.partition): p.offset for p in answers if p.error is None and p.offset >= 0}
