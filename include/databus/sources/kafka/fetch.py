"""Reads exact stretches of partitions: from an offset up to an end, holes in between included."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import is_not, lt
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from databus.core import client_cache as kept
from databus.core.errors.source import OffsetPurgedError, SourceDivergedError, SourceUnavailableError
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.client_settings import merged
from databus.kafka.source_errors import source_error

AT_ONCE = 10_000
"""Records handed on together at most."""

_IS_ERROR = partial(is_not, None)
_TOGETHER_OFFSETS = 50_000
_TOGETHER_PARTITIONS = 256
"""So many partitions with so few offsets are fetched together and held until their turn comes."""

_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # Out of range is for the planner to judge; a reader never moves by itself.
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "queued.max.messages.kbytes": 32_768,
    "fetch.max.bytes": 16_777_216,
}


@dataclass(frozen=True)
class FetchRange:
    """Offsets `begin` (inclusive) to `end` (exclusive) of one partition; `epoch` is the leader epoch known at begin."""

    topic: str
    partition: int
    begin: int
    end: int
    epoch: int = -1

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] {self.begin} to {self.end - 1}"


@dataclass
class _Progress:
    stretch: FetchRange
    next: int
    held: deque[list[Message]] = field(default_factory=deque)
    done: bool = False


@dataclass(frozen=True)
class _OpenConsumer:
    """A consumer, and what it reports in the background."""

    consumer: Consumer
    seen: LastError

    def close(self) -> None:
        self.consumer.close()


class Fetcher:
    """Consumer that reads ranges one after the other; it joins no group and commits nothing.

    In a process that keeps clients (see `databus.core.client_cache`) it is one that read before, and is kept again.
    """

    def __init__(
        self,
        settings: ClientSettings,
        isolation: str,
        extra: Mapping[str, Any],
        stretches: Sequence[FetchRange],
        flow: str,
    ):
        self._settings, self._stretches, self._flow = settings, stretches, flow
        config = merged(_SETTINGS, extra, {"isolation.level": isolation, "group.id": "databus.reader"})
        self._key = ("kafka reader", settings, config)
        found = cast("_OpenConsumer | None", kept.take(self._key))
        self._opened = _opened(settings, config) if found is None else found
        self._consumer, self._seen = self._opened.consumer, self._opened.seen
        self._paused: list[TopicPartition] = []

    def read(self) -> Generator[tuple[FetchRange, list[Message]]]:
        """Yield all messages of all stretches in their order, at most `AT_ONCE` together; the consumer is done then.

        Raises:
            OffsetPurgedError: the log does not hold the offsets any more.
            SourceDivergedError: the log was cut back and written anew since the range was planned.
            SourceUnavailableError: nothing came for `timeout_s`.
        """
        whole = False
        try:
            for group in _groups(self._stretches):
                yield from self._together(group)
            whole = True
        finally:
            if whole:
                kept.give(self._key, self._opened)
            else:
                self._opened.close()

    def _together(self, group: Sequence[FetchRange]) -> Iterator[tuple[FetchRange, list[Message]]]:
        progress = {(s.topic, s.partition): _Progress(s, s.begin) for s in group}
        self._consumer.assign([TopicPartition(s.topic, s.partition, s.begin, leader_epoch=s.epoch) for s in group])
        self._paused.clear()
        order = deque(progress.values())
        deadline = time.monotonic() + self._settings.timeout_s
        while order:
            left = sum(p.stretch.end - p.next for p in progress.values() if not p.done)
            messages = self._consume(min(left, AT_ONCE))
            if messages:
                deadline = time.monotonic() + self._settings.timeout_s
                self._take(messages, progress)
            elif time.monotonic() > deadline:
                waiting = next(p for p in order if not p.done)
                raise SourceUnavailableError(
                    f"{self._settings.conn_id} ({self._settings.servers}): nothing came of {waiting.stretch} "
                    f"behind {waiting.next - 1} for {self._settings.timeout_s:.0f} s"
                )
            while order and (order[0].held or order[0].done):
                first = order[0]
                while first.held:
                    yield first.stretch, first.held.popleft()
                if not first.done:
                    break
                order.popleft()
        self._consumer.resume(self._paused)
        self._consumer.unassign()

    def _consume(self, most: int) -> list[Any]:
        try:
            return list(self._consumer.consume(most, 0.05))
        except KafkaException as error:
            raise source_error(self._settings, "read", error, self._seen) from error

    def _take(self, messages: list[Any], progress: Mapping[tuple[str, int], _Progress]) -> None:
        if len(progress) == 1 and self._take_run(messages, next(iter(progress.values()))):
            return
        fresh: dict[tuple[str, int], list[Any]] = {}
        for message in messages:
            of = progress.get((message.topic(), message.partition()))
            error = message.error()
            if error is not None:
                self._reported(error, of, message.offset())
                continue
            if of is None or of.done:
                continue
            offset = message.offset()
            if offset >= of.stretch.end:
                self._finish(of)
                continue
            if offset < of.next:
                raise SourceDivergedError(f"{of.stretch}: offset {offset} came behind {of.next - 1}")
            of.next = offset + 1
            fresh.setdefault((of.stretch.topic, of.stretch.partition), []).append(message)
            if of.next >= of.stretch.end:
                self._finish(of)
        for place, found in fresh.items():
            progress[place].held.append(found)

    def _take_run(self, messages: list[Any], of: _Progress) -> bool:
        """Take messages that are all of one stretch, and no errors, without a step in Python each; else do nothing."""
        n, stretch = len(messages), of.stretch
        if of.done or any(map(_IS_ERROR, map(Message.error, messages))):
            return False
        if {*map(Message.partition, messages)} != {stretch.partition} or {*map(Message.topic, messages)} != {
            stretch.topic
        }:
            return False
        offsets: list[Any] = list(map(Message.offset, messages))
        if offsets[0] < of.next or not all(map(lt, offsets, offsets[1:])):
            return False
        inside = n if offsets[-1] < stretch.end else bisect_left(offsets, stretch.end)
        if inside:
            of.next = offsets[inside - 1] + 1
            of.held.append(messages[:inside])
        if inside < n or of.next >= stretch.end:
            self._finish(of)
        return True

    def _finish(self, of: _Progress) -> None:
        of.done = True
        # What lies behind the end is not wanted; a stretch alone is over with it.
        self._consumer.pause([TopicPartition(of.stretch.topic, of.stretch.partition)])
        self._paused.append(TopicPartition(of.stretch.topic, of.stretch.partition))

    def _reported(self, error: KafkaError, of: _Progress | None, offset: int) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own codes begin with an underscore
            # Control records and aborted transactions are no messages: only the end shows that they were passed.
            if of is not None and offset >= of.stretch.end:
                self._finish(of)
            return
        where = str(of.stretch) if of else "a partition"
        if code == KafkaError._LOG_TRUNCATION:  # noqa: SLF001
            raise SourceDivergedError(
                f"{self._settings.conn_id}: {where}: the log was cut back and written anew since it was read: "
                f"{error.str()}",
                hint="An unclean leader election replaced records that were read already. "
                f"Skip knowingly: `databus checkpoint skip {self._flow} latest --reason … --execute`, or up to a time "
                "in place of latest.",
            )
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
            raise OffsetPurgedError(
                f"{self._settings.conn_id}: {where}: no longer in the log: {error.str()}",
                hint="The log was deleted between plan and read; the next attempt names the gap.",
                retryable=True,
            )
        mapped = source_error(self._settings, f"read {where}", error, self._seen)
        if not mapped.retryable:
            raise mapped


def _opened(settings: ClientSettings, config: Mapping[str, Any]) -> _OpenConsumer:
    seen = LastError()
    return _OpenConsumer(settings.consumer(config, seen), seen)


def _groups(stretches: Sequence[FetchRange]) -> Iterator[list[FetchRange]]:
    """Cut the list into pieces that are fetched together."""
    group: list[FetchRange] = []
    offsets = 0
    for stretch in stretches:
        size = stretch.end - stretch.begin
        twice = any((s.topic, s.partition) == (stretch.topic, stretch.partition) for s in group[-1:])
        if group and (offsets + size > _TOGETHER_OFFSETS or len(group) >= _TOGETHER_PARTITIONS or twice):
            yield group
            group, offsets = [], 0
        group.append(stretch)
        offsets += size
    if group:
        yield group
