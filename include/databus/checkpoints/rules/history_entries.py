"""History entries: what a step made of a checkpoint, and who says so. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import Offset
from databus.core.state.amendments import AcceptedOutputs, Amendment
from databus.core.state.checkpoint import Checkpoint, HistoryEntry, ReplacedOutputs
from databus.core.state.plan import Plan

_NAMED = 5


def entry(number: int, action: str, why: str, previous: Offset | None, checkpoint: Checkpoint) -> HistoryEntry:
    """Return the entry of a step that left a checkpoint, by the run that wrote it; no rows were moved."""
    return HistoryEntry(
        number=number,
        action=action,
        who=checkpoint.run_id,
        why=why,
        previous=previous,
        offset=checkpoint.offset,
        batch=checkpoint.batch,
        epoch=checkpoint.epoch,
        counts={},
        receipts=(),
        at=checkpoint.updated_at,
    )


def commit_entry(
    number: int,
    previous: Checkpoint,
    checkpoint: Checkpoint,
    receipts: Sequence[Mapping[str, Any]],
    counts: Mapping[str, TableCounts],
) -> HistoryEntry:
    """Return the entry of a commit."""
    return replace(
        entry(number, "commit", "", previous.offset, checkpoint),
        counts=counts,
        receipts=tuple(receipts),
        plan_hash=checkpoint.plan_hash,
        watermark=checkpoint.watermark,
        bytes=checkpoint.bytes,
    )


def amendment_entry(number: int, previous: Checkpoint, amended: Checkpoint, amendment: Amendment) -> HistoryEntry:
    """Return the entry of an amendment."""
    made = entry(number, amendment.action, amendment.why, previous.offset, amended)
    return replace(made, who=amendment.who, replaced=_replaced(amended.batch, amendment.gone))


def accept_entry(
    number: int, checkpoint: Checkpoint, plan: Plan | None, accepted: AcceptedOutputs, at: datetime
) -> HistoryEntry:
    """Return the entry of outputs that are accepted; of a plan in flight some rows may be in the former ones.

    The reason names those that stand and were only to be forgotten, which are not replaced: the first of each sink, and
    a count.
    """
    why = "; ".join(part for part in (accepted.why, *_forgotten(accepted)) if part)
    said = pause_entry(number, checkpoint, "accept", (accepted.who, why, at))
    upto = plan.batch if plan is not None else checkpoint.batch
    replaced = _replaced(upto, accepted.replaced)
    if replaced is not None and plan is not None:
        replaced = replace(replaced, written=_written_to(replaced.outputs, accepted.written))
    return replace(said, replaced=replaced)


def _forgotten(accepted: AcceptedOutputs) -> Iterator[str]:
    for sink, now in sorted(accepted.outputs.items()):
        gone = accepted.replaced.get(sink, {})
        names = sorted(output for output, id_ in now.items() if id_ is None and output not in gone)
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield f"{sink}: {', '.join(names[:_NAMED])}{more} forgotten"


def _written_to(
    outputs: Mapping[str, Mapping[str, str | None]], written: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Return what was written to partitions of the outputs; a sink that knows is there also where that is none."""
    return {
        sink: {place: count for place, count in written[sink].items() if place.rpartition("[")[0] in now}
        for sink, now in outputs.items()
        if sink in written
    }


def _replaced(upto: int, outputs: Mapping[str, Mapping[str, str | None]]) -> ReplacedOutputs | None:
    told = {sink: now for sink, now in outputs.items() if now}
    return ReplacedOutputs(upto, told) if told else None


def pause_entry(number: int, checkpoint: Checkpoint, action: str, said: tuple[str, str, datetime]) -> HistoryEntry:
    """Return the entry of a pause or resume; `said` is who, why and when."""
    who, why, at = said
    return replace(entry(number, action, why, checkpoint.offset, checkpoint), who=who, at=at)
