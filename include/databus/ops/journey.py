"""One change and where it went, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from databus.core.trace import Change, Sighting
from databus.records.batch_record import BatchRecord


@dataclass(frozen=True)
class Journey:
    """One change, and where it went.

    Attributes:
        flow: flow name.
        change: the change.
        batches: the batches that moved it, oldest first; replays and sinks that were behind move it in one of theirs.
        sightings: where it stands in the sinks.
        notes: what could not be looked at and why, and what became of it otherwise (filtered, held back).
    """

    flow: str
    change: Change
    batches: tuple[BatchRecord, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "flow": self.flow,
            "change": self.change.to_json(),
            "batches": [batch_json(batch) for batch in self.batches],
            "sinks": [sighting.to_json() for sighting in self.sightings],
            "notes": list(self.notes),
        }


def batch_json(batch: BatchRecord) -> dict[str, Any]:
    """Return what a trace tells of a batch: its number, run, range, code and times."""
    return {
        "batch": batch.batch,
        "mode": batch.mode,
        "run_id": batch.run_id,
        "run_url": batch.run_url,
        "epoch": batch.epoch,
        "attempt": batch.attempt,
        "from": str(batch.start),
        "to": str(batch.end),
        "rows": batch.rows,
        "watermark": batch.watermark.isoformat() if batch.watermark else None,
        "committed_at": batch.committed_at.isoformat(),
        "spec_hash": batch.spec_hash,
        "code_version": batch.code_version,
    }


def lines(journey: Journey) -> Iterator[tuple[str, str]]:
    """Yield (step, what) of a journey, from the source to the sinks."""
    change = journey.change
    place = f"{change.file}:{change.position}" if change.file else ""
    number = f"change {change.ordinal + 1} of its transaction" if change.ordinal is not None else ""
    told = [place, change.gtid, number, change.op, change.table, change.key or ""]
    yield "source", "  ".join(part for part in told if part)
    for batch in journey.batches:
        moved = f"{batch.batch} ({batch.mode})  ({batch.start}, {batch.end}]  {batch.rows} rows"
        yield "batch", f"{moved}  committed {batch.committed_at.isoformat()}"
        yield "run", f"{batch.run_id}  {batch.run_url}".rstrip()
    for sighting in journey.sightings:
        extra = "  tombstone" if sighting.tombstone else ""
        yield sighting.sink, f"{sighting.place}{extra}  {sighting.state}".rstrip()
    for note in journey.notes:
        yield "note", note
