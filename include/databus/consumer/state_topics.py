"""Topics of a look-back on Kafka: ends, markers, and a reader beside the one of changes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from databus.consumer.change import Message, Place
from databus.consumer.look_back import Ask, Marks, SinkMark, TakenRecords
from databus.consumer.state_topic import StateTopic
from databus.core.errors.consumer import StateTopicError
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

MARKER_TOPIC = "_databus_markers"
"""Topic on which sinks commit their markers; it is `databus.sinks.kafka.markers.MARKER_TOPIC`."""
_TAKEN = 500
"""Records taken at once at most."""
_SOON_S = 5.0
"""Patience with markers that are about to change: they are asked for again."""
_OPEN = frozenset({KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT})  # noqa: SLF001 - librdkafka's own code
_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",  # ends are then those of what is committed, too
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}


class StateTopics:
    """Cluster as a look-back asks it (`look_back.LookBackTopics`). Used by one thread at a time.

    Args:
        settings: how to reach the cluster.
        state: the state topic.
        client: librdkafka settings of the reader that tune it.
    """

    def __init__(self, settings: ClientSettings, state: StateTopic, client: Mapping[str, Any]):
        self._settings, self._state = settings, state
        self._reported = LastError()
        self._markers: dict[str, tuple[Consumer, int]] = {}
        self._inbox: dict[Place, list[Message]] = {}
        self._at_end: set[Place] = set()
        self._gone: set[Place] = set()
        self._checked: dict[str, tuple[str, float]] = {}
        self._client = settings.consumer(
            {**client, **_FIXED, "group.id": f"databus-state-{uuid.uuid4().hex}"}, self._reported
        )

    def ask(self, place: Place) -> Ask:
        """Return what a look-back of a partition is about.

        Raises:
            StateTopicError: there is no state topic beside its topic, or none that will do.
            ConfigError: the topic is not of the template.
            SourceError: the brokers do not answer, or refuse.
        """
        topic, partition = place
        if topic not in self._checked:
            self._checked[topic] = self._check(topic)
        name, tombstones_s = self._checked[topic]
        state = self._state
        return Ask(place, (name, partition), state.changes_sink, state.sink, tombstones_s, state.patience_s)

    def end(self, place: Place) -> int:
        """Return the offset behind what is committed."""
        # The reader's own connection answers one request after the other, and a fetch may wait half a second.
        client, _ = self._of_markers(self._state.changes_sink)
        try:
            high: int = client.get_watermark_offsets(TopicPartition(*place), timeout=self._settings.timeout_s)[1]
        except KafkaException as error:
            raise self._told(f"find the end of {place[0]}:{place[1]}", error) from error
        return high

    def marks(self, sink: str) -> Marks:
        """Return the markers of a sink's slots; empty where there is none, or one is about to change."""
        client, slots = self._of_markers(sink)
        places = [TopicPartition(MARKER_TOPIC, slot) for slot in range(slots)]
        try:
            answers = client.committed(places, min(self._settings.timeout_s, _SOON_S))
            failed = next((each.error for each in answers if each.error is not None), None)
            if failed is not None:
                raise KafkaException(failed)
        except KafkaException as error:
            if error.args[0].code() in _OPEN:
                return ()
            raise self._told(f"read the markers of group {self._state.group(sink)}", error) from error
        return tuple(_mark(each.offset, each.metadata, sink) for each in answers if each.offset >= 0)

    def begin(self, place: Place, offset: int | None) -> None:
        """Begin to read a partition at an offset, None for its first record."""
        self._inbox[place] = []
        self._client.incremental_assign([TopicPartition(*place, OFFSET_BEGINNING if offset is None else offset)])

    def finish(self, place: Place) -> None:
        """Read a partition no more; nothing if it is not read."""
        if self._inbox.pop(place, None) is not None:
            self._client.incremental_unassign([TopicPartition(*place)])
        self._at_end.discard(place)
        self._gone.discard(place)

    def fetch(self, seconds: float) -> None:
        """Take records of all partitions that are read; wait for the first of them.

        Raises:
            SourceError: the brokers refuse.
        """
        first = self._client.poll(seconds)
        messages: Sequence[Any] = () if first is None else (first, *self._client.consume(_TAKEN - 1, 0))
        for message in messages:
            place = (message.topic(), message.partition())
            if (error := message.error()) is not None:
                self._note(error, place)
            elif place in self._inbox:
                self._at_end.discard(place)
                self._inbox[place].append(message)
        if self._reported.access is not None:
            raise self._told("read", self._reported.access)  # librdkafka itself would try for ever

    def taken(self, place: Place) -> TakenRecords:
        """Return what `fetch` took of a partition since the last call."""
        found, self._inbox[place] = self._inbox[place], []
        return TakenRecords(found, place in self._at_end, place in self._gone)

    def close(self) -> None:
        """Close all clients."""
        self._client.close()
        for client, _ in self._markers.values():
            client.close()
        self._markers.clear()

    def _note(self, error: KafkaError, place: Place) -> None:
        if place not in self._inbox:
            return
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            self._at_end.add(place)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._gone.add(place)
        elif not error.retriable():
            raise self._told(f"read {place[0]}:{place[1]}", error)

    def _of_markers(self, sink: str) -> tuple[Consumer, int]:
        """Return the client that reads a sink's markers, and how many slots there may be."""
        if sink in self._markers:
            return self._markers[sink]
        partitions = self._partitions(MARKER_TOPIC)
        if not partitions:
            raise StateTopicError(
                f"{self._settings.conn_id}: there is no topic {MARKER_TOPIC}, so no flow has written to this cluster "
                "exactly once"
            )
        settings = {**_FIXED, "group.id": self._state.group(sink), "retry.backoff.ms": 2, "retry.backoff.max.ms": 20}
        self._markers[sink] = self._settings.consumer(settings, self._reported), partitions
        return self._markers[sink]

    def _partitions(self, topic: str) -> int:
        try:
            return len(self._client.list_topics(topic, timeout=self._settings.timeout_s).topics[topic].partitions)
        except KafkaException as error:
            raise self._told(f"look at topic {topic}", error) from error

    def _check(self, changes: str) -> tuple[str, float]:
        """Return the name of the state topic, and the seconds for which it keeps tombstones at least."""
        topic = self._state.topic_of(changes)
        own, others = self._partitions(topic), self._partitions(changes)
        if not own:
            raise StateTopicError(f"{self._settings.conn_id}: there is no topic {topic}, the state of {changes}")
        if own != others:
            raise StateTopicError(
                f"topic {topic} has {own} partitions, and {changes}, of which it is the state, {others}"
            )
        settings = self._topic_settings(topic)
        if settings["cleanup.policy"] != "compact":
            raise StateTopicError(
                f"topic {topic} has cleanup.policy={settings['cleanup.policy']}: only a topic that is compacted, and "
                "deletes nothing by time or size, keeps the state"
            )
        return topic, int(settings["delete.retention.ms"]) / 1000

    def _topic_settings(self, topic: str) -> dict[str, str]:
        from confluent_kafka.admin import ConfigResource, ResourceType

        admin = self._settings.admin(self._reported)
        try:
            (asked,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            found = asked.result(self._settings.timeout_s)
        except KafkaException as error:
            raise self._told(f"read the settings of topic {topic}", error) from error
        return {name: each.value for name, each in found.items()}

    def _told(self, doing: str, error: KafkaException | KafkaError) -> Exception:
        return source_error(self._settings, doing, error, self._reported)


def _mark(batch: int, metadata: str | None, sink: str) -> SinkMark:
    try:
        told = json.loads(metadata or "")
        whole = bool(told["last"]) and told["state"] == "written"
        end = told.get("end")
        return SinkMark(batch, whole, "" if end is None else json.dumps(end, sort_keys=True))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StateTopicError(
            f"the marker of sink {sink} at batch {batch} cannot be read: {str(metadata)[:100]}"
        ) from None
