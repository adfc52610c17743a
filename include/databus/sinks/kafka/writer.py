"""The writer of one slot: init, read the marker, compare, write rows and marker in one transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.client_cache import keeps
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import MarkerDivergedError, RecordRejectedError, SinkError, SinkTransactionHangingError
from databus.core.positions.offsets import KafkaOffsets
from databus.core.state.plan import Plan
from databus.kafka.client import MISSING, LastError, sink_error
from databus.sinks.kafka.markers import Marker, MarkerKey, Place, Resume, compare
from databus.sinks.kafka.produce import produce
from databus.sinks.kafka.second_reading import RereadableBatches, last_place, rows_until
from databus.sinks.kafka.session import TRANSACTION_TIMEOUT_MS, ProducerSettings, Producing, Session
from databus.sinks.kafka.session_cache import keep, kept, take
from databus.sinks.kafka.tally import MessageTally, too_large
from databus.sinks.kafka.topics.standing import PinnedTopics

log = logging.getLogger(__name__)

LONGEST_CHUNK_S = TRANSACTION_TIMEOUT_MS / 1000 / 2
"""A chunk of slow rows ends after this long; a retry goes on by the rows in the marker, wherever chunks were cut."""


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
        fails: whether a row that is too large stops the batch.
        form: format of keys and values, for those that are held back.
    """

    sink: str
    plan: Plan
    settings: ProducerSettings
    limits: Mapping[str, int] = field(default_factory=dict)
    chunk_rows: int = 500_000
    fails: bool = field(default=False, kw_only=True)
    form: str = field(default="json", kw_only=True)

    @cached_property
    def standing(self) -> PinnedTopics:
        """Topic identity check, before rows are produced and before each commit."""
        return PinnedTopics.of(self.plan, self.sink, self.settings.client)

    @property
    def key(self) -> MarkerKey:
        """Marker key of this sink."""
        return MarkerKey(self.plan.installation, self.plan.flow, self.sink)

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Write all rows of a slot in the order given; the input is consumed to its end in any case but an error.

        Args:
            rows: batches of the columns that `KafkaSink.encode` makes, sorted by log order, the same at every attempt;
                of Kafka topics some may be missing that were there before.
            slot: number of the slot.

        Raises:
            MarkerDivergedError: the marker is neither this plan's nor the one before: nothing was written.
            SinkFencedError: another writer took over; nothing of the open transaction is visible.
            SinkOutputChangedError: a topic of the plan was deleted; nothing of the open transaction is visible.
            SinkUnavailableError: the brokers do not answer; a retry goes on from the marker.
            RecordRejectedError: a row is too large, and is to stop the batch; nothing of its transaction is visible.
        """
        if session := self._follows(slot):
            taken = RereadableBatches(rows)
            try:
                return self._close(session, taken, slot, Resume(False, 0, None))
            except RecordRejectedError:
                raise
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

    def tally(self) -> MessageTally:
        """Return the counts of a new attempt."""
        return MessageTally(self.sink, self.limits, self.form)

    def produce(self, session: Producing, batch: pa.RecordBatch, tally: MessageTally) -> None:
        """Hand a batch to the producer."""
        produce(session, batch, tally)

    def place(self, batch: pa.RecordBatch) -> Place:
        """Return where the last row of a batch stands at the source."""
        return last_place(batch)

    def until(self, batch: pa.RecordBatch, place: Place) -> int:
        """Return how many rows of a batch stand at a place or before it."""
        return rows_until(batch, place)

    @property
    def _may_shrink(self) -> bool:
        """Return whether the source may lose records before a batch is tried again: by compaction and retention."""
        return isinstance(self.plan.range.end, KafkaOffsets)

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
                raise  # one that initialises anew shows whether it hangs
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

    def _recount(self, rows: Iterable[pa.RecordBatch], slot: int, resume: Resume, tally: MessageTally) -> WriteReceipt:
        """Derive the receipt of what an earlier attempt wrote: counts from the input, offsets from the marker."""
        for batch in rows:
            tally.reports(tally.accept(batch))
        if resume.marker is not None:
            self._restore(resume.marker, slot, tally)
        return tally.receipt(slot, self.plan.batch, duplicate=True)

    def _write(
        self, session: Session, rows: Iterable[pa.RecordBatch], slot: int, resume: Resume, tally: MessageTally
    ) -> None:
        """Produce what is not committed yet, chunk by chunk; the last chunk closes the batch, also when it is empty."""
        chunk, room, began, piece = resume.chunk, self.chunk_rows, time.monotonic(), None
        refused: list[RejectedRow] = []
        for batch in self._pending(rows, slot, resume.marker, tally):
            start = 0
            while start < batch.num_rows:
                late = room < self.chunk_rows and time.monotonic() - began > LONGEST_CHUNK_S
                if room == 0 or late:
                    self._require_taken(refused, slot)
                    self._commit(session, chunk, tally, until=piece)
                    session.begin()
                    chunk, room, began = chunk + 1, self.chunk_rows, time.monotonic()
                piece = batch.slice(start, room)
                known = len(tally.rejected)
                fitting = tally.accept(piece)
                refused += tally.rejected[known:]
                self.produce(session, fitting, tally)
                start, room = start + piece.num_rows, room - piece.num_rows
        self._require_taken(refused, slot)
        self._commit(session, chunk, tally)

    def _require_taken(self, refused: Sequence[RejectedRow], slot: int) -> None:
        # What an earlier attempt has committed was judged then; what is open here is aborted.
        if self.fails and refused:
            raise too_large(refused, f"flow {self.plan.flow}, slot {slot}")

    def _pending(
        self, rows: Iterable[pa.RecordBatch], slot: int, marker: Marker | None, tally: MessageTally
    ) -> Iterator[pa.RecordBatch]:
        """Yield the input behind the rows of committed chunks, which are counted and not produced again."""
        for batch in rows:
            known = self._committed(batch, marker, tally) if marker else 0
            if known:
                tally.reports(tally.accept(batch.slice(0, known)))
            if known == batch.num_rows:
                continue
            if marker:
                self._restore(marker, slot, tally)
                marker = None
            yield batch.slice(known)
        if marker:
            self._restore(marker, slot, tally)

    def _committed(self, batch: pa.RecordBatch, marker: Marker, tally: MessageTally) -> int:
        """Return how many rows of a batch committed chunks hold: by their places, of older markers by their number."""
        if marker.place is not None:
            return self.until(batch, marker.place)
        return min(int(batch.num_rows), marker.done - tally.done)

    def _commit(self, session: Session, chunk: int, tally: MessageTally, until: pa.RecordBatch | None = None) -> None:
        """Commit a chunk that ends with the rows `until`, or the last one."""
        # Acknowledged first: the marker carries the offsets that the brokers gave.
        session.flush()
        self._require_topics(tally)
        self.standing.require()
        plan, end, last = self.plan, self.plan.range.end, until is None
        marker = Marker(plan.batch, plan.hash, "written", chunk, last, tally.done, tally.written, tally.offsets())
        place = None if last or not self._may_shrink else self.place(until)
        session.commit(replace(marker, end=end.to_json(), at=str(end), place=place))

    def _require_topics(self, tally: MessageTally) -> None:
        """Name the topic that is not there: the commit would only say that a record failed."""
        for output, error in tally.failed.items():
            if error.code() in MISSING:
                raise sink_error(self.settings.client, f"produce to {output}", error, LastError())

    def _restore(self, marker: Marker, slot: int, tally: MessageTally) -> None:
        """Take the counts and offsets of committed chunks from the marker, after checking them against the input.

        Raises:
            MarkerDivergedError: another number of rows or records, and no log that lost some: the path is not
                deterministic.
        """
        rows, records = marker.done - tally.done, marker.written - tally.written
        shrunk = self._may_shrink and (marker.last or marker.place is not None)
        # A row is one record, two with its tombstone, or none where it is too large.
        if not 0 <= records <= 2 * rows or (rows and not shrunk):
            raise MarkerDivergedError(
                f"flow {self.plan.flow}, sink {self.sink}, slot {slot}: the marker of batch {self.plan.batch} stands "
                f"at {marker.done} rows and {marker.written} records, a retry of the same plan gives {tally.done} rows "
                f"and {tally.written} records",
                hint="The flow's transforms or the source are not deterministic, or a topic's max.message.bytes "
                "changed.",
            )
        tally.go_on_from(marker.done, marker.written, marker.outputs)
