"""Consumer groups of one cluster: which there are, what they have committed, and setting it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Place = tuple[str, int]

_READER = {"enable.auto.commit": False, "isolation.level": "read_uncommitted"}
"""Settings of a client that reads offsets: it does not wait for what an open transaction would commit."""

_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001

_OPEN_S = 3600.0
"""librdkafka's own time-out of a request, its longest: ours ends first (see `ClusterGroups`)."""


class ClusterGroups:
    """Groups of one cluster, through an admin client that is opened when first needed; used by one thread.

    librdkafka ends the whole process (`rd_kafka_enq_once_del_source_return: Assertion`, its issues 3663 and 4605) where
    a request to a group's coordinator has timed out and the coordinator is found after that, even as the client is
    destroyed. So no request times out there: the wait for it does here, and then its client is destroyed at once, which
    ends what is open in good order.
    """

    def __init__(self, settings: ClientSettings):
        self._settings, self._seen = settings, LastError()
        self._admin: AdminClient | None = None

    def names(self) -> list[str]:
        """Return the names of all groups."""
        listed = self._answer("list consumer groups", lambda admin: admin.list_consumer_groups(request_timeout=_OPEN_S))
        return sorted(group.group_id for group in listed.valid)

    def committed(self, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
        """Return group → place → next offset, of topics that are there; groups that have committed none are left out.

        A consumer of the group asks, which never joins it: an admin client's own request (`ListConsumerGroupOffsets`)
        ends the process with SIGSEGV where the coordinator has just moved (librdkafka 2.16: without a group of its own
        the client has nothing that looks for the new one).
        """
        found: dict[str, dict[Place, int]] = {}
        there: list[Place] | None = None  # asked for once: of a large cluster it is much
        for group in groups:
            with closing(self._settings.consumer({**_READER, "group.id": group}, self._seen)) as consumer:
                try:
                    there = self._places(consumer) if there is None else there
                    places = self._committed(consumer, there)
                except KafkaException as error:
                    consumer.poll(0)  # a refused login is told here
                    doing = f"read the offsets of group {group}"
                    raise source_error(self._settings, doing, error, self._seen) from error
            if places:
                found[group] = places
        return found

    def _places(self, consumer: Consumer) -> list[Place]:
        topics = consumer.list_topics(timeout=self._settings.timeout_s).topics.items()
        return [(name, number) for name, topic in topics for number in topic.partitions]

    def _committed(self, consumer: Consumer, there: Sequence[Place]) -> dict[Place, int]:
        every = [TopicPartition(*place) for place in there]
        answers = consumer.committed(every, self._settings.timeout_s) if every else []
        for answer in answers:
            if answer.error is not None and answer.error.code() not in _GONE:
                raise KafkaException(answer.error)
        return {(p.topic, p.partition): p.offset for p in answers if p.error is None and p.offset >= 0}

    def has_members(self, group: str) -> bool:
        """Tell whether somebody reads with this group now: then its offsets are its own."""
        described = self._answer(
            f"describe group {group}",
            lambda admin: admin.describe_consumer_groups([group], request_timeout=_OPEN_S)[group],
        )
        return bool(described.members)

    def commit(self, group: str, places: Mapping[Place, int]) -> None:
        """Set the offsets of a group without members."""
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(*place, offset) for place, offset in places.items()]
        )
        doing = f"set the offsets of group {group}"
        done = self._answer(
            doing, lambda admin: admin.alter_consumer_group_offsets([wanted], request_timeout=_OPEN_S)[group]
        )
        for place in done.topic_partitions:
            if place.error is not None:
                raise source_error(self._settings, doing, place.error, self._seen)

    def _answer(self, doing: str, ask: Callable[[AdminClient], Future[Any]]) -> Any:
        if self._admin is None:
            self._admin = self._settings.admin(self._seen)
        future, patience_s = ask(self._admin), min(self._settings.timeout_s, _OPEN_S / 2)
        try:
            return future.result(patience_s)
        except KafkaException as error:
            self._admin.poll(0)
            raise source_error(self._settings, doing, error, self._seen) from error
        except TimeoutError:
            self._admin.poll(0)  # a refused login is told here
            self._admin = None  # nobody else holds it: destroyed now
            silent = KafkaError(KafkaError._TIMED_OUT, f"no answer in {patience_s:.0f} s")  # noqa: SLF001
            raise source_error(self._settings, doing, silent, self._seen) from None
