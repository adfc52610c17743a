"""Steps of a journey for its page: where a change was when, and how long it took from one place to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from databus.core.amounts import counted
from databus.ops.trace.journey import Hop, Journey
from databus.records.batch_record import BatchRecord
from databus.records.definitions import dag_of

_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "read by a snapshot", "t": "truncate", "m": "statement"}


@dataclass(frozen=True)
class JourneyStep:
    """JourneyStep of a journey.

    Attributes:
        stage: "source", "batch", "record", "document", "mirror" or "held".
        title: in words.
        place: where: FILE:POS, a range, TOPIC:PARTITION:OFFSET, INDEX/ID; "" where not known.
        details: what else is known.
        at: when it was there, aware UTC; None where nobody noted it.
        until: when a batch was committed; None of other steps.
        behind: number of the step it is measured from, None for the first and where a time is missing.
        flow: flow or mirror that moved it; "" of others.
        sink: sink that holds a record or document; "" of others.
        run: (DAG, run) whose page shows more; None without.
        warns: whether it is not as it should be.
    """

    stage: str
    title: str
    place: str = ""
    details: tuple[str, ...] = ()
    at: datetime | None = None
    until: datetime | None = None
    behind: int | None = None
    flow: str = ""
    sink: str = ""
    run: tuple[str, str] | None = None
    warns: bool = False


def steps_json(journey: Journey) -> list[dict[str, Any]]:
    """Return plain JSON of a journey's steps, `seconds` being the time since the step that each is behind."""
    steps = list(_steps(journey))
    found = []
    for step in steps:
        before = steps[step.behind].at if step.behind is not None else None
        took = (step.at - before).total_seconds() if step.at and before else None
        found.append({
            "stage": step.stage, "title": step.title, "place": step.place, "details": [d for d in step.details if d],
            "at": step.at and step.at.isoformat(), "until": step.until and step.until.isoformat(),
            "behind": step.behind, "seconds": None if took is None else max(0.0, took), "flow": step.flow,
            "sink": step.sink, "run": step.run and {"dag_id": step.run[0], "run_id": step.run[1]}, "warns": step.warns,
        })  # fmt: skip
    return found


def _steps(journey: Journey) -> Iterator[JourneyStep]:
    change = journey.change
    file = f"{change.file}:{change.position}" if change.file else ""
    number = f"change {change.ordinal + 1:,} of its transaction" if change.ordinal is not None else ""
    told = (_OPS.get(change.op, change.op), change.table, change.key or "", change.gtid, number)
    yield JourneyStep("source", "Committed at the source", file, told, _at(change.ts_ms))
    steps = 1
    begun = None
    for batch in journey.batches:
        yield replace(_batch(batch), behind=0)
        begun, steps = begun or steps, steps + 1
    records: dict[tuple[str, str], int] = {}  # clusters may have topics of one name: "" stands for any
    for seen in journey.sightings:
        title = "Document" if seen.kind == "document" else "Tombstone" if seen.tombstone else "Kafka record"
        state = "" if seen.state.startswith("version ") else seen.state
        warns = "not kept" in seen.state or "older change" in seen.state
        held_by = f"on {seen.site}" if seen.site and seen.site != seen.sink else ""
        yield JourneyStep(
            seen.kind, title, seen.place, (seen.sink, held_by, state), _at(seen.at_ms), None, begun or 0,
            journey.flow, seen.sink, None, warns,
        )  # fmt: skip
        records.setdefault((seen.site, seen.place), steps)
        records.setdefault(("", seen.place), steps)
        steps += 1
    for hop in journey.hops:
        read = (hop.source.site, str(hop.source)) if hop.source else ("", "")
        yield _hop(hop, records.get(read, records.get(("", read[1]))))
        if hop.target:
            records.setdefault((hop.target.site, str(hop.target)), steps)
        steps += 1
    for note in journey.notes:
        if note.startswith("held back by "):
            stage, _, cause = note.removeprefix("held back by ").partition(": ")
            yield JourneyStep(
                "held", f"Held back by {stage}", "", (cause,), None, None, begun, journey.flow, "", None, True
            )


def _batch(batch: BatchRecord) -> JourneyStep:
    """Return the step of a batch: from its begin, as far as its stages' times are known, to its commit."""
    spent_ms = sum(ms for stage, ms in batch.durations_ms.items() if stage != "record")
    at = batch.committed_at - timedelta(milliseconds=spent_ms)
    mode = "" if batch.mode == "live" else batch.mode
    again = f"attempt {batch.attempt}" if batch.attempt > 1 else ""
    dag = dag_of(batch.run_url)
    return JourneyStep(
        "batch",
        f"Batch {batch.batch:,}",
        f"({batch.start}, {batch.end}]",
        (counted(batch.rows, "row"), mode, again, f"epoch {batch.epoch:,}", batch.merged),
        at,
        batch.committed_at,
        None,
        batch.flow,
        "",
        (dag, batch.run_id) if dag else None,
    )


def _hop(hop: Hop, behind: int | None) -> JourneyStep:
    dag = dag_of(hop.batch.run_url)
    return JourneyStep(
        "mirror",
        "Mirror copy",
        str(hop.target) if hop.target else "",
        (f"on {hop.target.site}" if hop.target else "", f"batch {hop.batch.batch:,}", hop.state),
        _at(hop.at_ms) or hop.batch.committed_at,
        None,
        behind,
        hop.mirror,
        "",
        (dag, hop.batch.run_id) if dag else None,
        bool(hop.state),
    )


def _at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
