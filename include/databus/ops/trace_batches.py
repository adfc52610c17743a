"""Which recorded batches hold a place of the log, a GTID, or an offset of a topic."""

from __future__ import annotations

from databus.core.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.offsets import BinlogOffset, Offset
from databus.core.trace import Change, TraceNotRecordedError, log_number, log_place
from databus.records.batch_record import BatchRecord
from databus.records.provenance import Provenance
from databus.records.ranges import OUTPUT, SEQUENCE, SOURCE


class BatchFinder:
    """Finds batches of one flow.

    Args:
        flow: flow name.
        provenance: the records.
    """

    def __init__(self, flow: str, provenance: Provenance) -> None:
        self._flow, self._provenance = flow, provenance

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
        return TraceNotRecordedError(
            f"flow {self._flow}: no recorded batch wrote {place}; {known}",
            hint="A control record, another producer's, or a report that is not stored yet: the next run fills it in.",
        )

    def read(self, change: Change) -> list[BatchRecord]:
        """Return the batches that read a change, oldest first: by its place in the log, else by its GTID."""
        found: list[BatchRecord] = []
        number = number_of(change)
        for stream in self._provenance.streams(self._flow, SOURCE):
            at = number
            if stream == SEQUENCE:
                at = change.position
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

    def not_recorded(self, text: str) -> TraceNotRecordedError:
        """Return the error that says what is recorded instead."""
        told = []
        for stream in self._provenance.streams(self._flow, SOURCE):
            after, upto = self._provenance.bounds(self._flow, SOURCE, stream) or (0, 0)
            if stream == SEQUENCE:
                told.append(f"{after} to {upto}")
            elif "/" not in stream:  # a topic's partition
                told.append(f"{stream}: {after + 1} to {upto}")
            else:
                first, last = (f"file {file} at {position}" for file, position in map(log_place, (after, upto)))
                told.append(f"{stream}: {first} to {last}")
        return TraceNotRecordedError(
            f"flow {self._flow}: no recorded batch read {text}; recorded is {'; '.join(told) or 'nothing'}",
            hint=f"It is not committed yet (see `databus lag {self._flow}`), before the flow's start, or of another "
            "server.",
        )


def number_of(change: Change) -> int | None:
    """Return a change's place in the log as a number, None where file or position is not known."""
    number = change.file.rpartition(".")[2]
    return log_number(int(number), change.position) if number.isdigit() and change.position is not None else None


def holds(offset: Offset, gtid: str) -> bool:
    """Tell whether a transaction was executed at an offset; False without GTIDs, or of another kind of server."""
    if not isinstance(offset, BinlogOffset) or not offset.gtids or not gtid:
        return False
    if offset.flavor == "mariadb":
        return ":" not in gtid and MariadbGtidPosition.parse(offset.gtids).contains(MariadbGtidPosition.parse(gtid))
    return ":" in gtid and MysqlGtidSet.parse(offset.gtids).contains(MysqlGtidSet.parse(gtid))


def _is_of(file: str, stream: str) -> bool:
    stem = file.rpartition(".")[0]
    return not stem or stream.rpartition("/")[2] == stem
