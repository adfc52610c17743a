"""Consumer groups of one cluster: which there are, what they have committed, and setting it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from databus.kafka.client import ClientSettings, LastError
from databus.kafka.group_offsets import GroupOffsets, Place
from databus.kafka.source_errors import source_error

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_OPEN_S = 3600.0
"""librdkafka's own time-out of a request, its longest: ours ends first (see `ClusterGroups`)."""


class ClusterGroups:
    """Groups of one cluster, through an admin client that is opened when first needed; used by one thread.

    librdkafka ends the whole process (`rd_kafka_enq_once_del_source_return: Assertion`, its issues 3663 and 4605) where
    a request to a group's coordinator has timed out and the coordinator is found after that, even as the client is
    destroyed. So no request times out there: the wait for it does here, and then its client is destroyed at once, which
    ends what is open in good order.
    """

    def __init__(self, settings: ClientSettings, kept: int = 0):
        """Open nothing yet.

        Args:
            settings: how to reach the cluster.
            kept: clients that are kept open for groups that are asked for again (see `GroupOffsets`), until `close`.
        """
        self._settings, self._seen = settings, LastError()
        self._offsets = GroupOffsets(settings, self._seen, kept)
        self._admin: AdminClient | None = None

    def names(self) -> list[str]:
        """Return the names of all groups."""
        listed = self._answer("list consumer groups", lambda admin: admin.list_consumer_groups(request_timeout=_OPEN_S))
        return sorted(group.group_id for group in listed.valid)

    def committed(self, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
        """Return group → place → next offset, of topics that are there; who has committed none is left out."""
        return self._offsets.of(groups)

    def committed_at(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Return place → next offset of one group, of these places; what it has not committed is left out."""
        return self._offsets.at(group, places)

    def look_again(self) -> None:
        """Let the next `committed` look at every topic, and not those alone where a group was found before."""
        self._offsets.look_again()

    def close(self) -> None:
        """Close what is open; it is opened again when needed."""
        self._offsets.close()
        self._admin = None

    def has_members(self, group: str) -> bool:
        """Return whether somebody reads with this group now: then its offsets are its own."""
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
            self._admin.poll(0)  # a refused login is reported here
            self._admin = None  # nobody else holds it: destroyed now
            silent = KafkaError(KafkaError._TIMED_OUT, f"no answer in {patience_s:.0f} s")  # noqa: SLF001
            raise source_error(self._settings, doing, silent, self._seen) from None
