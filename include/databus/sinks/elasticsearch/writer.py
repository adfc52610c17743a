"""The slot writer: rows of a batch into bulk requests, of each document the newest row only.

Idempotent without a marker: a document's version comes from its row's place in the log, so writing a batch again, or
after a later one, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from databus.binlog.log.events import HEADER_BYTES
from databus.core.batches.receipts import WriteReceipt
from databus.core.connections import Connection
from databus.core.errors.sink import SinkConflictError, SinkError, SinkSettingError
from databus.core.events import Op
from databus.core.positions.offsets import BinlogOffset, Offset
from databus.rows.versions import RowVersions, versions_of
from databus.sinks.elasticsearch.bulk import Bulk, ItemResult, Outcome, hint_of
from databus.sinks.elasticsearch.clearing import (
    Clearing,
    EmptyingStatement,
    empties,
    ids_meet,
    refused,
    tells_tables,
    untold,
)
from databus.sinks.elasticsearch.client import connect, where
from databus.sinks.elasticsearch.documents import RowWrite, document_id, ids_may_meet, key_names, tombstone
from databus.sinks.elasticsearch.index_names import create_body
from databus.sinks.elasticsearch.index_names import target_of as index_target
from databus.sinks.elasticsearch.indices import Indices
from databus.sinks.elasticsearch.partial_rows import NewerDocuments, cut
from databus.sinks.elasticsearch.refusals import Stopping
from databus.sinks.elasticsearch.spec import Elasticsearch
from databus.sinks.elasticsearch.tally import DocumentTally

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_COLUMNS = (
    "database",
    "table",
    "route",
    "key",
    "log",
    "place",
    "op",
    "document",
    "absent",
    "other_key",
    "statement",
)
STATEMENTS = frozenset({Op.TRUNCATE.value, Op.DDL.value})
"""Operations of rows that are statements; of those that define tables, only a DROP TABLE takes documents away."""

_HEAD_BYTES = 150
"""About what an action's line takes."""


@dataclass(frozen=True)
class ElasticsearchWriter:
    """Writes the rows of one slot; picklable.

    Attributes:
        spec: the sink's spec.
        connection: the resolved connection.
        flow: flow name.
        batch: batch number.
        end: end of the plan's range; its timeline is part of each version.
        again: whether the sink may hold rows from behind the range, as where rows are moved again.
        slots: number of writers of the plan.
        until: how far plans went that were closed before they were committed, beyond the range; None for nowhere.
        stopping: where a row that the server refuses stops the batch.
    """

    spec: Elasticsearch
    connection: Connection
    flow: str
    batch: int
    end: Offset
    again: bool = False
    slots: int = 1
    until: Offset | None = None
    stopping: Stopping = field(default_factory=Stopping)

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:
        """Write all rows of the slot; after a failure the batch can be written again as it is.

        A row that is followed by another of its document is not sent, unless the later one is refused: then the
        document holds the newest row that the server takes.

        Raises:
            SinkBackpressureError: the server turned items away until the retries were used up.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
            SinkSettingError: a row without a key, or without all its columns where the spec wants a stop; a version
                that does not fit, an index that takes no writes.
            SinkConflictError: a document is newer than the end of a batch that is moved for the first time, or nothing
                says which of two of its rows is the newer one.
            RecordRejectedError: the server refused rows, and the batch is to stop at that.
        """
        client = connect(self.connection)
        try:
            spec, place = self.spec, where(self.connection)
            body = create_body(spec.mapping, spec.settings, spec.gc_deletes, soft_deletes=spec.soft_deletes)
            indices = Indices(client, place, body, shared=spec.ids is not None)
            versions = versions_of(self.end, self.until)
            judging = None if self.again else versions
            apart = HEADER_BYTES if isinstance(self.end, BinlogOffset) else 0
            bulk = Bulk(
                client, place, spec.refresh, spec.request_bytes, spec.max_retries, versions=judging, apart=apart
            )
            tally = DocumentTally(spec.sink_name)
            newer = NewerDocuments(client, place) if self.again else None
            clearing = Clearing(client, place, indices, bulk, tally, spec.ids, spec.soft_deletes)
            writes = self._writes(rows, indices, tally, versions)
            for window in windows(writes, spec.request_bytes, judging):
                if isinstance(window, EmptyingStatement):
                    clearing.clear(window)
                else:
                    deliver(window, bulk, tally, newer)
            self.stopping.require_taken(tally.refused, place)
            receipt = tally.receipt(slot, self.batch, bulk.retries)
        finally:
            client.close()
        log.info("flow %s batch %d slot %d: %d documents to %s", self.flow, self.batch, slot, receipt.written, place)
        return receipt

    def _writes(
        self, rows: Iterable[pa.RecordBatch], indices: Indices, tally: DocumentTally, versions: RowVersions
    ) -> Iterator[RowWrite | EmptyingStatement]:
        target_of = lru_cache(maxsize=10_000)(partial(index_target, self.spec, self.flow))
        for batch in rows:
            columns = (batch.column(name).to_pylist() for name in _COLUMNS)
            for number, row in enumerate(zip(*columns, strict=True)):
                database, table, route, raw_key, file, position, op, document, absent, other_key, statement = row
                if op in STATEMENTS:
                    tally.statement(f"{database}.{table}")
                    if table and empties(op, statement):
                        full_name, index, _ = target_of(database, table, route)
                        version = versions.of(file, position)
                        yield self._emptied(
                            EmptyingStatement(index, full_name, version, (file, position), (batch, number))
                        )
                    continue
                full_name, index, prefix = target_of(database, table, route)
                if raw_key is None:
                    raise no_primary_key(self.spec.sink_name, full_name)
                key = raw_key.decode()
                indices.ensure(index, full_name, partial(key_names, key))
                deleted = op == Op.DELETE
                if deleted and self.spec.soft_deletes:
                    document = tombstone(key)
                elif not deleted and document is None:
                    place = _place(full_name, batch, number)
                    raise SinkError(f"{place}: op {op!r} has no after-image to index")
                tally.read(full_name)
                version = versions.of(file, position)
                if version < (emptied := indices.emptied_at(index, full_name)):
                    self._require_expected(versions, (file, position), emptied, _place(full_name, batch, number))
                    tally.over(index)
                    continue
                refusal, moved_to = "", ""
                if absent:
                    moved_to = other_key.decode() if deleted and other_key else ""
                    refusal = cut(self.spec.partial, absent, _place(full_name, batch, number), moved_to)
                yield RowWrite(
                    index,
                    document_id(key, prefix),
                    version,
                    document,
                    full_name,
                    (file, position),
                    (batch, number),
                    refusal=refusal,
                    other=document_id(moved_to, prefix) if moved_to else "",
                )

    def _emptied(self, emptied: EmptyingStatement) -> EmptyingStatement:
        """Return the statement.

        Raises:
            SinkSettingError: the spec wants the flow to stop, or documents do not name their table.
        """
        spec, place = self.spec, where(self.connection)
        if spec.on_truncate == "fail":
            raise refused(emptied, place)
        if not tells_tables(spec.index, spec.ids):
            raise untold(emptied, place)
        if spec.ids == "table_key" and ids_may_meet(emptied.table):
            raise ids_meet(spec.sink_name, emptied.table)
        if self.slots > 1:
            raise SinkError(f"{place}: {emptied}, and the batch has {self.slots} writers, which nothing orders")
        return emptied

    def _require_expected(self, versions: RowVersions, row: tuple[str, int], emptied: int, subject: str) -> None:
        why = "" if self.again else versions.ahead(row, emptied)
        if why:
            raise SinkConflictError(
                f"{where(self.connection)}: {subject}: its table was emptied at version {emptied}, and {why}",
                hint="ZooKeeper was restored from an older copy, or another flow writes to the index.",
            )


def windows(
    writes: Iterable[RowWrite | EmptyingStatement], max_bytes: int, versions: RowVersions | None = None
) -> Iterator[list[RowWrite] | EmptyingStatement]:
    """Cut writes into windows of about `max_bytes`, in which each document stands once, with its newest row.

    A window ends between transactions only: two rows of one document and transaction share a version, so that sending
    the older one alone could turn the document back for a moment when a batch is written again. Rows of a snapshot have
    one place, each of another document: there it may end between any two. A statement that empties a table ends one
    too: it comes behind all rows before it.

    Args:
        writes: in log order; of several logs one follows the other, whatever is newer in them.
        max_bytes: size of a window, a transaction more at most.
        versions: show rows that nothing orders; None where they are not to be refused.

    Raises:
        SinkConflictError: nothing says which of two rows of a document is the newer one.
    """
    newest: dict[tuple[str, str], RowWrite] = {}
    size = 0
    transaction: tuple[str, int] | None = None
    for write in writes:
        if isinstance(write, EmptyingStatement):
            if newest:
                yield list(newest.values())
            newest, size = {}, 0
            yield write
            continue
        if size >= max_bytes and (write.transaction != transaction or write.of_snapshot):
            yield list(newest.values())
            newest, size = {}, 0
        transaction = write.transaction
        place = (write.index, write.id)
        before = newest.pop(place, None)
        if versions is not None and before is not None and versions.unordered(before.transaction, write.transaction):
            raise _unordered(before, write, hint_of(versions))
        newest[place] = write if before is None else _above(before, write)
        size += _HEAD_BYTES + len(write.document or "")
    if newest:
        yield list(newest.values())


def _above(before: RowWrite, write: RowWrite) -> RowWrite:
    """Put a row among the rows of its document, by version, behind its equals; return the newest of them."""
    if write.version >= before.version:
        write.superseded = before
        return write
    above = before
    while above.superseded is not None and above.superseded.version > write.version:
        above = above.superseded
    write.superseded, above.superseded = above.superseded, write
    return before


def _unordered(one: RowWrite, other: RowWrite, hint: str | None) -> SinkConflictError:
    places = " and ".join(f"{write.transaction[0]}:{write.transaction[1]}" for write in (one, other))
    return SinkConflictError(
        f"index {other.index!r}, one key of {other.table}: rows at {places}, and nothing says which is the newer one",
        hint=hint,
    )


def _place(table: str, batch: pa.RecordBatch, number: int) -> str:
    """Return what messages call a row: its table, event id and place, and nothing of its key."""
    event_id, file, position = (batch.column(name)[number].as_py() for name in ("event_id", "log", "place"))
    return f"row {event_id} of {table} at {file}:{position}"


def deliver(window: list[RowWrite], bulk: Bulk, tally: DocumentTally, newer: NewerDocuments | None = None) -> None:
    """Send a window but for held-back rows; where a document's newest row is refused, send the one before it.

    Args:
        window: of each document its newest row.
        bulk: sends.
        tally: counts.
        newer: returns which rows need not be held back; None where all are.
    """
    while window:
        fallback = []
        held, sent = _parted(window, newer)
        for result in chain(held, bulk.send(sent)):
            tally.settled(result)
            if result.outcome is Outcome.REJECTED and result.write.superseded is not None:
                fallback.append(result.write.superseded)
        window = fallback


def _parted(window: list[RowWrite], newer: NewerDocuments | None) -> tuple[list[ItemResult], list[RowWrite]]:
    """Return the ends of rows that are held back or over, and the rows to send."""
    ended, sent = [], [write for write in window if not write.refusal]
    held = [write for write in window if write.refusal]
    over = newer.among(held) if newer is not None else set()
    for number, write in enumerate(held):
        if number not in over:
            ended.append(ItemResult(write, Outcome.REJECTED, write.refusal))
        elif write.other:
            sent.append(write)
        else:
            ended.append(ItemResult(write, Outcome.CONFLICT_NEWER))
    return ended, sent


def no_primary_key(sink: str, table: str) -> SinkSettingError:
    """Return the error for a table whose rows cannot be distinguished."""
    return SinkSettingError(
        f"sink {sink!r}: table {table} has no primary key, so its rows have no document id",
        hint="Leave the table out of the source (exclude_tables) or of this sink's routes; or add a primary key to it, "
        "which helps rows that are logged afterwards: earlier ones are passed with `databus checkpoint skip`.",
        code="sink_no_primary_key",
    )
