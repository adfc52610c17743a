"""Kafka cluster queries of a source: topics with their ids, and offsets, each in one batched request per broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from databus.core.errors.source import SourceAccessError, SourceUnavailableError
from databus.kafka.client import ClientSettings, LastError, kafka_error
from databus.kafka.groups import ClusterGroups
from databus.kafka.refusals import silent_refusal
from databus.kafka.source_errors import source_error

Place = tuple[str, int]
"""Topic and partition."""

_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # noqa: SLF001 - librdkafka's own: no partition asked for has a leader
    }
)
_AGAIN_S = 0.1
_COMMITTED, _UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class TopicFacts:
    """A topic as the cluster describes it.

    Attributes:
        id: its id; another topic of the same name has another.
        partitions: number of partitions.
    """

    id: str
    partitions: int


@dataclass(frozen=True)
class EpochOffset:
    """An offset of a log, with the leader epoch that goes with it (-1 unknown)."""

    offset: int
    epoch: int = -1


class KafkaCluster:
    """Asks one cluster through an admin client that is opened when first needed; used by one thread."""

    def __init__(self, settings: ClientSettings, isolation: str = "read_committed"):
        self.settings = settings
        self.seen = LastError()
        self._isolation = _COMMITTED if isolation == "read_committed" else _UNCOMMITTED
        self._admin: AdminClient | None = None
        self._id = ""

    @property
    def admin(self) -> AdminClient:
        """The admin client."""
        if self._admin is None:
            self._admin = self.settings.admin(self.seen)
        return self._admin

    @property
    def where(self) -> str:
        """The cluster in words, for errors."""
        return f"{self.settings.conn_id} ({self.settings.servers})"

    @property
    def id(self) -> str:
        """The cluster's id."""
        if not self._id:
            self.topic_names()
        return self._id

    def topic_names(self) -> list[str]:
        """Return the names of all topics that the account may see.

        Raises:
            SourceUnavailableError: no broker answers.
            SourceAccessError: the login is refused.
        """
        doing = "reach the brokers"
        try:
            found = self.admin.list_topics(timeout=self.settings.timeout_s)
        except KafkaException as error:
            self.admin.poll(0)  # a refused login arrives through the error callback, which only poll() serves
            mapped = source_error(self.settings, doing, error, self.seen)
            known = silent_refusal(self.settings.servers, self.settings.values)
            if known is None or not isinstance(mapped, SourceUnavailableError):
                raise mapped from error
            raise SourceAccessError(
                f"{self.where}: cannot {doing}: {known.what}: {known.detail}", hint=known.hint, code=known.code
            ) from error
        self._id = found.cluster_id or self.settings.conn_id
        return [name for name, topic in found.topics.items() if topic.error is None]

    def describe(self, names: Sequence[str], wanted: Callable[[str, bool], bool]) -> dict[str, TopicFacts]:
        """Return topic → facts of those of `names` that are there and that `wanted(name, internal)` accepts."""
        if not names:
            return {}
        futures = self.admin.describe_topics(TopicCollection(list(names)), request_timeout=self.settings.timeout_s)
        found: dict[str, TopicFacts] = {}
        for name, future in futures.items():
            topic = self._result(f"describe topic {name}", future, _UNKNOWN)
            if topic is not None and wanted(name, topic.is_internal):
                found[name] = TopicFacts(str(topic.topic_id), len(topic.partitions))
        return found

    def earliest(self, places: Iterable[Place]) -> dict[Place, EpochOffset]:
        """Return the first offset of each partition; one that is gone meanwhile is left out."""
        return self._offsets("read the first offsets", dict.fromkeys(places, _EARLIEST))

    def ends(self, places: Iterable[Place]) -> dict[Place, EpochOffset]:
        """Return where reading ends now: the last stable offset, or the high watermark for read_uncommitted."""
        return self._offsets("read the last offsets", dict.fromkeys(places, _LATEST))

    def written(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the high watermark of each partition, wherever reading ends."""
        found = self._offsets("read the high watermarks", dict.fromkeys(places, _LATEST), _UNCOMMITTED)
        return {place: edge.offset for place, edge in found.items()}

    def at_time(self, places: Iterable[Place], when_ms: int) -> dict[Place, int | None]:
        """Return the first offset of each partition with a timestamp not before a time; None where there is none."""
        found = self._offsets("look a time up", dict.fromkeys(places, OffsetSpec.for_timestamp(when_ms)))
        return {place: edge.offset if edge.offset >= 0 else None for place, edge in found.items()}

    def committed(self, group: str) -> dict[Place, int]:
        """Return what a consumer group has committed."""
        return ClusterGroups(self.settings).committed([group]).get(group, {})

    def close(self) -> None:
        """Drop the admin client."""
        self._admin = None

    def _offsets(
        self, doing: str, wanted: Mapping[Place, OffsetSpec], isolation: IsolationLevel | None = None
    ) -> dict[Place, EpochOffset]:
        found: dict[Place, EpochOffset] = {}
        left, deadline = dict(wanted), monotonic() + self.settings.timeout_s
        while left:
            futures = self.admin.list_offsets(
                {Partition(*place): spec for place, spec in left.items()},
                isolation_level=self._isolation if isolation is None else isolation,
                request_timeout=self.settings.timeout_s,
            )
            # A partition whose leader is being chosen is asked for again, until the time is up.
            passing = _PASSING if monotonic() < deadline else frozenset[int]()
            for partition, future in futures.items():
                place = partition.topic, partition.partition
                if _code(future) in passing:
                    continue
                del left[place]
                edge = self._result(f"{doing} of {place[0]}[{place[1]}]", future, _UNKNOWN)
                if edge is not None:
                    found[place] = EpochOffset(edge.offset, -1 if edge.leader_epoch is None else edge.leader_epoch)
            if left:
                sleep(_AGAIN_S)
        return found

    def _result(self, doing: str, future: Future[Any], absent: frozenset[int] = frozenset()) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            if kafka_error(error).code() in absent:
                return None
            self.admin.poll(0)
            raise source_error(self.settings, doing, error, self.seen) from error


def _code(future: Future[Any]) -> int | None:
    error = future.exception()
    return kafka_error(error).code() if isinstance(error, KafkaException) else None
