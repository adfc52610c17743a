"""What a mirror's writer counts beside every Kafka writer: which source offset has become which target offset."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from databus.core.errors import RecordRejectedError
from databus.core.receipts import RejectedRow
from databus.sinks.kafka.tally import DEFAULT_MAX_MESSAGE_BYTES, RECORD_OVERHEAD_BYTES, Tally

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
    """Counts of one attempt, with the offset map of its records.

    Attributes:
        too_large: "quarantine" rejects records that are larger than their topic takes, "fail" raises.
    """

    too_large: str = "quarantine"
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def reports(self, batch: pa.RecordBatch) -> Mapping[int, Callable[..., None]]:
        """Return the callbacks of `Tally.reports`, which also note the target's offsets."""
        callbacks = dict(super().reports(batch))
        position = np.asarray(batch["position"])
        for rows in _by_log(batch):
            place = int(rows[0])
            name = f"{batch['topic'][place].as_py()}[{batch['partition'][place].as_py()}]"
            self.sources[name] = batch["file"][place].as_py()
            piece = Piece(_runs(position[rows]), len(rows))
            self.pieces.setdefault(name, []).append(piece)
            for row in {place, int(rows[-1])}:
                callbacks[row] = _seen(callbacks[row], piece)
        return callbacks

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the receipt's outputs: with `source`, the log they come from, and the `runs` of the offset map."""
        found = super().facts()
        for name, facts in found.items():
            if name in self.sources:
                facts["source"] = self.sources[name]
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

    def _fits(self, batch: pa.RecordBatch) -> Any:
        size = _sizes(batch)
        if int(np.max(size, initial=0)) <= min([DEFAULT_MAX_MESSAGE_BYTES, *self.limits.values()]):
            return np.ones(batch.num_rows, dtype=bool)
        return size <= np.array([self._limit(topic) for topic in batch["topic"].to_pylist()], dtype=np.int64)

    def _reject(self, batch: pa.RecordBatch) -> None:
        for row, size in zip(batch.to_pylist(), _sizes(batch).tolist(), strict=True):
            if self.too_large == "fail":
                raise RecordRejectedError(
                    f"{row['file']}:{row['position']} has {size} bytes, and topic {row['topic']} of the target takes "
                    f"{self._limit(row['topic'])}",
                    hint="Raise max.message.bytes of the target's topic, or hold such records back with "
                    'too_large="quarantine".',
                    code="mirror_record_too_large",
                )
            self.rejected.append(
                RejectedRow(
                    event_id=row["event_id"],
                    table=f"{row['database']}.{row['table']}",
                    key=None if row["key"] is None else base64.b64encode(row["key"]).decode("ascii"),
                    cause=f"record_too_large: {size} bytes, topic {row['topic']} takes {self._limit(row['topic'])}",
                    stage=self.sink,
                    position=f"{row['file']}:{row['position']}",
                    payload=base64.b64encode(row["value"] or b"").decode("ascii"),
                )
            )


def _by_log(batch: pa.RecordBatch) -> list[Any]:
    """Return the row numbers of each source partition, in order."""
    files = batch["file"].dictionary_encode()
    codes = np.asarray(files.indices)
    if len(files.dictionary) == 1:
        return [np.arange(batch.num_rows)]
    return [np.flatnonzero(codes == code) for code in range(len(files.dictionary))]


def _runs(offsets: Any) -> list[Run]:
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1, [len(offsets)]))
    return [
        (int(offsets[a]), int(a), int(b - a)) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]


def _seen(also: Callable[..., None], piece: Piece) -> Callable[..., None]:
    def callback(error: Any, message: Any) -> None:
        also(error, message)
        if error is None:
            offset = message.offset()
            piece.first = offset if piece.first < 0 else min(piece.first, offset)
            piece.last = max(piece.last, offset)

    return callback


def _sizes(batch: pa.RecordBatch) -> Any:
    size = sum(np.asarray(pc.fill_null(pc.binary_length(batch[name]), 0)).astype(np.int64) for name in ("key", "value"))
    headers = batch["headers"]
    if headers.null_count < len(headers):
        per_row = [
            sum(len(h["name"]) + len(h["value"] or b"") + HEADER_OVERHEAD_BYTES for h in of or ())
            for of in headers.to_pylist()
        ]
        size = size + np.array(per_row, np.int64)
    return size + RECORD_OVERHEAD_BYTES
