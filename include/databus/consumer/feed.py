"""Records of the partitions that a consumer has: a member of a group, or partitions that it was given."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from databus.consumer.change import Message, Place
from databus.consumer.checkpoints import DatabaseCheckpoint, FileCheckpoint
from databus.consumer.places import known_places, shared_out, start_places
from databus.consumer.progress import UNKNOWN, Progress
from databus.consumer.reading import Reading
from databus.consumer.stored_places import StoredPlaces
from databus.core.errors.consumer import PlaceGoneError
from databus.core.errors.source import SourceSettingError
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.source_errors import source_error

if TYPE_CHECKING:
    from databus.consumer.look_backs import LookBacks

log = logging.getLogger(__name__)

_TAKEN = 500
"""Records taken at once at most."""
_PAUSE_S = 0.005
"""Seconds to wait for changes where a state is read beside them."""
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
_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001


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
        self._stored = StoredPlaces(settings, reading, checkpoint)
        self._owned: dict[Place, Progress] = {}
        self._kept: list[tuple[Message, Progress]] = []
        self._first: set[Place] = set()
        self._begun: dict[Place, int] = {}
        self._failed: Exception | None = None
        self._looked = self._stored_at = self.polled = time.monotonic()
        self.clock = 0.0  # seconds spent on polling: what the caller takes is not waited for
        self._closing = False
        self._looks: LookBacks | None = None
        self._forget_unsaved()
        self._client = self._open()

    @property
    def owned(self) -> Mapping[Place, Progress]:
        """Partitions that the consumer has."""
        return self._owned

    @property
    def at_end(self) -> bool:
        """True where there are partitions, and each was read to its end."""
        looking = self._looks is not None and self._looks.active
        return bool(self._owned) and not self._kept and not looking and all(p.at_end for p in self._owned.values())

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
        if self._looks is not None and self._looks.active:
            taken += self._look_back(self._looks, 0 if taken else seconds)
            seconds = min(seconds, _PAUSE_S)
        else:
            self._close_looks()
        return [*taken, *self._take(0 if taken else seconds)]

    def _look_back(self, looks: LookBacks, seconds: float) -> list[tuple[Message, Progress]]:
        """Return the next rows of states; where one is read, go on with the changes."""
        found, ready, lost = looks.step(seconds)
        for place, why in lost:
            looks.again(place, why)
            self._begin_anew(place)
        for place, offset in ready:
            self._assign_again(place, offset)
        return [(message, progress) for message, progress in found if progress.held]

    def _begin_anew(self, place: Place) -> None:
        """Begin a partition with its state, whatever was read of it."""
        before = self._owned[place]
        before.owned = False
        progress = self._owned[place] = Progress(place, UNKNOWN)
        self._looking().begin(progress)
        self._assign_again(place, OFFSET_END)

    def _assign_again(self, place: Place, offset: int) -> None:
        at = [TopicPartition(*place, offset)]
        try:
            self._client.incremental_unassign(at)
            self._client.incremental_assign(at)
            self._client.pause(at) if offset == OFFSET_END else self._client.resume(at)
        except KafkaException as error:
            raise self._told("change between state and changes", error) from error

    def _looking(self) -> LookBacks:
        if self._looks is None:
            from databus.consumer.look_backs import LookBacks

            assert self._reading.state is not None  # noqa: S101 - the options ask for it
            self._looks = LookBacks(self._settings, self._reading.state, self._reading.client)
        return self._looks

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
        self._stored.store(self._client, self._owned.values())

    def rewind(self) -> None:
        """Go back to the checkpoint in all partitions."""
        self._kept = []
        looking = self._looks is not None and self._looks.active
        if self._failed is not None or looking or not self._seek():
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
            found = self._begin(places)
            if not all(progress.told for progress in self._owned.values()):
                return False  # a state is read again
            for place, offset in found.items():
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
        self._close_looks()
        self._closing = False

    def _close_looks(self) -> None:
        looks, self._looks = self._looks, None
        if looks is not None:
            looks.close()

    def _open(self) -> Consumer:
        reading = self._reading
        group = reading.group or f"databus-reader-{uuid.uuid4().hex}"
        self._reported = self._stored.reported = LastError()
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
            self._close_looks()
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
            if looking := [TopicPartition(*place) for place in found if not self._owned[place].told]:
                self._client.pause(looking)
        except KafkaException as error:
            raise self._told("find the place to begin at", error) from error

    def _begin(self, places: Sequence[Place]) -> dict[Place, int]:
        """Return place → offset: of the checkpoint, else of where reading began before, else of `start`.

        A partition that was not there as the consumer opened has no record from before `start`: it begins at its
        earliest.
        """
        stored = self._stored.load(self._client, places)
        without = [place for place in places if place not in stored and place not in self._begun]
        timeout_s = self._settings.timeout_s
        first = [place for place in without if place in self._first]
        looking = first if self._reading.start == "state" else []
        first = [] if looking else first
        added = [place for place in without if place not in self._first]
        self._begun |= start_places(self._client, first, self._reading.start, timeout_s)
        self._begun |= start_places(self._client, added, "earliest", timeout_s)
        found = {place: stored.get(place, self._begun.get(place, OFFSET_BEGINNING)) for place in places}
        found |= dict.fromkeys(looking, OFFSET_END)
        for place, offset in found.items():
            self._owned[place] = Progress(place, offset)
        for place in looking:
            self._looking().begin(self._owned[place])
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            for place in places:
                self._checkpoint.take_up(place)
        chosen = [self._owned[place] for place in without if found[place] >= 0]
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            self._checkpoint.pin({progress.place: progress.delivered for progress in chosen})
        else:
            for progress in chosen:
                progress.stored = UNKNOWN  # else a kill before the first acknowledgement would choose again
            self._stored.store(self._client, chosen)
        return found

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
                self._stored.store(self._client, [self._owned[place] for place in places if place in self._owned])
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
        if self._looks is not None:
            self._looks.drop(place)
        if isinstance(self._checkpoint, DatabaseCheckpoint):
            began = progress.told and progress.last != UNKNOWN
            self._checkpoint.give_up(place, progress.delivered if began else UNKNOWN)

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
        return [(message, progress) for message, progress in found if progress.held]

    def _sort_out(self, messages: Sequence[Any], found: list[tuple[Message, Progress]]) -> None:
        for message in messages:
            place, error = (message.topic(), message.partition()), message.error()
            if error is not None:
                self._note(error, place)
            if self._looks is not None and (error is None or error.code() == KafkaError._PARTITION_EOF):  # noqa: SLF001
                found += self._looks.ends(place, message.offset())
            if error is None and (progress := self._owned.get(place)) is not None:
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
            self._passed_over(place, error)
        elif code == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001
            log.warning("a change took longer than max.poll.interval.ms: the group has given its partitions to others")
        elif code in _ABSENT:
            self._failed = self._absent(place[0] or error.str())
        elif not error.retriable():
            self._failed = self._told("read", error)

    def _passed_over(self, place: Place, error: KafkaError) -> None:
        """Begin with the state where retention has passed a place, or stop."""
        progress = self._owned.get(place)
        if progress is None or (progress.told and self._reading.behind == "stop"):
            self._failed = self._gone(place, error)
            return
        gone = self._gone(place, error).message
        try:
            if not progress.told:
                self._looking().again(place, gone)
            else:
                log.warning("beginning with the state: %s", gone)
            self._begin_anew(place)
        except Exception as failed:  # noqa: BLE001 - raised by the poll that found the place gone
            self._failed = failed

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
