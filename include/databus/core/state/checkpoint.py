"""The committed state of a flow and the history of how it came there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType

from databus.core.batches.counts import TableCounts
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.positions.offsets import Offset, offset_from_json
from databus.core.stored_form import Form

CHECKPOINT = Form(
    "checkpoint",
    "offset batch epoch run_id plan_hash counts watermark updated_at slots bytes pace replay_until history",
    "output_ids output_names closed_until",
    "outputs first",
    "detached",
)
"""`history` is the number of the history entry that was written with it, `outputs` the digest of what it knows of
outputs where that is stored beside it (`checkpoints/nodes/stored_outputs.py`); version 2 held it itself."""

OUTPUTS_DIGEST = "outputs"

HISTORY_ENTRY = Form(
    "history entry",
    "number action who why previous offset batch epoch counts receipts at plan_hash watermark bytes",
    "merged",
    "replaced",
)
REPLACED = Form("replaced outputs", "upto outputs", "written", part=True)
MERGED = Form("merged entries", "first batch batches", part=True)

Epoch = NewType("Epoch", int)
"""Number of a claim of a flow's lease: the fencing token. Raised by each claim, never reused."""


@dataclass(frozen=True)
class Checkpoint:
    """The committed state of a flow.

    Attributes:
        offset: last committed offset.
        batch: last committed batch number; 0 before the first.
        epoch: epoch that committed.
        run_id: run that committed.
        plan_hash: hash of the committed plan, "" before the first.
        counts: per table of the last batch.
        watermark: running maximum of commit time, None when unknown.
        updated_at: when it was committed.
        slots: sink → last committed batch of each of its slots; what the next plan pins as `prev`. A sink whose number
            of slots was lowered keeps the others, for when it is raised again.
        bytes: log bytes of the last batch, None before the first and in checkpoints written before it was kept.
        replay_until: where the flow stood before it was set back: up to there rows are moved again, and sinks may hold
            newer ones; None when nothing is moved again.
        pace: bounds of the next batch, "rows" and "bytes", where a slow sink lowered them; empty at full pace.
        output_ids: sink → output → id of those it has written to, for sinks whose outputs have ids ("" where the server
            gave none); another in its place, or none, is refused.
        output_names: sink → output → exact name, where characters of it were replaced; another name that becomes the
            same is refused.
        closed_until: how far plans went that were closed before they were committed: sinks without markers may hold
            rows up to there; None once the flow has come as far, and left out of JSON then.
        first: sink → outputs whose first batch is still to come, although what was left of a batch that was given up
            may stand there: the next plans name them as new until one of them has written to them.
        detached: of a sink that is behind: the flow's last batch when it left; None of a flow, and of sinks that left
            before it was kept.
    """

    offset: Offset
    batch: int
    epoch: Epoch
    run_id: str
    plan_hash: str
    counts: Mapping[str, TableCounts]
    watermark: datetime | None
    updated_at: datetime
    slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bytes: int | None = None
    pace: Mapping[str, int] = field(default_factory=dict)
    replay_until: Offset | None = None
    output_ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    output_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    closed_until: Offset | None = None
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    detached: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        known = {
            **self.outputs_json(),
            "closed_until": self.closed_until.to_json() if self.closed_until is not None else None,
            "first": {sink: list(outputs) for sink, outputs in sorted(self.first.items()) if outputs},
        }
        return CHECKPOINT.write(
            {
                "offset": self.offset.to_json(),
                "batch": self.batch,
                "epoch": self.epoch,
                "run_id": self.run_id,
                "plan_hash": self.plan_hash,
                "counts": {table: c.to_json() for table, c in sorted(self.counts.items())},
                "watermark": self.watermark.isoformat() if self.watermark else None,
                "updated_at": self.updated_at.isoformat(),
                "slots": {sink: list(batches) for sink, batches in sorted(self.slots.items())},
                "bytes": self.bytes,
                "pace": dict(self.pace),
                "replay_until": self.replay_until.to_json() if self.replay_until is not None else None,
                **{name: value for name, value in known.items() if value},
                **({} if self.detached is None else {"detached": self.detached}),
            }
        )

    @property
    def outputs(self) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, Mapping[str, str]]]:
        """Known outputs: ids and names."""
        return self.output_ids, self.output_names

    def outputs_json(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return what is known of outputs as plain JSON: the fields `output_ids` and `output_names`."""
        return {"output_ids": _stored(self.output_ids), "output_names": _stored(self.output_names)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Checkpoint:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a checkpoint, or not all of it.
        """
        data = CHECKPOINT.read(data)
        if OUTPUTS_DIGEST in data:
            raise CheckpointFormatError("stored checkpoint without its outputs, which are stored beside it")
        return cls(
            offset_from_json(data["offset"]),
            data["batch"],
            Epoch(data["epoch"]),
            data["run_id"],
            data["plan_hash"],
            {table: TableCounts.from_json(c) for table, c in data["counts"].items()},
            datetime.fromisoformat(data["watermark"]) if data["watermark"] else None,
            datetime.fromisoformat(data["updated_at"]),
            {sink: tuple(batches) for sink, batches in data["slots"].items()},
            data.get("bytes"),
            data.get("pace", {}),
            offset_from_json(data["replay_until"]) if data.get("replay_until") else None,
            data.get("output_ids", {}),
            data.get("output_names", {}),
            offset_from_json(data["closed_until"]) if "closed_until" in data else None,
            {sink: tuple(outputs) for sink, outputs in data.get("first", {}).items()},
            data.get("detached"),
        )


def merged_slots(before: Mapping[str, Sequence[int]], after: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return sink → last batch of each slot after some moved; what is not named, sinks and slots, stays as it was."""
    merged = {name: tuple(batches) for name, batches in before.items()}
    return merged | {name: (*new, *merged.get(name, ())[len(new) :]) for name, new in after.items()}


def _stored(outputs: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {sink: dict(sorted(known.items())) for sink, known in sorted(outputs.items()) if known}


@dataclass(frozen=True)
class MergedCommits:
    """Commits that a merged history entry stands for; such entries are in ledger pages only.

    Attributes:
        first: number of the first of them.
        batch: batch number of the first.
        batches: how many they are.
    """

    first: int
    batch: int
    batches: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return MERGED.write({"first": self.first, "batch": self.batch, "batches": self.batches})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MergedCommits:
        """Read what `to_json` wrote."""
        return cls(**MERGED.read(data))


@dataclass(frozen=True)
class ReplacedOutputs:
    """Outputs that a person accepted as others than those that were written to.

    Attributes:
        upto: last batch that may have written to the former ones; of a plan that was in flight, that may be a part.
        outputs: sink → output → id of what was there then, None for none.
        written: sink → "output[partition]" → records of batch `upto`, which was in flight, that went to the former
            ones; what it wrote beyond them went to those that stand now. Not of sinks for which that is not known.
    """

    upto: int
    outputs: Mapping[str, Mapping[str, str | None]]
    written: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        outputs = {sink: dict(sorted(now.items())) for sink, now in sorted(self.outputs.items())}
        written = {sink: dict(sorted(records.items())) for sink, records in sorted(self.written.items())}
        return REPLACED.write({"upto": self.upto, "outputs": outputs, **({"written": written} if written else {})})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReplacedOutputs:
        """Read what `to_json` wrote."""
        return cls(**REPLACED.read(data))


@dataclass(frozen=True)
class HistoryEntry:
    """History entry of a flow: one commit or amendment.

    Attributes:
        number: position in the history, from 1.
        action: "commit", "start", or the name of an amendment.
        who: run id or user.
        why: reason; "" for commits.
        previous: offset before, None for the first.
        offset: offset after.
        batch: batch number after.
        epoch: epoch that did it.
        counts: per table, of a commit.
        receipts: per sink a list of receipts in JSON, of a commit.
        at: when.
        plan_hash: hash of the committed plan, of a commit; "" in entries written before it was kept.
        watermark: running maximum of commit time after, of a commit.
        bytes: log bytes of the range, of a commit; None in entries written before it was kept.
        merged: the commits that this one stands for; None for one that stands for itself.
        replaced: the outputs that it accepted as others, None where it did not.
    """

    number: int
    action: str
    who: str
    why: str
    previous: Offset | None
    offset: Offset
    batch: int
    epoch: Epoch
    counts: Mapping[str, TableCounts]
    receipts: tuple[Mapping[str, Any], ...]
    at: datetime
    plan_hash: str = ""
    watermark: datetime | None = None
    bytes: int | None = None
    merged: MergedCommits | None = None
    replaced: ReplacedOutputs | None = None

    @property
    def first(self) -> int:
        """Number of the first entry that it stands for; its own where it stands for itself."""
        return self.merged.first if self.merged else self.number

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return HISTORY_ENTRY.write(
            {
                "number": self.number,
                "action": self.action,
                "who": self.who,
                "why": self.why,
                "previous": self.previous.to_json() if self.previous is not None else None,
                "offset": self.offset.to_json(),
                "batch": self.batch,
                "epoch": self.epoch,
                "counts": {table: c.to_json() for table, c in sorted(self.counts.items())},
                "receipts": [dict(r) for r in self.receipts],
                "at": self.at.isoformat(),
                "plan_hash": self.plan_hash,
                "watermark": self.watermark.isoformat() if self.watermark else None,
                "bytes": self.bytes,
                **({"merged": self.merged.to_json()} if self.merged else {}),
                **({"replaced": self.replaced.to_json()} if self.replaced else {}),
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HistoryEntry:
        """Read what `to_json` wrote."""
        data = HISTORY_ENTRY.read(data)
        return cls(
            data["number"],
            data["action"],
            data["who"],
            data["why"],
            offset_from_json(data["previous"]) if data["previous"] else None,
            offset_from_json(data["offset"]),
            data["batch"],
            Epoch(data["epoch"]),
            {table: TableCounts.from_json(c) for table, c in data["counts"].items()},
            tuple(data["receipts"]),
            datetime.fromisoformat(data["at"]),
            data.get("plan_hash", ""),
            datetime.fromisoformat(data["watermark"]) if data.get("watermark") else None,
            data.get("bytes"),
            MergedCommits.from_json(data["merged"]) if data.get("merged") else None,
            ReplacedOutputs.from_json(data["replaced"]) if data.get("replaced") else None,
        )
