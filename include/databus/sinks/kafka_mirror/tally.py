"""Tally of a mirror's writer, beside every Kafka writer's: which source offset has become which target offset."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.core.batches.receipts import RejectedRow
from databus.core.errors.sink import RecordRejectedError
from databus.core.positions.offset_map import UNKNOWN
from databus.rows.raw_records import RawRecords
from databus.sinks.kafka.tally import RECORD_OVERHEAD_BYTES, MessageTally
from databus.sinks.kafka_mirror.large_values import REFERENCE_BYTES, with_references

if TYPE_CHECKING:
    from databus.rows.columns import Ints

log = logging.getLogger(__name__)

HEADER_OVERHEAD_BYTES = 10


@dataclass
class ProducedRecords:
    """Records of one partition that were handed to the producer together.

    Attributes:
        offsets: their source offsets.
        first: first target offset, UNKNOWN until acknowledged.
        last: last target offset.
        places: target offsets of all, in their order, where each was asked for.
    """

    offsets: Ints
    first: int = UNKNOWN
    last: int = UNKNOWN
    places: list[int] = field(default_factory=list)

    @property
    def targets(self) -> Ints | None:
        """The target offset of each record; None where they are not known."""
        count = len(self.offsets)
        if len(self.places) == count and UNKNOWN not in self.places:
            return np.array(self.places, np.int64)
        if self.first >= 0 and self.last - self.first + 1 == count:
            return np.arange(self.first, self.last + 1, dtype=np.int64)
        return None

    @property
    def bounds(self) -> list[int]:
        """Source offsets [first, upto) and target offsets [first, upto), these UNKNOWN where no broker gave them."""
        upto = self.last + 1 if self.last >= 0 else UNKNOWN
        return [int(self.offsets[0]), int(self.offsets[-1]) + 1, self.first, upto]


@dataclass
class MirrorTally(MessageTally):
    """Counts of one attempt, with the offset map of its records; its batches are `RawRecords` of one partition each.

    Attributes:
        too_large: "quarantine" rejects records that are larger than their topic takes, "fail" raises, "large_value"
            moves their values out and rejects only what is too large without them.
        value_store: the segment store that large values go to.
        shared: whether others write to the target's topics, too.
        claimed: source partition → offsets of the records whose values were moved out.
    """

    too_large: str = "quarantine"
    value_store: str = ""
    shared: bool = False
    claimed: dict[str, list[int]] = field(default_factory=dict)
    pieces: dict[str, list[ProducedRecords]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def accept(self, batch: RawRecords) -> RawRecords:
        """Count records and return those that fit their topic."""
        self.done += batch.num_rows
        limit = self.limit(batch.topic)
        if not _all_fit(batch, limit):
            sizes = _sizes(batch)
            if self.too_large == "large_value" and max(sizes) > limit:
                batch = self._moved_out(batch, sizes, limit)
                sizes = _sizes(batch)
            for row in (row for row, size in enumerate(sizes) if size > limit):
                self.rejected.append(self._rejection(batch, row, sizes[row], limit))
            batch = batch.filter([size <= limit for size in sizes])
        self.rows[batch.schema.full_name] += batch.num_rows
        self.written += batch.num_rows
        return batch

    def reports(self, batch: RawRecords) -> Mapping[int, Callable[..., None]]:
        """Return the callbacks of the first and the last record, which also note the target's offsets.

        Where others write to the same topics, their records may lie between ours: then each record reports its own.
        """
        if not batch.num_rows:
            return {}
        name = f"{batch.topic}[{batch.partition}]"
        facts = self.outputs.setdefault(name, [-1, -1, 0])
        facts[2] += batch.num_rows
        self.sources[name] = batch.log
        piece = ProducedRecords(batch.offsets)
        self.pieces.setdefault(name, []).append(piece)
        also, last = self.delivered(name, facts), batch.num_rows - 1
        if self.shared:
            return dict.fromkeys(range(batch.num_rows), _each(also, piece))
        return {last: _end(also, piece), 0: _begin(also, piece)} if last else {0: _each(also, piece)}

    def restore(self, outputs: Mapping[str, tuple[int, int, int]] | None) -> None:
        """Take over the offsets of what an earlier attempt committed; of several chunks, markers lie between them."""
        super().restore(outputs)
        for name, pieces in self.pieces.items():
            first, last, records = (outputs or {}).get(name, (UNKNOWN, UNKNOWN, 0))
            whole = first >= 0 and last - first + 1 == records == sum(len(piece.offsets) for piece in pieces)
            for piece in pieces:
                piece.first, piece.last = (first, first + len(piece.offsets) - 1) if whole else (first, last)
                first += len(piece.offsets) if whole else 0

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the receipt's outputs.

        With `source`, the log they come from, `runs`, [first source offset, first target offset, records] that count up
        together, and `unsure`, [source offsets from, upto, target offsets from, upto] of records whose own places are
        not known.
        """
        found = super().facts()
        for name, facts in found.items():
            if name in self.sources:
                facts["source"] = self.sources[name]
                if offsets := self.claimed.get(self.sources[name]):
                    facts["claimed"] = list(offsets)
                facts["runs"] = joined(piece for piece in self.pieces[name] if piece.targets is not None)
                if unsure := [piece.bounds for piece in self.pieces[name] if piece.targets is None]:
                    facts["unsure"] = unsure
        return found

    def _moved_out(self, batch: RawRecords, sizes: Sequence[int], limit: int) -> RawRecords:
        """Move out each value whose record fits without it; what would not stays as it is, to be rejected whole."""
        rows = [
            row
            for row, size in enumerate(sizes)
            if size > limit and size - len(batch.values[row] or b"") + REFERENCE_BYTES <= limit
        ]
        found = [int(batch.offsets[row]) for row in rows]
        if found:
            self.claimed.setdefault(batch.log, []).extend(found)
            log.warning(
                "%s: values of %d records, at %s, are over the %d bytes that topic %s takes: they go to the segment "
                "store", batch.log, len(found), ", ".join(map(str, found[:20])), limit, batch.topic,
            )  # fmt: skip
        return with_references(batch, rows, self.value_store)

    def _rejection(self, batch: RawRecords, row: int, size: int, limit: int) -> RejectedRow:
        position = f"{batch.log}:{batch.offsets[row]}"
        if self.too_large == "fail":
            raise RecordRejectedError(
                f"{position} has {size} bytes, and topic {batch.topic} of the target takes {limit}",
                hint="Raise max.message.bytes of the target's topic, hold such records back with "
                'too_large="quarantine", or let their values go to the segment store with too_large="large_value".',
                code="mirror_record_too_large",
            )
        key, value = batch.keys[row], batch.values[row]
        return RejectedRow(
            event_id=batch.event_id(row),
            table=batch.schema.full_name,
            key=_base64(key),
            cause=f"record_too_large: {size} bytes, topic {batch.topic} takes {limit}",
            stage=self.sink,
            position=position,
            payload=json.dumps({
                "value": _base64(value),
                "headers": [[name, _base64(of)] for name, of in batch.headers[row] or ()],
                "timestamp": batch.stamps[row],
            }),
        )  # fmt: skip


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def joined(pieces: Iterable[ProducedRecords]) -> list[list[int]]:
    """Return the runs of pieces whose places are known: [first source offset, first target offset, records]."""
    known = [(piece.offsets, targets) for piece in pieces if (targets := piece.targets) is not None]
    if not known:
        return []
    sources, places = (np.concatenate(side) for side in zip(*known, strict=True))
    breaks = np.flatnonzero((np.diff(sources) != 1) | (np.diff(places) != 1)) + 1
    edges = [0, *breaks.tolist(), len(sources)]
    return [[int(sources[a]), int(places[a]), b - a] for a, b in pairwise(edges)]


def _begin(also: Callable[..., None], piece: ProducedRecords) -> Callable[..., None]:
    def callback(error: Any, message: Any) -> None:
        also(error, message)
        # One that was sent again after a lost answer may be acknowledged without an offset.
        if error is None and (offset := message.offset()) is not None:
            piece.first = offset

    return callback


def _end(also: Callable[..., None], piece: ProducedRecords) -> Callable[..., None]:
    def callback(error: Any, message: Any) -> None:
        also(error, message)
        if error is None and (offset := message.offset()) is not None:
            piece.last = offset

    return callback


def _each(also: Callable[..., None], piece: ProducedRecords) -> Callable[..., None]:
    """Return the callback of all records of a piece: reports of a partition come in the order of its records."""
    begin, end = _begin(also, piece), _end(also, piece)

    def callback(error: Any, message: Any) -> None:
        offset = None if error is not None else message.offset()
        piece.places.append(UNKNOWN if offset is None else offset)
        if len(piece.places) == 1:
            begin(error, message)
        if len(piece.places) == len(piece.offsets):
            end(error, message)

    return callback


def _all_fit(batch: RawRecords, limit: int) -> bool:
    """Return whether all fit, without a look at each record, where that is easily seen."""
    if any(batch.headers):
        return False
    longest = sum(max((len(one) for one in column if one), default=0) for column in (batch.keys, batch.values))
    return longest + RECORD_OVERHEAD_BYTES <= limit


def _sizes(batch: RawRecords) -> list[int]:
    return [
        len(key or b"")
        + len(value or b"")
        + sum(len(name) + len(of or b"") + HEADER_OVERHEAD_BYTES for name, of in headers or ())
        + RECORD_OVERHEAD_BYTES
        for key, value, headers in zip(batch.keys, batch.values, batch.headers, strict=True)
    ]
