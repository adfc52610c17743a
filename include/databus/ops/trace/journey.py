"""Journey of one change, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from databus.core.amounts import counted
from databus.core.positions.offsets import BinlogOffset
from databus.core.trace import Change, RecordPlace, Sighting
from databus.records.batch_record import BatchRecord


@dataclass(frozen=True)
class Hop:
    """A record's way through a mirror.

    Attributes:
        mirror: flow name of the mirror.
        source: the record on the site that the mirror reads; None where it is not known which one it is.
        target: the record that it became; None where that is not known.
        batch: the mirror's batch that moved it.
        state: in words, what is not as it was: "" where the record stands there as it is at its source.
        at_ms: the target's own time of it, ms since the epoch; None when it has none.
    """

    mirror: str
    source: RecordPlace | None
    target: RecordPlace | None
    batch: BatchRecord
    state: str = ""
    at_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "mirror": self.mirror,
            "from": self.source and self.source.to_json(),
            "to": self.target and self.target.to_json(),
            "state": self.state,
            "at_ms": self.at_ms,
            "batch": batch_json(self.batch),
        }


@dataclass(frozen=True)
class Journey:
    """Journey of one change: its place in the log, and where it went.

    Attributes:
        flow: flow name; of a record that no flow here wrote, the first mirror that moved it, "" for none.
        change: the change.
        batches: the batches that moved it, oldest first; replays and sinks that were behind move it in one of theirs.
        sightings: where it stands in the sinks.
        notes: what could not be looked at and why, and what became of it otherwise (filtered, held back).
        hops: where mirrors have taken the records of the sightings, from the first site on.
    """

    flow: str
    change: Change
    batches: tuple[BatchRecord, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    notes: tuple[str, ...] = ()
    hops: tuple[Hop, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "flow": self.flow,
            "change": self.change.to_json(),
            "batches": [batch_json(batch) for batch in self.batches],
            "sinks": [sighting.to_json() for sighting in self.sightings],
            "mirrors": [hop.to_json() for hop in self.hops],
            "notes": list(self.notes),
        }


def batch_json(batch: BatchRecord) -> dict[str, Any]:
    """Return what a trace shows of a batch: its number, run, range, code and times."""
    return {
        "batch": batch.batch,
        **({"first_batch": batch.first_batch} if batch.first_batch is not None else {}),
        **({"log": batch.end.generation} if isinstance(batch.end, BinlogOffset) and batch.end.generation else {}),
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
        moved = f"{batch.batch} ({batch.mode})  {batch.start} → {batch.end}  {counted(batch.rows, 'row')}"
        yield "batch", f"{moved}  committed {batch.committed_at.isoformat()}"
        yield "run", f"{batch.run_id}  {batch.run_url}".rstrip()
        if batch.merged:
            yield "note", batch.merged
    for sighting in journey.sightings:
        extra = "  tombstone" if sighting.tombstone else ""
        yield sighting.sink, f"{sighting.place}{extra}  {sighting.state}".rstrip()
    for hop in journey.hops:
        one, other = (f"{place.site} {place}" if place else "?" for place in (hop.source, hop.target))
        yield hop.mirror, f"{one} → {other}  {hop.state}".rstrip()
        moved = f"{hop.batch.batch} ({hop.batch.mode})  {counted(hop.batch.rows, 'record')}"
        yield "batch", f"{moved}  committed {hop.batch.committed_at.isoformat()}"
        yield "run", f"{hop.batch.run_id}  {hop.batch.run_url}".rstrip()
        if hop.batch.merged:
            yield "note", f"{hop.mirror}: {hop.batch.merged}"
    for note in journey.notes:
        yield "note", note
