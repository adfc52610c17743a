"""Topics of a cluster: creation, partition counts and size limits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from databus.core.errors.sink import SinkAccessError, SinkError, SinkSettingError, SinkUnavailableError
from databus.core.state.amendments import SinkEffect
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error
from databus.kafka.refusals import silent_refusal
from databus.sinks.kafka.topics.names import DEFAULT_MAX_MESSAGE_BYTES

T = TypeVar("T")

DEFAULT_RETENTION_S = 7 * 24 * 3600.0
"""Kafka's default of offsets.retention.minutes, in seconds."""

_KNOWN_S = 1.0
"""Age up to which answers about existing topics are reused: a live flow asks before each of ten batches a second."""

_NO_ID = str(Uuid(0, 0))
_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})

_PATIENCE_S = 2.0
_SOON_S = 1.0
"""A topic that was made shows within this, as a rule."""


class Topics:
    """The topics of one cluster, through an admin client that is opened when first needed."""

    def __init__(self, settings: ClientSettings):
        self.settings = settings
        self.seen = LastError()
        self._admin: AdminClient | None = None
        self._counts: tuple[float, Mapping[str, int]] = (-_KNOWN_S, {})
        self._limits: tuple[float, Mapping[str, int]] = (-_KNOWN_S, {})
        self._ids: dict[str, tuple[float, str | None]] = {}

    @property
    def admin(self) -> AdminClient:
        """The admin client."""
        if self._admin is None:
            self._admin = self.settings.admin(self.seen)
        return self._admin

    def metadata(self, doing: str = "reach the brokers") -> Any:
        """Return the cluster's metadata.

        Raises:
            SinkUnavailableError: no broker answers.
            SinkAccessError: the login is refused.
        """
        deadline = time.monotonic() + self.settings.timeout_s
        while True:
            left = deadline - time.monotonic()
            try:
                found = self.admin.list_topics(timeout=max(min(left, _PATIENCE_S), 0.1))
            except KafkaException as error:
                # A refused login arrives through the error callback, which only poll() serves; the call just waits.
                self.admin.poll(0)
                if self.seen.access is not None or left <= _PATIENCE_S:
                    raise self._unreachable(doing, error) from error
            else:
                self.seen.access = None
                return found

    def partitions(self) -> dict[str, int]:
        """Return topic → partition count of all topics."""
        topics = self.metadata().topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def create(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        """Create a topic, or only ask whether it could be created; one that exists is fine.

        Raises:
            SinkSettingError: the broker refuses; the message says why.
        """
        futures = self.admin.create_topics(
            [topic], validate_only=validate_only, request_timeout=self.settings.timeout_s
        )
        try:
            futures[topic.topic].result()
        except KafkaException as error:
            if kafka_error(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            mapped = self.error(f"create topic {topic.topic}", error)
            if isinstance(mapped, SinkSettingError):
                mapped = SinkSettingError(
                    f"topic cannot be created: {mapped.message}",
                    hint=f"Create {topic.topic} by hand, or change partitions, replication_factor or topic_config.",
                )
            raise mapped from error

    def ensure(self, wanted: Sequence[NewTopic]) -> dict[str, int]:
        """Create what is missing and return topic → partition count of all that were wanted, as of a second ago."""
        known = _fresh(self._counts, [topic.topic for topic in wanted])
        if known is None:
            known = self.partitions()
            missing = [topic for topic in wanted if topic.topic not in known]
            for topic in missing:
                self.create(topic)
            if missing:
                known = self._await({topic.topic: 1 for topic in missing})
            self._counts = (time.monotonic(), known)
        return {topic.topic: known[topic.topic] for topic in wanted}

    def counted(self, names: Sequence[str]) -> dict[str, int]:
        """Return topic → partition count of those that are there, as of a second ago."""
        known = _fresh(self._counts, names)
        if known is None:
            known = self.partitions()
            self._counts = (time.monotonic(), known)
        return {name: known[name] for name in names if name in known}

    def awaited(self, names: Sequence[str]) -> dict[str, int]:
        """Return topic → partition count of topics that are there, once the brokers list all of them.

        Raises:
            SinkSettingError: they do not within the time-out.
        """
        known = self._await(dict.fromkeys(names, 1))
        self._counts = (time.monotonic(), known)
        return {name: known[name] for name in names}

    def grow(self, topic: str, partitions: int) -> None:
        """Raise a topic's partition count."""
        self._counts = (-_KNOWN_S, {})
        futures = self.admin.create_partitions([NewPartitions(topic, partitions)])
        try:
            futures[topic].result()
        except KafkaException as error:
            raise self.error(f"raise the partitions of {topic} to {partitions}", error) from error
        self._await({topic: partitions})

    def configs(self, kind: Any, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return name → setting → value of topics or brokers."""
        found = self.entries(kind, names)
        return {name: {key: entry.value for key, entry in entries.items()} for name, entries in found.items()}

    def entries(self, kind: Any, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return name → setting → `ConfigEntry` of topics or brokers."""
        futures = self.admin.describe_configs([ConfigResource(kind, name) for name in names])
        try:
            return {resource.name: dict(future.result()) for resource, future in futures.items()}
        except KafkaException as error:
            raise self.error(f"read the settings of {', '.join(names)}", error) from error

    def max_message_bytes(self, topics: Sequence[str]) -> dict[str, int]:
        """Return topic → the largest record batch in bytes, as of a second ago.

        It is Kafka's default where settings may not be read.
        """
        known = _fresh(self._limits, topics)
        if known is None:
            try:
                found = self.configs(ConfigResource.Type.TOPIC, topics) if topics else {}
            except SinkAccessError:
                found = {topic: {} for topic in topics}
            known = {topic: int(found[topic].get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES)) for topic in topics}
            self._limits = (time.monotonic(), known)
        return {topic: known[topic] for topic in topics}

    def ids(self, topics: Iterable[str], *, anew: bool = False) -> dict[str, str]:
        """Return topic → id of those that are there, as of a second ago; "" where the brokers give topics no ids.

        Args:
            topics: topics; nothing is made by asking.
            anew: ask the brokers in any case.

        Raises:
            SinkAccessError: a topic may not be looked at; who may write to it may look at it, too.
            SinkUnavailableError: no answer.
        """
        names, known_since = sorted(topics), time.monotonic() - _KNOWN_S
        asked = [name for name in names if anew or self._ids.get(name, (-_KNOWN_S, None))[0] <= known_since]
        if asked:
            futures = self.admin.describe_topics(TopicCollection(asked), request_timeout=self.settings.timeout_s)
            for name, future in futures.items():
                self._ids[name] = (time.monotonic(), self._id(name, future))
        return {name: found for name in names if (found := self._ids[name][1]) is not None}

    def _id(self, name: str, future: Future[Any]) -> str | None:
        try:
            found = str(future.result().topic_id)
        except KafkaException as error:
            if kafka_error(error).code() in _ABSENT:
                return None
            self.admin.poll(0)
            raise self.error(f"look at topic {name}", error) from error
        return "" if found == _NO_ID else found

    def offsets_retention_s(self) -> float:
        """Return for how long the brokers keep the offsets of a group without members."""
        brokers = self.metadata().brokers
        (settings,) = self.configs(ConfigResource.Type.BROKER, [str(min(brokers))]).values()
        minutes = settings.get("offsets.retention.minutes")
        return float(minutes) * 60 if minutes else DEFAULT_RETENTION_S

    def error(self, doing: str, error: KafkaException) -> SinkError:
        """Map a client error."""
        return sink_error(self.settings, doing, error, self.seen)

    def _unreachable(self, doing: str, error: KafkaException) -> SinkError:
        mapped, client = self.error(doing, error), self.settings
        found = silent_refusal(client.servers, client.values) if isinstance(mapped, SinkUnavailableError) else None
        if found is None:
            return mapped
        where = f"{client.conn_id} ({client.servers}): cannot {doing}"
        return SinkAccessError(f"{where}: {found.what}: {found.detail}", hint=found.hint, code=found.code)

    def close(self) -> None:
        """Drop the admin client."""
        self._admin = None

    def _await(self, wanted: Mapping[str, int]) -> dict[str, int]:
        # Creation is answered by the controller before every broker's metadata shows it.
        began = time.monotonic()
        looked = False
        while True:
            known = self.partitions()
            late = [topic for topic, count in wanted.items() if known.get(topic, 0) < count]
            if not late:
                return known
            waited_s = time.monotonic() - began
            if not looked and waited_s > _SOON_S:
                looked = True
                self._refuse_hidden(late)
            if waited_s > self.settings.timeout_s:
                raise SinkSettingError(
                    f"{self.settings.conn_id}: topics {', '.join(late)} do not appear after creation"
                )
            time.sleep(0.05)

    def _refuse_hidden(self, names: Sequence[str]) -> None:
        """Ask for topics that no list shows: one that the account may not look at is there all the same.

        Raises:
            SinkAccessError: one of them is hidden.
        """
        futures = self.admin.describe_topics(TopicCollection(list(names)), request_timeout=self.settings.timeout_s)
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                mapped = self.error(f"look at topic {name}", error)
                if isinstance(mapped, SinkAccessError):
                    raise mapped from error


def _fresh(known: tuple[float, Mapping[str, T]], names: Sequence[str]) -> Mapping[str, T] | None:
    """Return what was learnt a moment ago if it has all these topics, else None."""
    at, found = known
    return found if time.monotonic() - at < _KNOWN_S and all(name in found for name in names) else None


def effect_of(sink: str, topics: Topics, outputs: Sequence[str], *, back: bool) -> SinkEffect:
    """Say what readers of a flow's topics see after a move; a compacted topic is not rewound without consent.

    Args:
        sink: sink name.
        topics: the cluster's topics.
        outputs: "topic[partition]", or the topic's name, of what was written in the range that is passed.
        back: whether the move goes back.
    """
    if not back:
        return SinkEffect(sink, "the rows passed over are never sent; the records of their keys stay as they were")
    known = topics.partitions()
    written = sorted({output.rpartition("[")[0] or output for output in outputs})
    names, gone = [name for name in written if name in known], [name for name in written if name not in known]
    told = []
    if names or not gone:
        who = f"{', '.join(names)} {'gets' if len(names) == 1 else 'get'}" if names else "its topics get"
        told.append(
            f"{who} duplicates, appended behind what is there, with the event ids they had "
            "(header event_id), by which consumers can drop them"
        )
    if gone:
        told.append(f"not there any more, and so without duplicates: {', '.join(gone)}")
    settings = topics.configs(ConfigResource.Type.TOPIC, names) if names else {}
    compacted = [name for name in names if "compact" in settings[name].get("cleanup.policy", "")]
    refused = (
        f"{', '.join(compacted)} is compacted: until the flow has caught up, a key's newest record is an older state"
        if compacted
        else ""
    )
    return SinkEffect(sink, "; ".join(told), refused)
