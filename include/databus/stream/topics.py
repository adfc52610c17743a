"""Topics as the service sees them: partitions, and the settings that decide what it may promise."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from databus.core.errors.source import SourceError
from databus.core.errors.stream import (
    StreamAcksError,
    StreamRequestError,
    StreamStateError,
    StreamTooLargeError,
    StreamTopicError,
)
from databus.kafka.client import ClientSettings, kafka_error
from databus.kafka.cluster import KafkaCluster
from databus.kafka.source_errors import source_error
from databus.stream.body import StreamRecord, too_large

log = logging.getLogger(__name__)

_SEEN_S = 30.0
"""Seconds for which a topic's settings are taken as they were."""
_FAILED_S = 1.0
STATE_REPLICAS = 3
"""Replicas of the producers' state, where there are as many brokers; one may then be lost while writes go on."""
BATCH_BYTES = 1_000_000
"""Bytes of records that the service's producers put into one batch; a larger record is alone in its own."""
_OVERHEAD = 128
"""Bytes that Kafka's format adds to a batch of one record at most, names of headers and keys aside."""


@dataclass(frozen=True)
class Topic:
    """Topic of the cluster.

    Attributes:
        name: its name.
        partitions: number of partitions.
        min_insync: replicas that have a record when it is acknowledged with acks=all (min.insync.replicas).
        message_bytes: the largest batch that the brokers take (max.message.bytes).
        compacted: whether each record needs a key (cleanup.policy).
    """

    name: str
    partitions: int
    min_insync: int
    message_bytes: int
    compacted: bool = False

    def check_acks(self, acks: str) -> bool:
        """Return whether the leader alone has to confirm.

        Args:
            acks: "leader", "all" or the number of replicas that are to have the records.

        Raises:
            StreamRequestError: it is none of these.
            StreamAcksError: the topic makes sure of fewer replicas.
        """
        if acks in ("all", "leader"):
            return acks == "leader"
        if not acks.isascii() or not acks.isdigit() or int(acks) < 1:
            raise StreamRequestError(
                f"acks is {acks[:20]!r}", hint='Take "leader", "all", or a number of replicas from 1 on.'
            )
        if int(acks) > self.min_insync:
            raise StreamAcksError(
                f"acks={acks}, and topic {self.name} makes sure of {self.min_insync} replicas (min.insync.replicas)",
                hint=f"Kafka knows no number for one request: set min.insync.replicas={acks} at the topic (it then "
                "refuses records while fewer are in sync), or ask for fewer.",
            )
        return False

    def check(self, records: Sequence[StreamRecord]) -> None:
        """Refuse records that the brokers would refuse: their limit is for a batch, in which requests stand together.

        Raises:
            StreamTopicError: a partition is not there.
            StreamRequestError: a record of a compacted topic has no key.
            StreamTooLargeError: a record is larger than max.message.bytes allows, or that is less than a batch.
        """
        if self.message_bytes < BATCH_BYTES + _OVERHEAD:
            raise StreamTooLargeError(
                f"topic {self.name} takes batches of {self.message_bytes} bytes (max.message.bytes), the service "
                f"writes batches of up to {BATCH_BYTES}",
                hint=f"Set max.message.bytes of the topic to {BATCH_BYTES + _OVERHEAD} or more.",
            )
        for number, record in enumerate(records, 1):
            if record.partition >= self.partitions:
                raise StreamTopicError(
                    f"record {number} is for partition {record.partition}; topic {self.name} has {self.partitions}",
                    hint="Partitions are numbered from 0. Leave it out to have the key decide.",
                )
            if self.compacted and record.key is None:
                raise StreamRequestError(
                    f"record {number} has no key, and topic {self.name} is compacted: it keeps the last record of each "
                    "key; nothing of the request was written",
                    hint="Give the record a key, or all of them one by ?key=.",
                )
            if record.size + _OVERHEAD + 32 * len(record.headers) > self.message_bytes:
                raise too_large(
                    number, record.size, self.message_bytes, f"topic {self.name}", "max.message.bytes of the topic"
                )


class ServedTopics:
    """Topics of the cluster, each looked at anew after half a minute; calls block, from any thread."""

    def __init__(self, settings: ClientSettings):
        self._settings = settings
        self._cluster = KafkaCluster(settings)
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, Topic]] = {}
        self._failed: tuple[float, SourceError] | None = None

    def known(self, name: str) -> Topic | None:
        """Return a topic that was looked at lately; does not block."""
        at, topic = self._seen.get(name, (0.0, None))
        return topic if topic is not None and time.monotonic() - at < _SEEN_S else None

    def of(self, name: str) -> Topic:
        """Return a topic.

        Raises:
            StreamTopicError: it is not there.
            SourceUnavailableError: no broker answers.
        """
        with self._lock:
            if (known := self.known(name)) is not None:
                return known
            if self._failed is not None and time.monotonic() - self._failed[0] < _FAILED_S:
                raise copy(self._failed[1])  # the next one does not wait for the brokers as long again
            try:
                facts = self._cluster.describe([name], lambda _, internal: not internal).get(name)
                topic = None if facts is None else self._with_settings(name, facts.partitions)
            except SourceError as error:
                self._failed = time.monotonic(), error
                raise
            if topic is None:
                self._seen.pop(name, None)
                raise StreamTopicError(f"there is no topic {name}")
            self._seen[name] = time.monotonic(), topic
            return topic

    def make_state(self, name: str, lanes: int, idle_s: float) -> None:
        """Create the compacted topic of the producers' state, where it is not there: three replicas on three brokers.

        Raises:
            StreamStateError: it is there with another number of partitions, or forgets what the service knows.
        """
        with self._lock:
            if self._has_state(name, lanes, idle_s):
                return
            replicas = min(STATE_REPLICAS, len(self._metadata().brokers))
            config = state_settings(int(idle_s * 1000), replicas)
            made = self._cluster.admin.create_topics(
                [NewTopic(name, lanes, replicas, config=config)], request_timeout=self._settings.timeout_s
            )[name]
            try:
                made.result()
            except KafkaException as error:
                if kafka_error(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another instance was faster
                    raise source_error(self._settings, f"create topic {name}", error, self._cluster.seen) from error

    def check_state(self, name: str, lanes: int, idle_s: float) -> None:
        """Compare the topic of the producers' state with what the service wants; one that is not there is made later.

        Raises:
            StreamStateError: it does not do.
            SourceError: the cluster does not answer or refuses.
        """
        with self._lock:
            if not self._has_state(name, lanes, idle_s):
                return
            known = self._metadata()
            wanted = min(STATE_REPLICAS, len(known.brokers))
            fewest = min(len(partition.replicas) for partition in known.topics[name].partitions.values())
            if fewest < wanted:
                log.warning(
                    "topic %s has %d replicas on %d brokers: raise them to %d (kafka-reassign-partitions.sh), else "
                    "what producers wrote is forgotten with a lost disk",
                    name, fewest, len(known.brokers), wanted,
                )  # fmt: skip

    def _has_state(self, name: str, lanes: int, idle_s: float) -> bool:
        facts = self._cluster.describe([name], lambda *_: True).get(name)
        if facts is None:
            return False
        if facts.partitions != lanes:
            raise StreamStateError(
                f"topic {name} has {facts.partitions} partitions, and the service {lanes} lanes",
                hint=f"Start it with --lanes {facts.partitions}, or with another --name: its producers begin anew.",
            )
        check_state_settings(name, self._settings_of(name), int(idle_s * 1000))
        return True

    def _metadata(self) -> ClusterMetadata:
        try:
            return self._cluster.admin.list_topics(timeout=self._settings.timeout_s)
        except KafkaException as error:
            raise source_error(self._settings, "list the brokers", error, self._cluster.seen) from error

    def _with_settings(self, name: str, partitions: int) -> Topic:
        found = self._settings_of(name)
        return Topic(
            name,
            partitions,
            int(found["min.insync.replicas"]),
            int(found["max.message.bytes"]),
            "compact" in _policy(found),
        )

    def _settings_of(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        asked = self._cluster.admin.describe_configs([resource], request_timeout=self._settings.timeout_s)[resource]
        try:
            found = asked.result()
        except KafkaException as error:
            raise source_error(self._settings, f"read the settings of {name}", error, self._cluster.seen) from error
        return {setting: entry.value for setting, entry in found.items()}


def check_state_settings(name: str, found: Mapping[str, str], idle_ms: int) -> None:
    """Refuse a topic that would forget producers that are in use.

    Args:
        name: of the topic.
        found: its settings.
        idle_ms: for how long a producer is known that writes nothing.

    Raises:
        StreamStateError: a setting of it does not do; the hint has the one that does.
    """
    policy = _policy(found)
    wanted = {}
    if "compact" not in policy:
        wanted["cleanup.policy"] = "compact"
    if "delete" in policy and 0 <= int(found["retention.ms"]) < idle_ms:
        wanted["retention.ms"] = str(idle_ms)
    if "delete" in policy and int(found["retention.bytes"]) >= 0:
        wanted["retention.bytes"] = "-1"
    for setting, value in wanted.items():
        raise StreamStateError(
            f"topic {name} has {setting}={found[setting]}: it forgets producers that are in use",
            hint=f"Set {setting}={value} at the topic (kafka-configs.sh --alter --entity-type topics).",
        )


def state_settings(idle_ms: int, replicas: int) -> dict[str, str]:
    """Return the settings with which the topic of the producers' state is made."""
    return {
        # One of three may be away; of fewer none is left to wait for.
        "min.insync.replicas": str(max(1, replicas - 1)),
        # What was forgotten leaves the topic too, once its segment was rolled; by its age alone.
        "cleanup.policy": "compact,delete",
        "retention.ms": str(idle_ms),
        "retention.bytes": "-1",
        "segment.ms": str(min(idle_ms, 86_400_000)),
        # Small segments, compacted early: all that is there is read before the first request is answered.
        "segment.bytes": str(64 * 1024 * 1024),
        "min.cleanable.dirty.ratio": "0.1",
    }


def _policy(found: Mapping[str, str]) -> set[str]:
    return {one.strip() for one in found["cleanup.policy"].split(",")}
