"""Consumer groups of one cluster: which there are, what they have committed, and setting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

Place = tuple[str, int]


class ClusterGroups:
    """Groups of one cluster; used by one thread."""

    def __init__(self, settings: ClientSettings):
        self._settings, self._seen = settings, LastError()
        self._admin = settings.admin(self._seen)

    def names(self) -> list[str]:
        """Return the names of all groups."""
        listed = self._result("list consumer groups", self._admin.list_consumer_groups(request_timeout=self._timeout))
        return sorted(group.group_id for group in listed.valid)

    def committed(self, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
        """Return group → place → next offset; groups that have committed nothing are left out."""
        found: dict[str, dict[Place, int]] = {}
        for group in groups:
            asked = [ConsumerGroupTopicPartitions(group)]
            futures = self._admin.list_consumer_group_offsets(asked, request_timeout=self._timeout)
            result = self._result(f"read the offsets of group {group}", futures[group])
            places = {(p.topic, p.partition): p.offset for p in result.topic_partitions if p.offset >= 0}
            if places:
                found[group] = places
        return found

    def has_members(self, group: str) -> bool:
        """Tell whether somebody reads with this group now: then its offsets are its own."""
        futures = self._admin.describe_consumer_groups([group], request_timeout=self._timeout)
        return bool(self._result(f"describe group {group}", futures[group]).members)

    def commit(self, group: str, places: Mapping[Place, int]) -> None:
        """Set the offsets of a group without members."""
        asked = ConsumerGroupTopicPartitions(
            group, [TopicPartition(*place, offset) for place, offset in places.items()]
        )
        futures = self._admin.alter_consumer_group_offsets([asked], request_timeout=self._timeout)
        self._result(f"set the offsets of group {group}", futures[group])

    @property
    def _timeout(self) -> float:
        return self._settings.timeout_s

    def _result(self, doing: str, future: Future[Any]) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            self._admin.poll(0)
            raise source_error(self._settings, doing, error, self._seen) from error
