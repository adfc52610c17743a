"""What a mirror's writer counts beside every Kafka writer: which source offset has become which target offset."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from databus.core.errors import RecordRejectedError
from databus.core.receipts import RejectedRow
from databus.rows.raw_records import RawRecords
from databus.sinks.kafka.tally import RECORD_OVERHEAD_BYTES, Tally
from databus.sinks.kafka_mirror.claims import REFERENCE_BYTES, claimed

if TYPE_CHECKING:
    from databus.rows.columns import Ints

log = logging.getLogger(__name__)

HEADER_OVERHEAD_BYTES = 10
Run = tuple[int, int, int]
"""First source offset, first target offset, number of records: both count up together."""


@dataclass
class Piece:
    """Records of one partition that were handed to the producer together.

    Attributes:
        runs: (first source offset, place of it in the piece, number) of source offsets that follow one another.
        count: records.
        first: first target offset, -1 until acknowledged.
        last: last target offset.
    """

    runs: list[Run]
    count: int
    first: int = -1
    last: int = -1

    @property
    def known(self) -> bool:
        """Whether its target offsets follow one another, so that each is known by the first."""
        return self.first >= 0 and self.last - self.first + 1 == self.count


@dataclass
class MirrorTally(Tally):
    """Counts of one attempt, with the offset map of its records; its batches are `RawRecords` of one partition each.

    Attributes:
        too_large: "quarantine" rejects records that are larger than their topic takes, "fail" raises, "claim" claims
            their values and rejects only what is too large without them.
        claims: the segment store that values are claimed in.
        claimed: source partition → offsets of the records whose values were claimed.
    """

    too_large: str = "quarantine"
    claims: str = ""
    claimed: dict[str, list[int]] = field(default_factory=dict)
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def accept(self, batch: RawRecords) -> RawRecords:
        """Count records and return those that fit their topic."""
        self.done += batch.num_rows
        limit = self.limit(batch.topic)
        if not _all_fit(batch, limit):
            sizes = _sizes(batch)
            if self.too_large == "claim" and max(sizes) > limit:
                batch = self._claim(batch, sizes, limit)
                sizes = _sizes(batch)
            for row in (row for row, size in enumerate(sizes) if size > limit):
                self.rejected.append(self._rejection(batch, row, sizes[row], limit))
            batch = batch.filter([size <= limit for size in sizes])
        self.rows[batch.schema.full_name] += batch.num_rows
        self.written += batch.num_rows
        return batch

    def reports(self, batch: RawRecords) -> Mapping[int, Callable[..., None]]:
        """Return the callbacks of the first and the last record, which also note the target's offsets."""
        if not batch.num_rows:
            return {}
        name = f"{batch.topic}[{batch.partition}]"
        facts = self.outputs.setdefault(name, [-1, -1, 0])
        facts[2] += batch.num_rows
        self.sources[name] = batch.log
        piece = Piece(_runs(batch.offsets), batch.num_rows)
        self.pieces.setdefault(name, []).append(piece)
        return dict.fromkeys((0, batch.num_rows - 1), _seen(self.delivered(facts), piece))

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the receipt's outputs: with `source`, the log they come from, and the `runs` of the offset map."""
        found = super().facts()
        for name, facts in found.items():
            if name in self.sources:
                facts["source"] = self.sources[name]
                if offsets := self.claimed.get(self.sources[name]):
                    facts["claimed"] = list(offsets)
                runs = self._mapped(name)
                if runs is not None:
                    facts["runs"] = [list(run) for run in runs]
        return found

    def _mapped(self, name: str) -> list[Run] | None:
        """Return the runs of an output; None where they are not known (a batch in chunks, taken up by another task)."""
        pieces = self.pieces[name]
        first, last, records = self.outputs[name]
        if not all(piece.known for piece in pieces):
            if not self.offsets_known or first < 0 or last - first + 1 != records:
                return None
            for piece in pieces:  # written by an earlier attempt as one stretch
                piece.first, first = first, first + piece.count
        joined: list[Run] = []
        for piece in pieces:
            for source, place, count in piece.runs:
                run = (source, piece.first + place, count)
                before = joined[-1] if joined else None
                if before and (before[0] + before[2], before[1] + before[2]) == run[:2]:
                    joined[-1] = (before[0], before[1], before[2] + count)
                else:
                    joined.append(run)
        return joined

    def _claim(self, batch: RawRecords, sizes: Sequence[int], limit: int) -> RawRecords:
        """Claim what would fit with a reference for its value; what would not stays as it is, to be rejected whole."""
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
        return claimed(batch, rows, self.claims)

    def _rejection(self, batch: RawRecords, row: int, size: int, limit: int) -> RejectedRow:
        position = f"{batch.log}:{batch.offsets[row]}"
        if self.too_large == "fail":
            raise RecordRejectedError(
                f"{position} has {size} bytes, and topic {batch.topic} of the target takes {limit}",
                hint="Raise max.message.bytes of the target's topic, hold such records back with "
                'too_large="quarantine", or let their values go to the segment store with too_large="claim".',
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


def _runs(offsets: Ints) -> list[Run]:
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1, [len(offsets)]))
    return [
        (int(offsets[a]), int(a), int(b - a)) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]


def _seen(also: Callable[..., None], piece: Piece) -> Callable[..., None]:
    def callback(error: Any, message: Any) -> None:
        also(error, message)
        # One that was sent again after a lost answer may be acknowledged without an offset.
        if error is None and (offset := message.offset()) is not None:
            piece.first = offset if piece.first < 0 else min(piece.first, offset)
            piece.last = max(piece.last, offset)

    return callback


def _all_fit(batch: RawRecords, limit: int) -> bool:
    """Tell without a look at each record whether all fit, where that is easily told."""
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
