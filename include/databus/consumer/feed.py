"""Records of the partitions that a consumer has: a member of a group, or partitions that it was given."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from databus.consumer.change import Message, Place
from databus.consumer.checkpoints import DatabaseCheckpoint, FileCheckpoint
from databus.consumer.places import Start, known_places, shared_out, start_places
from databus.consumer.progress import UNKNOWN, Progress
from databus.core.errors.consumer import PlaceGoneError, StoredPlaceError
from databus.core.errors.source import SourceSettingError
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

log = logging.getLogger(__name__)

_TAKEN = 500
"""Records taken at once at most."""
_LOOK_S = 30.0
"""Seconds between two looks for partitions that were added, where no group does it."""
_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",  # what retention took is told, not passed over
    "enable.partition.eof": True,
    "partition.assignment.strategy": "cooperative-sticky",
    "allow.auto.create.topics": False,
}
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
_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001


@dataclass(frozen=True)
class Reading:
    """Choice of what is read, and how.

    Attributes:
        topics: names, or patterns that begin with `^`.
        group: consumer group; "" for none.
        member: whether the group's members share the partitions; else this consumer takes its share of all.
        start: where partitions without a checkpoint begin.
        share: (number, of how many) of the partitions, without a group's members.
        client: librdkafka settings of the consumer.
    """

    topics: tuple[str, ...]
    group: str = ""
    member: bool = False
    start: Start = "committed"
    share: tuple[int, int] = (0, 1)
    client: Mapping[str, Any] = field(default_factory=dict)


class Feed:
    """Records, in order per partition, and the progress in them; used by one thread at a time.

    Args:
        settings: how to reach the cluster.
        reading: what is read.
        checkpoint: where places are stored; None for the group's offsets (without a group nowhere).
    """

    def __init__(
        self, settings: ClientSettings, reading: Reading, checkpoint: FileCheckpoint | DatabaseCheckpoint | None
    ):
        self._settings, self._reading, self._checkpoint = settings, reading, checkpoint
        self._owned: dict[Place, Progress] = {}
        self._kept: list[tuple[Message, Progress]] = []
        self._first: set[Place] = set()
        self._begun: dict[Place, int] = {}
        self._failed: Exception | None = None
        self._looked = self._stored_at = self.polled = time.monotonic()
        self.clock = 0.0  # seconds spent on polling: what the caller takes is not waited for
        self._closing = False
        self._forget_unsaved()
        self._client = self._open()

    @property
    def owned(self) -> Mapping[Place, Progress]:
        """Partitions that the consumer has."""
        return self._owned

    @property
    def at_end(self) -> bool:
        """True where there are partitions, and each was read to its end."""
        return bool(self._owned) and not self._kept and all(progress.at_end for progress in self._owned.values())

    @property
    def settled(self) -> float:
        """Latest time of the clock at which each partition has been read to its end."""
        return min((progress.ended for progress in self._owned.values()), default=-1.0)

    def poll(self, seconds: float) -> list[tuple[Message, Progress]]:
        """Return the next records with the progress of their partitions; waits for the first of them.

        Raises:
            PlaceGoneError: retention has passed a checkpoint.
            SourceError: the cluster refuses.
        """
        taken, self._kept = self._kept, []
        self._look()
        return [*taken, *self._take(0 if taken else seconds)]

    def keep_alive(self) -> None:
        """Tell the group that this consumer is alive although its caller takes long; what comes is kept for `poll`."""
        self._kept += self._take(0)

    def store_if_due(self, every_s: float) -> None:
        """Store what is acknowledged, unless that was done less than some seconds ago."""
        if time.monotonic() - self._stored_at >= every_s:
            self.store()

    def store(self) -> None:
        """Store what is acknowledged as the checkpoint; on disk, or with the brokers, when it returns.

        Raises:
            StoredPlaceError: it is refused.
            SourceError: the brokers do not answer.
        """
        self._stored_at = time.monotonic()
        self._store(self._owned.values())

    def rewind(self) -> None:
        """Go back to the checkpoint in all partitions."""
        self._kept = []
        if self._failed is not None or not self._seek():
            self._leave()
            self._failed = None
            self._forget_unsaved()
            self._client = self._open()

    def _seek(self) -> bool:
        """Go back in the partitions that the consumer has; return whether Kafka's client lets it."""
        places = list(self._owned)
        for place in places:
            self._drop(place)
        self._forget_unsaved()
        try:
            for place, offset in self._begin(places).items():
                self._client.seek(TopicPartition(*place, offset))
        except KafkaException as error:
            log.info("reading again from the checkpoint with another client: %s", error)
            return False
        return True

    def _forget_unsaved(self) -> None:
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            self._checkpoint.reset()

    def close(self) -> None:
        """Leave the group and close the client; what is acknowledged should be stored before."""
        self._leave()
        if isinstance(self._checkpoint, FileCheckpoint):
            self._checkpoint.close()

    def _leave(self) -> None:
        self._closing = True
        for place in list(self._owned):
            self._drop(place)
        self._client.close()
        self._closing = False

    def _open(self) -> Consumer:
        reading = self._reading
        group = reading.group or f"databus-reader-{uuid.uuid4().hex}"
        self._reported = LastError()
        client = self._settings.consumer({**reading.client, **_FIXED, "group.id": group}, self._reported)
        self._client = client
        try:
            places = self._places()
            self._first = self._first or set(places)
            if reading.member:
                client.subscribe(
                    list(reading.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
                )
            else:
                self._take_up(places)
        except BaseException:
            client.close()
            raise
        return client

    def _places(self) -> list[Place]:
        try:
            places, absent = known_places(self._client, self._reading.topics, self._settings.timeout_s)
        except KafkaException as error:
            raise self._told("list topics", error) from error
        if absent:
            raise self._absent(", ".join(absent))
        return places if self._reading.member else shared_out(places, self._reading.share)

    def _look(self) -> None:
        """Take partitions up that were added; a group's members are given them."""
        if self._reading.member or time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        added = [place for place in self._places() if place not in self._owned]
        if added:
            log.info("reading partitions that were added: %s", ", ".join(f"{t}:{p}" for t, p in added))
            self._take_up(added)

    def _take_up(self, places: Sequence[Place]) -> None:
        """Begin to read partitions."""
        try:
            found = self._begin(places)
            self._client.incremental_assign([TopicPartition(*place, offset) for place, offset in found.items()])
        except KafkaException as error:
            raise self._told("find the place to begin at", error) from error

    def _begin(self, places: Sequence[Place]) -> dict[Place, int]:
        """Return place → offset: of the checkpoint, else of where reading began before, else of `start`.

        A partition that was not there as the consumer opened has no record from before `start`: it begins at its
        earliest.
        """
        stored = self._load(places)
        without = [place for place in places if place not in stored and place not in self._begun]
        timeout_s = self._settings.timeout_s
        first = [place for place in without if place in self._first]
        added = [place for place in without if place not in self._first]
        self._begun |= start_places(self._client, first, self._reading.start, timeout_s)
        self._begun |= start_places(self._client, added, "earliest", timeout_s)
        found = {place: stored.get(place, self._begun.get(place, OFFSET_BEGINNING)) for place in places}
        for place, offset in found.items():
            self._owned[place] = Progress(place, offset)
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            for place in places:
                self._checkpoint.take_up(place)
        chosen = [self._owned[place] for place in without if found[place] >= 0]
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            self._checkpoint.pin({progress.place: progress.delivered for progress in chosen})
        else:
            for progress in chosen:
                progress.stored = UNKNOWN  # else a kill before the first acknowledgement would choose again
            self._store(chosen)
        return found

    def _load(self, places: Sequence[Place]) -> dict[Place, int]:
        if isinstance(self._checkpoint, FileCheckpoint):
            loaded = self._checkpoint.load()
        elif self._checkpoint is not None:
            loaded = self._checkpoint.load_anew()
        elif self._reading.group and places:
            answers = self._client.committed([TopicPartition(*place) for place in places], self._settings.timeout_s)
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
            loaded = {(a.topic, a.partition): a.offset for a in answers if a.offset >= 0}
        else:
            loaded = {}
        return {place: loaded[place] for place in places if place in loaded}

    def _assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        places = [(p.topic, p.partition) for p in partitions]
        log.info("assigned: %s", ", ".join(f"{t}:{p}" for t, p in places) or "nothing")
        try:
            self._take_up(places)
        except Exception as error:  # noqa: BLE001 - raised by the poll that the callback is called from
            self._failed = error

    def _revoked(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        places = [(p.topic, p.partition) for p in partitions]
        log.info("revoked: %s", ", ".join(f"{t}:{p}" for t, p in places))
        try:
            if not self._closing:
                self._store([self._owned[place] for place in places if place in self._owned])
        except Exception as error:  # noqa: BLE001 - what is not stored is repeated by who has it next
            log.warning("places of partitions that are given away are not stored: %s", error)
        for place in places:
            self._drop(place)

    def _lost(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        log.warning("lost: %s", ", ".join(f"{p.topic}:{p.partition}" for p in partitions))
        for partition in partitions:
            self._drop((partition.topic, partition.partition))

    def _drop(self, place: Place) -> None:
        if (progress := self._owned.pop(place, None)) is None:
            return
        progress.owned = False
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            self._checkpoint.give_up(place, UNKNOWN if progress.last == UNKNOWN else progress.delivered)

    def _take(self, seconds: float) -> list[tuple[Message, Progress]]:
        self._raise_failure()
        began = time.monotonic()
        first = self._client.poll(seconds)
        self.polled = time.monotonic()
        self.clock += self.polled - began
        found: list[tuple[Message, Progress]] = []
        if first is not None:
            # Each call may take partitions away and give them back: what it returned belongs to what was there then.
            self._sort_out([first], found)
            # With a time to wait it would wait until it has all that it was asked for.
            self._sort_out(self._client.consume(_TAKEN - 1, 0), found)
        self._raise_failure()
        return [(message, progress) for message, progress in found if progress.owned]

    def _sort_out(self, messages: Sequence[Any], found: list[tuple[Message, Progress]]) -> None:
        for message in messages:
            place = (message.topic(), message.partition())
            if (error := message.error()) is not None:
                self._note(error, place)
            elif (progress := self._owned.get(place)) is not None:
                progress.at_end = False
                found.append((message, progress))

    def _raise_failure(self) -> None:
        if self._failed is None and self._reported.access is not None:
            self._failed = self._told("read", self._reported.access)  # librdkafka itself would try for ever
        if self._failed is not None:
            raise self._failed

    def _note(self, error: KafkaError, place: Place) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if (progress := self._owned.get(place)) is not None:
                progress.at_end, progress.ended = True, self.clock
        elif code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._failed = self._gone(place, error)
        elif code == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001
            log.warning("a change took longer than max.poll.interval.ms: the group has given its partitions to others")
        elif code in _ABSENT:
            self._failed = self._absent(place[0] or error.str())
        elif not error.retriable():
            self._failed = self._told("read", error)

    def _store(self, progresses: Any) -> None:
        due = {p.place: p.acked for p in progresses if p.acked > p.stored}
        if not due or isinstance(self._checkpoint, DatabaseCheckpoint):
            return
        if self._checkpoint is not None:
            self._checkpoint.store(due)
            refused: set[Place] = set()
        elif self._reading.group:
            refused = self._commit(due)
        else:
            return
        for place, offset in due.items():
            if place not in refused and place in self._owned:
                self._owned[place].stored = offset

    def _commit(self, due: Mapping[Place, int]) -> set[Place]:
        """Commit offsets, and return the places that the group does not take now."""
        offsets = [TopicPartition(*place, offset) for place, offset in due.items()]
        try:
            answers = self._client.commit(offsets=offsets, asynchronous=False)
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
        return self._told(f"commit offsets of group {group}", error)

    def _gone(self, place: Place, error: KafkaError) -> PlaceGoneError:
        progress = self._owned.get(place)
        wanted = "its place" if progress is None or progress.read == UNKNOWN else f"offset {progress.read}"
        return PlaceGoneError(f"{place[0]}:{place[1]} no longer has {wanted}: {error.str()}")

    def _absent(self, names: str) -> SourceSettingError:
        return SourceSettingError(
            f"{self._settings.conn_id}: there is no topic {names}",
            hint="Run the flow first, which makes its topics; or correct the name.",
        )

    def _told(self, doing: str, error: KafkaException | KafkaError) -> Exception:
        return source_error(self._settings, doing, error, self._reported)
