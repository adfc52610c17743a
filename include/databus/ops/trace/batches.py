"""Batch search: which recorded batches hold a place of the log, a GTID, or an offset of a topic."""

from __future__ import annotations

from collections.abc import Sequence

from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset, Offset, is_foreign
from databus.core.positions.replaced_logs import is_of_former_log
from databus.core.trace import Change, TraceNotRecordedError, chunk_of, log_number, log_of, log_place
from databus.records.batch_record import BatchRecord
from databus.records.provenance import Provenance
from databus.records.ranges import OUTPUT, SEQUENCE, SOURCE


class BatchFinder:
    """Finds batches of one flow.

    Args:
        flow: flow name.
        provenance: the records.
        counted_file: the one log file of a source that counts; "" where its places may be of any.
    """

    def __init__(self, flow: str, provenance: Provenance, counted_file: str = "") -> None:
        self._flow, self._provenance, self._counted_file = flow, provenance, counted_file
        self._stands: Offset | None = None

    def wrote(self, place: str) -> list[BatchRecord]:
        """Return the batches that wrote "topic:partition:offset".

        Raises:
            TraceNotRecordedError: none did.
        """
        topic, partition, offset = place.rsplit(":", 2)
        output = f"{topic}[{partition}]"
        batches = self._provenance.wrote(self._flow, output, int(offset))
        if batches:
            return batches
        raise self.not_written(place)

    def not_written(self, place: str) -> TraceNotRecordedError:
        """Return the error that says what the flow has written instead."""
        topic, partition, _ = place.rsplit(":", 2)
        output = f"{topic}[{partition}]"
        bounds = self._provenance.bounds(self._flow, OUTPUT, output)
        known = f"its recorded batches wrote {bounds[0] + 1} to {bounds[1]}" if bounds else "it never wrote there"
        error = TraceNotRecordedError(
            f"flow {self._flow}: no recorded batch wrote {place}; {known}",
            hint="A control record, another producer's, or a report that is not stored yet: the next run fills it in.",
        )
        error.flow = self._flow
        error.recorded = f"wrote {_records(output, *bounds)}" if bounds else ""
        return error

    def read(self, change: Change) -> list[BatchRecord]:
        """Return the batches that read a change, oldest first: by its place in the log, else by its GTID.

        Where its id is known, only those of the log that this is of: logs that replaced each other have the same places
        and GTIDs. Of a row that a snapshot read, those that took its chunk along: its place is where they begin.
        """
        chunk = chunk_of(change.event_id)
        found = [] if chunk is None else list(self._provenance.delivered(self._flow, *chunk))
        return self._of_its_log(found or self._reading(change, behind=chunk is not None), change)

    def _of_its_log(self, found: Sequence[BatchRecord], change: Change) -> list[BatchRecord]:
        return [b for b in found if not change.event_id or generation_of(b) in (None, log_of(change.event_id))]

    def _reading(self, change: Change, *, behind: bool) -> list[BatchRecord]:
        """Return the batches that read the place of a change, or what lies behind it, or its GTID."""
        found: list[BatchRecord] = []
        number = number_of(change)
        number = number + 1 if behind and number is not None else number
        for stream in self._provenance.streams(self._flow, SOURCE):
            at = number
            if stream == SEQUENCE:
                at = change.position if self._may_hold(change, stream) else None
            elif number is not None and not _is_of(change.file, stream):
                continue
            elif number is None and change.gtid:
                at = self._provenance.first_where(self._flow, stream, lambda end: holds(end, change.gtid))
            if at is None:
                continue
            found += [
                batch
                for batch in self._provenance.read(self._flow, stream, at)
                if number is not None or stream == SEQUENCE or not holds(batch.start, change.gtid)
            ]
        return found

    def is_of_former_log(self, batch: BatchRecord) -> bool:
        """Return whether a batch read a log that another one has replaced, as far as is recorded."""
        if self._stands is None:
            self._stands = self._provenance.stands_at(self._flow)
        return self._stands is not None and is_of_former_log(batch.end, self._stands)

    def not_recorded(self, text: str, change: Change) -> TraceNotRecordedError:
        """Return the error that says what is recorded instead, of a log that may hold the change."""
        stands = self._provenance.stands_at(self._flow)
        if stands is not None and is_foreign(stands):
            foreign = TraceNotRecordedError(
                f"flow {self._flow}: batches of offsets of the kind {stands.kind!r} are not found by a change: their "
                "ranges are recorded as the source's package wrote them",
                hint="Trace a record or document that a sink wrote.",
            )
            foreign.flow = self._flow
            return foreign
        told = []
        streams = self._provenance.streams(self._flow, SOURCE)
        near = [stream for stream in streams if self._may_hold(change, stream)]
        for stream in near or streams:
            after, upto = self._provenance.bounds(self._flow, SOURCE, stream) or (0, 0)
            if stream == SEQUENCE:
                file = f"{self._counted_file}:" if self._counted_file else ""
                told.append(f"{file}{after + 1} to {file}{upto}")
            elif "/" not in stream:  # a topic's partition
                told.append(_records(stream, after, upto))
            else:
                server, _, stem = stream.split("/", 2)
                last = _typed(stem, upto)
                told.append(f"{f'{_typed(stem, after)} to {last}' if after else f'up to {last}'} of server {server}")
        error = TraceNotRecordedError(
            f"flow {self._flow}: no recorded batch read {text}; recorded is {'; '.join(told) or 'nothing'}",
            hint=f"It is not committed yet (see `databus lag {self._flow}`), before the flow's start, or of another "
            "server.",
        )
        error.flow, error.recorded = self._flow, f"read {', '.join(told)}" if near else ""
        return error

    def _may_hold(self, change: Change, stream: str) -> bool:
        """Return whether a change may lie in a log, by its names alone."""
        if stream == SEQUENCE:
            return not (change.file and self._counted_file) or change.file == self._counted_file
        return "/" in stream and _is_of(change.file, stream)


def generation_of(batch: BatchRecord) -> int | None:
    """Return the generation of the log that a batch read; None of a source whose log has no place in event ids."""
    return batch.end.generation if isinstance(batch.end, BinlogOffset) else None


def by_log(batches: Sequence[BatchRecord], other: int) -> dict[int, list[BatchRecord]]:
    """Return batches by the generation of the log that they read; those of a source without any under a given one."""
    found: dict[int, list[BatchRecord]] = {}
    for batch in batches:
        generation = generation_of(batch)
        found.setdefault(other if generation is None else generation, []).append(batch)
    return found


def number_of(change: Change) -> int | None:
    """Return a change's place in the log as a number, None where file or position is not known."""
    number = change.file.rpartition(".")[2]
    return log_number(int(number), change.position) if number.isdigit() and change.position is not None else None


def holds(offset: Offset, gtid: str) -> bool:
    """Return whether a transaction was executed at an offset; False without GTIDs, or of another kind of server."""
    if not isinstance(offset, BinlogOffset) or not offset.gtids or not gtid:
        return False
    if offset.flavor == "mariadb":
        return ":" not in gtid and MariadbGtidPosition.parse(offset.gtids).contains(MariadbGtidPosition.parse(gtid))
    return ":" in gtid and MysqlGtidSet.parse(offset.gtids).contains(MysqlGtidSet.parse(gtid))


def _is_of(file: str, stream: str) -> bool:
    stem = file.rpartition(".")[0]
    return not stem or stream.rpartition("/")[2] == stem


def _typed(stem: str, number: int) -> str:
    file, position = log_place(number)
    return f"{stem}.{file:06d}:{position}"


def _records(output: str, after: int, upto: int) -> str:
    """Return the records of "topic[partition]" behind one offset, up to another, as places."""
    topic, _, partition = output.rstrip("]").rpartition("[")
    return f"{topic}:{partition}:{after + 1} to {topic}:{partition}:{upto}"
