"""The writer of one slot: init, read the marker, compare, write rows and marker in one transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException

from databus.core.errors import DatabusError, MarkerDivergedError, SinkError, SinkTransactionHangingError
from databus.core.kept import keeps
from databus.core.plan import Plan
from databus.core.receipts import WriteReceipt
from databus.kafka.callbacks import fatal_error_raised
from databus.rows.columns import views
from databus.sinks.kafka.kept_sessions import keep, kept, take
from databus.sinks.kafka.markers import Marker, MarkerKey, Resume, compare
from databus.sinks.kafka.session import TRANSACTION_TIMEOUT_MS, ProducerSettings, Producing, Session
from databus.sinks.kafka.standing import Standing
from databus.sinks.kafka.taken import Taken
from databus.sinks.kafka.tally import Tally

log = logging.getLogger(__name__)

LONGEST_CHUNK_S = TRANSACTION_TIMEOUT_MS / 1000 / 2
"""A chunk of slow rows ends after this long; a retry goes on by the rows in the marker, wherever chunks were cut."""

_POLL_EVERY = 1000
_COLUMNS = ("partition", "key", "event_id", "ts_ms", "tombstone")


@dataclass(frozen=True)
class KafkaSlotWriter:
    """Writes the slots of one plan, exactly once each for read_committed consumers.

    What keeps zombies out is the compare-and-set on the marker. The transactional.id alone does not, since a zombie
    that calls init_transactions later fences the new holder; it then finds a marker that is not its plan's, and stops.

    Attributes:
        sink: sink name.
        plan: the plan; its batch, hash and `prev` are what the marker is compared with.
        settings: the producers' settings.
        limits: topic → largest record in bytes.
        chunk_rows: input rows in one transaction at most.
    """

    sink: str
    plan: Plan
    settings: ProducerSettings
    limits: Mapping[str, int] = field(default_factory=dict)
    chunk_rows: int = 500_000

    @cached_property
    def standing(self) -> Standing:
        """What looks, before rows are produced and before each commit, whether the plan's topics are still there."""
        return Standing.of(self.plan, self.sink, self.settings.client)

    @property
    def key(self) -> MarkerKey:
        """Where this sink's markers lie."""
        return MarkerKey(self.plan.installation, self.plan.flow, self.sink)

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Write all rows of a slot in the order given; the input is consumed to its end in any case but an error.

        Args:
            rows: batches of the columns that `KafkaSink.encode` makes, sorted by log order, the same at every attempt.
            slot: number of the slot.

        Raises:
            MarkerDivergedError: the marker is neither this plan's nor the one before: nothing was written.
            SinkFencedError: another writer took over; nothing of the open transaction is visible.
            SinkOutputChangedError: a topic of the plan was deleted; nothing of the open transaction is visible.
            SinkUnavailableError: the brokers do not answer; a retry goes on from the marker.
        """
        if session := self._follows(slot):
            taken = Taken(rows)
            try:
                return self._close(session, taken, slot, Resume(False, 0, None))
            except SinkError as error:
                log.info("flow %s: kept producer of slot %s failed, opening another: %s", self.plan.flow, slot, error)
                rows = taken.again()
        session, resume = self._open(slot)
        return self._close(session, rows, slot, resume)

    def _close(self, session: Session, rows: Iterable[pa.RecordBatch], slot: int, resume: Resume) -> WriteReceipt:
        """Do what is left to do in a session whose transaction has begun, and keep it."""
        tally = self.tally()
        try:
            if resume.finished:
                receipt = self._recount(rows, slot, resume, tally)
            else:
                with self.standing.explained():
                    self.standing.require()
                    self._write(session, rows, slot, resume, tally)
                receipt = tally.receipt(slot, self.plan.batch)
        except BaseException:
            session.discard()
            raise
        keep(session)
        return receipt

    def _follows(self, slot: int) -> Session | None:
        """Return the live job's session with a new transaction, if it has just committed the batch before; else None.

        Neither the marker is read nor the coordinator asked, which a small batch would feel. Should the producer have
        been fenced all the same, its transaction fails, and another session begins anew by the marker.
        """
        session = kept(self.key, slot, self.settings) if keeps() else None
        marker = session.committed() if session is not None else None
        prev = self.plan.sinks[self.sink].prev[slot]
        if session is None or marker is None or not (marker.last and marker.batch == prev < self.plan.batch):
            return None
        session = take(self.key, slot, self.settings)
        try:
            session.begin()
        except DatabusError as error:
            log.info("flow %s: kept producer of slot %s is stale: %s", self.plan.flow, slot, error)
            session.discard()
            return None
        session.hurries = True
        return session

    def tally(self) -> Tally:
        """Return the counts of a new attempt."""
        return Tally(self.sink, self.limits)

    def produce(self, session: Producing, batch: pa.RecordBatch, tally: Tally) -> None:
        """Hand a batch to the producer."""
        produce(session, batch, tally)

    def _open(self, slot: int) -> tuple[Session, Resume]:
        """Return a session whose transaction has begun (unless the batch is finished), and what is left to do."""
        session = take(self.key, slot, self.settings)
        try:
            return session, self._begin(session, slot)
        except DatabusError as error:
            session.discard()
            if not session.kept or isinstance(error, MarkerDivergedError):
                raise
            log.info("flow %s: kept producer of slot %s is stale, opening another: %s", self.plan.flow, slot, error)
        session = Session(self.key, slot, self.settings)
        try:
            return session, self._begin(session, slot)
        except BaseException:
            session.discard()
            raise

    def _begin(self, session: Session, slot: int) -> Resume:
        try:
            marker = session.marker()
        except SinkTransactionHangingError as error:
            if session.kept:
                raise  # one that initialises anew tells whether it hangs
            marker = self._without_lost(session, slot, error)
        resume = compare(marker, self.plan, self.sink, slot)
        if not resume.finished:
            probe = Marker(self.plan.batch, self.plan.hash, chunk=resume.chunk, last=False)
            session.begin(probe if session.kept else None)
        return resume

    def _without_lost(self, session: Session, slot: int, error: SinkTransactionHangingError) -> Marker | None:
        """Abort what hangs when it is of this plan, which is then written again, and return the marker before it.

        Raises:
            SinkTransactionHangingError: it is of the batch before, which was confirmed: aborting it would lose rows; or
                see `Session.abort_lost`.
        """
        try:
            compare(session.settled_marker(), self.plan, self.sink, slot)
        except MarkerDivergedError:
            raise error from None
        session.abort_lost(self.plan.sinks[self.sink].partitions, error)
        return session.marker()

    def _recount(self, rows: Iterable[pa.RecordBatch], slot: int, resume: Resume, tally: Tally) -> WriteReceipt:
        """Derive the receipt of what an earlier attempt wrote: counts from the input, offsets from the marker."""
        for batch in rows:
            tally.reports(tally.accept(batch))
        if resume.marker is not None:
            self._restore(resume.marker, slot, tally)
        return tally.receipt(slot, self.plan.batch, duplicate=True)

    def _write(self, session: Session, rows: Iterable[pa.RecordBatch], slot: int, resume: Resume, tally: Tally) -> None:
        """Produce what is not committed yet, chunk by chunk; the last chunk closes the batch, also when it is empty."""
        chunk, room, began = resume.chunk, self.chunk_rows, time.monotonic()
        for batch in self._pending(rows, slot, resume.marker, tally):
            start = 0
            while start < batch.num_rows:
                late = room < self.chunk_rows and time.monotonic() - began > LONGEST_CHUNK_S
                if room == 0 or late:
                    self._commit(session, chunk, tally, last=False)
                    session.begin()
                    chunk, room, began = chunk + 1, self.chunk_rows, time.monotonic()
                piece = batch.slice(start, room)
                self.produce(session, tally.accept(piece), tally)
                start, room = start + piece.num_rows, room - piece.num_rows
        self._commit(session, chunk, tally, last=True)

    def _pending(
        self, rows: Iterable[pa.RecordBatch], slot: int, marker: Marker | None, tally: Tally
    ) -> Iterator[pa.RecordBatch]:
        """Yield the input behind the rows of committed chunks, which are counted and not produced again."""
        skip = marker.done if marker else 0
        for batch in rows:
            done = batch.slice(0, skip)
            skip -= done.num_rows
            if done.num_rows:
                tally.reports(tally.accept(done))
                if marker and not skip:
                    self._restore(marker, slot, tally)
            if done.num_rows < batch.num_rows:
                yield batch.slice(done.num_rows)
        if skip:
            raise self._diverged(slot, marker, tally)

    def _commit(self, session: Session, chunk: int, tally: Tally, *, last: bool) -> None:
        # Acknowledged first: the marker carries the offsets that the brokers gave.
        session.flush()
        self.standing.require()
        plan, end = self.plan, self.plan.range.end
        marker = Marker(plan.batch, plan.hash, "written", chunk, last, tally.done, tally.written, tally.offsets())
        session.commit(replace(marker, end=end.to_json(), at=str(end)))

    def _restore(self, marker: Marker, slot: int, tally: Tally) -> None:
        """Take the offsets of committed chunks from the marker, after checking that the input is still the same.

        Raises:
            MarkerDivergedError: another number of rows or records: the path is not deterministic.
        """
        if (marker.done, marker.written) != (tally.done, tally.written):
            raise self._diverged(slot, marker, tally)
        tally.restore(marker.outputs)

    def _diverged(self, slot: int, marker: Marker | None, tally: Tally) -> MarkerDivergedError:
        stood = f"{marker.done} rows and {marker.written} records" if marker else "nothing"
        return MarkerDivergedError(
            f"flow {self.plan.flow}, sink {self.sink}, slot {slot}: the marker of batch {self.plan.batch} stands at "
            f"{stood}, a retry of the same plan gives {tally.done} rows and {tally.written} records",
            hint="The flow's transforms or the source are not deterministic, or a topic's max.message.bytes changed.",
        )


def produce(session: Producing, batch: pa.RecordBatch, tally: Tally) -> None:
    """Hand a batch to the producer; blocks while its queue is full, which bounds the memory of a slow broker."""
    try:
        with fatal_error_raised():
            _produce(session.producer, batch, tally.reports(batch))
    except KafkaException as error:
        raise session.produce_failed(error) from error


def _produce(producer: Any, batch: pa.RecordBatch, reports: Mapping[int, Callable[..., None]]) -> None:
    columns = [_topics(batch["topic"]), views(batch["value"]), *(batch[name].to_pylist() for name in _COLUMNS)]
    produce, poll = producer.produce, producer.poll
    last_ms, stamp = None, ("ts_ms", "")
    for row, (topic, value, partition, key, event_id, ts_ms, tombstone) in enumerate(zip(*columns, strict=True)):
        if ts_ms != last_ms:
            last_ms, stamp = ts_ms, ("ts_ms", str(ts_ms))
        headers = [("event_id", event_id), stamp]
        while True:
            try:
                # By position (on_delivery, timestamp, headers): names take a tenth of the call.
                produce(topic, value, key, partition, reports.get(row), None, 0, headers)
                if tombstone:
                    value, tombstone = None, False  # noqa: PLW2901 - the record that follows a delete
                    continue
                break
            except BufferError:
                poll(0.1)
        if row % _POLL_EVERY == 0:
            poll(0)


def _topics(column: pa.Array) -> list[str]:
    """Return the column as a list; the few names are made once."""
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    return [names[code] for code in encoded.indices.to_numpy().tolist()]
