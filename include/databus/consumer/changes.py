"""Changes of topics, to be iterated: what a consumer's program begins with."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self

from databus.consumer.change import Change, Message, Place, Transaction
from databus.consumer.checkpoints import DatabaseCheckpoint
from databus.consumer.filters import Filters
from databus.consumer.messages import TransactionMark, read
from databus.consumer.options import ConsumerOptions
from databus.consumer.progress import UNKNOWN, Progress
from databus.consumer.state_rows import change_of
from databus.core.errors.config import ConfigError
from databus.core.errors.consumer import MessageFormatError

if TYPE_CHECKING:
    from databus.consumer.feed import Feed
    from databus.consumer.handlers import Handlers
    from databus.consumer.registered import RegisteredValues
    from databus.consumer.regrouping import Regrouper

log = logging.getLogger(__name__)

_WAIT_S = 0.2
"""Seconds until `stop` is noticed where nothing comes."""
_ALIVE_S = 20.0
"""Seconds of handling changes after which the group is told that this consumer is alive."""


class _DeliveredChange(NamedTuple):
    """Change that the caller has in hand.

    Attributes:
        message: its record.
        progress: of its partition.
        change: the change.
    """

    message: Message
    progress: Progress
    change: Change


@dataclass(eq=False)
class Changes(ConsumerOptions):
    r"""Changes of Kafka topics that a flow writes, in order for each partition, and so for each row's key.

    Iterate over it: a change is acknowledged when the next one is asked for. One that was in hand as the loop was left,
    by `break` or an exception, comes again, to the next loop or the next process. Only committed records are read.

    Consumers of one `group` share the partitions, and its offsets are the checkpoint. Without a group, or with `share`,
    a consumer reads its share of all partitions, whoever else reads them.

    With a `DatabaseCheckpoint` end your transaction, by commit or rollback, before you begin another loop: each loop
    begins at what the database has.

    Its options are those of `ConsumerOptions`.
    """

    def __post_init__(self) -> None:
        self.check()
        self._names = (self.topics,) if isinstance(self.topics, str) else tuple(self.topics)
        self._filters = Filters(self.tables, self.where, self.columns)
        self._registered: RegisteredValues | None = None
        if self.registry:
            from databus.consumer.registered import RegisteredValues

            self._registered = RegisteredValues(self.registry)
        self._feed: Feed | None = None
        self._regrouper: Regrouper | None = None
        self._pending: deque[tuple[Message, Progress]] = deque()
        self._in_hand: _DeliveredChange | None = None
        self._transaction: tuple[Transaction, dict[Progress, int]] | None = None
        self._stopped = threading.Event()
        self._whole_ones: bool | None = None
        self.skipped = 0
        """Records in no known form that were passed over (`unreadable="skip"`)."""
        if isinstance(self.checkpoint, DatabaseCheckpoint):
            self.checkpoint.bind(self._delivered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Change]:
        """Yield changes, for ever or to the end (`until_end`).

        Raises:
            ConsumerError: a record cannot be read, or the checkpoint's place is gone.
            SourceError: the brokers do not answer, or refuse.
        """
        self._begin(whole=False)
        while not self._stopped.is_set():
            for delivered in self._deliverable():
                yield delivered.change
                self._handled(delivered)
            if self._ended():
                break
            self._fill()
        self._store()

    async def __aiter__(self) -> AsyncIterator[Change]:
        """Yield changes as `for` does; a thread waits for records meanwhile."""
        await asyncio.to_thread(self._begin, whole=False)
        while not self._stopped.is_set():
            for delivered in self._deliverable():
                yield delivered.change
                self._handled(delivered)
            if self._ended():
                break
            await asyncio.to_thread(self._fill)
        await asyncio.to_thread(self._store)

    def transactions(
        self,
        patience_s: float = 60.0,
        memory_changes: int = 50_000,
        disk_bytes: int = 4 << 30,
        folder: str | Path | None = None,
    ) -> Iterator[Transaction]:
        """Yield the source's transactions, in the order of the log, put together from all partitions.

        It reads all partitions of the topics and of `transaction_topic`, so it takes neither members of a group nor a
        share; with `group` its offsets are the checkpoint all the same. A transaction is acknowledged as a change is.

        Args:
            patience_s: seconds of waiting for records that are missing, with all partitions read to their ends, after
                which a transaction comes as incomplete; what comes of it later comes as incomplete too.
            memory_changes: changes of open transactions in memory at most; others wait in files.
            disk_bytes: bytes of these files at most.
            folder: where they are made; default the system's folder of temporary files.

        Raises:
            ConfigError: no `transaction_topic`, or a share.
            SpillFullError: open transactions take more disk than they may.
        """
        from databus.consumer.regrouping import Regrouper
        from databus.consumer.spill import SpillRoom

        if not self.transaction_topic or self.share is not None or self.seen is not None or self.state is not None:
            raise ConfigError(
                "transactions() needs transaction_topic, and all partitions (no share); it takes no seen and no state",
                hint='Let the sink write BEGIN and END: Kafka(…, transaction_topic="cdc.transactions").',
            )
        self._begin(whole=True)
        if self._regrouper is None:
            room = SpillRoom(memory_changes, disk_bytes, None if folder is None else Path(folder), self._read_again)
            self._regrouper = Regrouper(patience_s, room)
        while not self._stopped.is_set():
            yield from self._whole(self._regrouper)
            if self._ended():
                break
            self._fill()
        if self._regrouper.waiting:
            log.info("%d transactions are not complete yet, and not acknowledged", self._regrouper.waiting)
        self._store()

    def run(self, handlers: Handlers) -> None:
        """Call handlers for each change, until `stop` or the end.

        Raises:
            Exception: what a handler raised, where its error is not skipped or retried.
        """
        handlers.run(self)

    def ack(self, change: Change | None = None) -> bool:
        """Acknowledge, and store the checkpoint; return whether it is stored.

        It is not while a group moves partitions to other members: who reads them next may be given the change again.
        With a `DatabaseCheckpoint` nothing is stored here, but by its `save`.

        Args:
            change: this one and all before it in its partition; None for all that was delivered.
        """
        if change is None:
            if self._in_hand is not None:
                self._handled(self._in_hand)
            for progress in () if self._feed is None else self._feed.owned.values():
                progress.acknowledge_all()
            self._transaction = None
        else:
            if self._regrouper is not None:
                raise ConfigError("of a transaction all changes are acknowledged: ack() without one of them")
            if self._in_hand is not None and self._in_hand.change is change:
                self._in_hand = None
            change._owner.acknowledge(change)  # noqa: SLF001 - the consumer's own field
            if self.seen is not None:
                self.seen.add(change)
        if self._feed is None:
            return False
        self._feed.store()
        if change is not None:
            return bool(change._owner.is_stored(change))  # noqa: SLF001 - the consumer's own field
        return all(progress.stored >= progress.acked for progress in self._feed.owned.values())

    def rewind(self) -> None:
        """Go back to the stored checkpoint: what was delivered since comes again. Call it after a rollback."""
        self._forget()
        if self.seen is not None:
            self.seen.clear()
        if self._feed is not None:
            self._feed.rewind()

    def stop(self) -> None:
        """End the loop, or the next one, after the change in hand; for other threads and handlers of signals."""
        self._stopped.set()

    def close(self) -> None:
        """Store what is acknowledged, and leave; the next loop begins at the checkpoint. Safe to call twice."""
        feed, self._feed = self._feed, None
        self._forget()
        self._regrouper = self._whole_ones = None
        if feed is not None:
            try:
                feed.store()
            finally:
                feed.close()

    def _begin(self, *, whole: bool) -> None:
        """Open what is not open; what was in hand as the last loop was left comes again.

        Args:
            whole: whether transactions are read.
        """
        if self._whole_ones not in (None, whole):
            raise ConfigError("one consumer reads changes or transactions, not both", hint="Make another, or close it.")
        self._whole_ones = whole
        if self._feed is None:
            self._feed = self._opened(member=bool(self.group) and self.share is None and not whole)
        elif isinstance(self.checkpoint, DatabaseCheckpoint):
            self.rewind()  # the database knows what was handled: the last loop may have been left by a rollback
        if self._in_hand is not None:
            self._pending.appendleft(self._in_hand[:2])
            self._in_hand = None

    def _opened(self, *, member: bool) -> Feed:
        from databus.consumer.feed import Feed
        from databus.consumer.places import client_settings
        from databus.consumer.reading import Reading

        topics = (*self._names, self.transaction_topic) if self.transaction_topic else self._names
        share = self.share or (0, 1)
        reading = Reading(topics, self.group, member, self.start, share, self.client, self.state, self.behind)
        return Feed(client_settings(self.cluster), reading, self.checkpoint)

    def _deliverable(self) -> Iterator[_DeliveredChange]:
        """Yield the changes that were taken; notes that they are delivered, and passes over what is left out.

        A record is let go of once it was read and judged: where that fails, it comes again.
        """
        while self._pending and not self._stopped.is_set():
            message, progress = self._pending[0]
            change = self._read(message, progress) if progress.held else None
            wanted = isinstance(change, Change) and self._filters.wanted(change)
            self._pending.popleft()
            if not progress.held:
                continue
            if not isinstance(change, Change) or not wanted or (self.seen is not None and change in self.seen):
                progress.pass_over(message.offset() + 1)
                continue
            progress.deliver(message.offset())
            change._owner = progress  # noqa: SLF001 - the consumer's own field
            delivered = _DeliveredChange(message, progress, change)
            if self.ack_by == "loop":
                self._in_hand = delivered
            yield delivered

    def _read(self, message: Message, progress: Progress) -> Change | TransactionMark | None:
        try:
            return change_of(message, progress, self._registered)
        except MessageFormatError as error:
            if self.unreadable == "stop":
                raise
            self.skipped += 1
            log.warning("skipped: %s", error)
            return None

    def _handled(self, delivered: _DeliveredChange) -> None:
        if self._in_hand is delivered:
            self._in_hand = None
            delivered.progress.acknowledge_all()
            if self.seen is not None:
                self.seen.add(delivered.change)
        self._keep_alive()

    def _keep_alive(self) -> None:
        if self._feed is not None and monotonic() - self._feed.polled > _ALIVE_S:
            self._feed.keep_alive()
            self._feed.store_if_due(self.commit_every_s)

    def _fill(self) -> None:
        feed = self._feed
        if feed is None:
            return  # closed in the loop
        if self.ack_by == "loop":
            feed.store_if_due(self.commit_every_s)
        self._pending += feed.poll(_WAIT_S)

    def _read_again(self, message: Message) -> Change:
        change = read(message, self._registered)
        assert isinstance(change, Change)  # noqa: S101 - only changes are kept
        self._filters.wanted(change)
        return change

    def _whole(self, regrouper: Regrouper) -> Iterator[Transaction]:
        feed = self._feed
        if feed is None:
            return
        if self._transaction is not None:
            yield from self._given(*self._transaction)
        failed = self._regroup(regrouper, feed)
        for transaction in regrouper.ready(feed.clock, feed.settled):
            behind_it = {p: regrouper.committable(p.place, p.read) for p in feed.owned.values()}
            yield from self._given(transaction, behind_it)
            if self._stopped.is_set():
                return
        for progress in feed.owned.values():
            if progress.read != UNKNOWN:
                progress.pass_over(regrouper.committable(progress.place, progress.read))
        if failed is not None:
            raise failed

    def _regroup(self, regrouper: Regrouper, feed: Feed) -> Exception | None:
        """Take what was read; return what failed at the record that is next then: those before it come out first."""
        while self._pending:
            message, progress = self._pending[0]
            try:
                item = self._read(message, progress)
                wanted = isinstance(item, Change) and self._filters.wanted(item)
            except Exception as error:  # noqa: BLE001 - raised by the caller, which a function of the user's may fail
                return error
            self._pending.popleft()
            progress.read = message.offset() + 1
            if item is not None:
                regrouper.take(item, progress.place, message.offset(), feed.clock, wanted=wanted)
        return None

    def _given(self, transaction: Transaction, behind_it: dict[Progress, int]) -> Iterator[Transaction]:
        for progress, offset in behind_it.items():
            if offset != progress.delivered:
                progress.deliver(offset - 1)
        self._transaction = (transaction, behind_it)
        yield transaction
        if self.ack_by == "loop" and self._transaction is not None:
            for progress, offset in behind_it.items():
                progress.acked = max(progress.acked, offset)
        self._transaction = None

    def _ended(self) -> bool:
        return self._feed is None or (self.until_end and self._feed.at_end and not self._pending)

    def _store(self) -> None:
        self._stopped.clear()
        if self._feed is not None and self.ack_by == "loop":
            self._feed.store()

    def _forget(self) -> None:
        self._pending.clear()
        self._in_hand = self._transaction = None
        if self._regrouper is not None:
            self._regrouper.forget()

    def _delivered(self) -> dict[Place, int]:
        owned = {} if self._feed is None else self._feed.owned
        return {
            place: progress.delivered for place, progress in owned.items() if progress.told and progress.delivered >= 0
        }
