"""Stored checkpoint of a consumer, wherever it lies: the group's offsets, a file, the caller's database."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from databus.consumer.change import Place
from databus.consumer.checkpoints import DatabaseCheckpoint, FileCheckpoint
from databus.consumer.progress import Progress
from databus.consumer.reading import Reading
from databus.core.errors.consumer import StoredPlaceError
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

log = logging.getLogger(__name__)

_NOT_NOW = frozenset(
    {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001 - librdkafka's own codes begin with an underscore
        KafkaError._NO_OFFSET,  # noqa: SLF001
    }
)
"""Errors of a commit by a member whose partitions are on their way to others: what was not stored is read again."""


class StoredPlaces:
    """Stored checkpoint; used by one thread at a time.

    Attributes:
        reported: what the consumer's client has reported.

    Args:
        settings: how to reach the cluster.
        reading: what is read.
        checkpoint: where places are stored; None for the group's offsets (without a group nowhere).
    """

    def __init__(
        self, settings: ClientSettings, reading: Reading, checkpoint: FileCheckpoint | DatabaseCheckpoint | None
    ):
        self._settings, self._reading, self._checkpoint = settings, reading, checkpoint
        self.reported = LastError()

    def load(self, client: Consumer, places: Sequence[Place]) -> dict[Place, int]:
        """Return the places of partitions that have one.

        Raises:
            KafkaException: the brokers do not answer.
            StoredPlaceError: they cannot be read.
        """
        if isinstance(self._checkpoint, FileCheckpoint):
            loaded = self._checkpoint.load()
        elif self._checkpoint is not None:
            loaded = self._checkpoint.load_anew()
        elif self._reading.group and places:
            answers = client.committed([TopicPartition(*place) for place in places], self._settings.timeout_s)
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
            loaded = {(a.topic, a.partition): a.offset for a in answers if a.offset >= 0}
        else:
            loaded = {}
        return {place: loaded[place] for place in places if place in loaded}

    def store(self, client: Consumer, progresses: Iterable[Progress]) -> None:
        """Store what is acknowledged and not stored yet.

        Raises:
            StoredPlaceError: it is refused.
            SourceError: the brokers do not answer.
        """
        due = {p.place: p for p in progresses if p.whole and p.acked > p.stored}
        if not due or isinstance(self._checkpoint, DatabaseCheckpoint):
            return
        offsets = {place: progress.acked for place, progress in due.items()}
        if self._checkpoint is not None:
            self._checkpoint.store(offsets)
            refused: set[Place] = set()
        elif self._reading.group:
            refused = self._commit(client, offsets)
        else:
            return
        for place, progress in due.items():
            if place not in refused:
                progress.stored = offsets[place]

    def _commit(self, client: Consumer, due: Mapping[Place, int]) -> set[Place]:
        """Commit offsets, and return the places that the group does not take now."""
        offsets = [TopicPartition(*place, offset) for place, offset in due.items()]
        try:
            answers = client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if self._reading.member and error.args[0].code() in _NOT_NOW:
                log.info("offsets are not committed now: %s", error)
                return set(due)
            raise self._refused(error.args[0]) from error
        for answer in answers or ():
            if answer.error is not None and not (self._reading.member and answer.error.code() in _NOT_NOW):
                raise self._refused(answer.error)
        return {(a.topic, a.partition) for a in answers or () if a.error is not None}

    def _refused(self, error: KafkaError) -> Exception:
        group = self._reading.group
        if not self._reading.member and error.code() in _NOT_NOW:
            return StoredPlaceError(
                f"group {group} has members: its offsets are theirs",
                hint="Stop the programs that read with this group, or take another name.",
            )
        return source_error(self._settings, f"commit offsets of group {group}", error, self.reported)
