"""Plans, receipts and reports of a batch: what will be moved, what each sink confirmed, what happened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType

from databus.core.errors import CheckpointFormatError
from databus.core.events import RowState
from databus.core.offsets import Offset, OffsetRange, offset_from_json
from databus.core.tables import TableSchema

FORMAT_VERSION = 1
"""The `v` field of everything stored in ZooKeeper."""

Epoch = NewType("Epoch", int)
"""Number of a claim of a flow's lease: the fencing token. Raised by each claim, never reused."""


def canonical_json(value: Any) -> bytes:
    """Return the one byte form of a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class SourcePlan:
    """What a source proposes to read next.

    Attributes:
        range: (start, end], ending on a transaction boundary.
        tables: schemas of the tables with rows in the range; `schema_id` is the index.
        rows: row changes in the range, before any filter of the flow's transforms.
        bytes: log bytes in the range.
        first_commit_at: commit time of the first transaction, None for a range without any.
        watermark: running maximum of commit time at the end of the range, None when unknown.
        more: whether the log goes on past the end of this range already.
        statements: transactions that truncate or redefine captured tables.
    """

    range: OffsetRange
    tables: tuple[TableSchema, ...]
    rows: int
    bytes: int
    first_commit_at: datetime | None = None
    watermark: datetime | None = None
    more: bool = False
    statements: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing in the range concerns the flow."""
        return self.rows == 0 and self.statements == 0


@dataclass(frozen=True)
class SinkPlan:
    """What a sink pins before a batch is written.

    Attributes:
        slots: number of writers; a slot is written by one writer at a time.
        prev: last committed batch of each slot, 0 for a slot that never wrote; the compare-and-set of the writer.
        partitions: output → partition count, for sinks that have partitions.
    """

    slots: int = 1
    prev: tuple[int, ...] = (0,)
    partitions: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"slots": self.slots, "prev": list(self.prev), "partitions": dict(self.partitions)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SinkPlan:
        """Read what `to_json` wrote."""
        return cls(data["slots"], tuple(data["prev"]), dict(data["partitions"]))


@dataclass(frozen=True)
class Plan:
    """All that decides the output of one batch; written to ZooKeeper before anything is read.

    Attributes:
        installation: name of the installation, part of every marker's key.
        flow: flow name.
        batch: number of this plan; never reused, unchanged by a retry.
        range: (start, end].
        sinks: per sink name what it pinned.
        spec_hash: hash of the flow's definition and of the code version.
        clock: the plan's time; transforms know no other.
        mode: "live" or "replay".
    """

    installation: str
    flow: str
    batch: int
    range: OffsetRange
    sinks: Mapping[str, SinkPlan]
    spec_hash: str
    clock: datetime
    mode: str = "live"

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return {
            "v": FORMAT_VERSION,
            "installation": self.installation,
            "flow": self.flow,
            "batch": self.batch,
            "range": self.range.to_json(),
            "sinks": {name: sink.to_json() for name, sink in sorted(self.sinks.items())},
            "spec_hash": self.spec_hash,
            "clock": self.clock.isoformat(),
            "mode": self.mode,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a plan.
        """
        require_version(data, "plan")
        return cls(
            data["installation"],
            data["flow"],
            data["batch"],
            OffsetRange.from_json(data["range"]),
            {name: SinkPlan.from_json(sink) for name, sink in data["sinks"].items()},
            data["spec_hash"],
            _utc(data["clock"]),
            data["mode"],
        )

    @property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the plan's canonical JSON; stands in every marker."""
        return hashlib.sha256(canonical_json(self.to_json())).hexdigest()[:16]


@dataclass(frozen=True)
class TableCounts:
    """Rows of one table by where they ended.

    Attributes:
        read: rows read; always filtered + quarantined + dispatched.
        filtered: dropped by a filter or not routed to any sink.
        quarantined: held back by a check or rejected by a sink.
        dispatched: confirmed by the sink.
    """

    read: int = 0
    filtered: int = 0
    quarantined: int = 0
    dispatched: int = 0

    @property
    def reconciled(self) -> bool:
        """Whether every row read is accounted for."""
        return self.read == self.filtered + self.quarantined + self.dispatched

    def plus(self, other: TableCounts) -> TableCounts:
        """Return the sum."""
        return TableCounts(
            self.read + other.read,
            self.filtered + other.filtered,
            self.quarantined + other.quarantined,
            self.dispatched + other.dispatched,
        )

    def to_json(self) -> dict[str, int]:
        """Return plain JSON."""
        return {
            "read": self.read,
            RowState.FILTERED: self.filtered,
            RowState.QUARANTINED: self.quarantined,
            RowState.DISPATCHED: self.dispatched,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> TableCounts:
        """Read what `to_json` wrote."""
        return cls(data["read"], data["filtered"], data["quarantined"], data["dispatched"])


@dataclass(frozen=True)
class RejectedRow:
    """A row held back, with all that is needed to look at it and to replay it once.

    Attributes:
        event_id: unique id of the row change.
        table: `database.table`.
        key: canonical key JSON, None without a key.
        cause: check name or the sink's error, e.g. "not_null(order_id)" or "mapper_parsing_exception: …".
        stage: "check" or the sink's name.
        position: file:pos of the transaction's end.
        payload: JSON of op, before and after.
    """

    event_id: str
    table: str
    key: str | None
    cause: str
    stage: str
    position: str
    payload: str


@dataclass(frozen=True)
class WriteReceipt:
    """What one writer (slot) of a sink confirms.

    Attributes:
        sink: sink name.
        slot: number of the slot.
        batch: batch number.
        written: records written to the sink, not rows: a delete and its tombstone are two.
        rows: rows dispatched by table.
        rejected: rows the sink refused for good.
        outputs: per output ("topic[partition]" or index) JSON facts: first and last offset, counts by outcome.
        duplicate: the marker showed that an earlier attempt had already written this batch; nothing was written now.
    """

    sink: str
    slot: int
    batch: int
    written: int
    rows: Mapping[str, int] = field(default_factory=dict)
    rejected: tuple[RejectedRow, ...] = ()
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    duplicate: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; rejected rows are counted, not repeated."""
        return {
            "sink": self.sink,
            "slot": self.slot,
            "batch": self.batch,
            "written": self.written,
            "rows": dict(self.rows),
            "rejected": len(self.rejected),
            "outputs": {name: dict(facts) for name, facts in sorted(self.outputs.items())},
            "duplicate": self.duplicate,
        }


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
        slots: sink → last committed batch of each of its slots; what the next plan pins as `prev`.
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

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return {
            "v": FORMAT_VERSION,
            "offset": self.offset.to_json(),
            "batch": self.batch,
            "epoch": self.epoch,
            "run_id": self.run_id,
            "plan_hash": self.plan_hash,
            "counts": {table: c.to_json() for table, c in sorted(self.counts.items())},
            "watermark": self.watermark.isoformat() if self.watermark else None,
            "updated_at": self.updated_at.isoformat(),
            "slots": {sink: list(batches) for sink, batches in sorted(self.slots.items())},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Checkpoint:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a checkpoint.
        """
        require_version(data, "checkpoint")
        return cls(
            offset_from_json(data["offset"]),
            data["batch"],
            Epoch(data["epoch"]),
            data["run_id"],
            data["plan_hash"],
            {table: TableCounts.from_json(c) for table, c in data["counts"].items()},
            _utc(data["watermark"]) if data["watermark"] else None,
            _utc(data["updated_at"]),
            {sink: tuple(batches) for sink, batches in data["slots"].items()},
        )


@dataclass(frozen=True)
class HistoryEntry:
    """One commit or amendment in a flow's history.

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

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return {
            "v": FORMAT_VERSION,
            "number": self.number,
            "action": self.action,
            "who": self.who,
            "why": self.why,
            "previous": self.previous.to_json() if self.previous else None,
            "offset": self.offset.to_json(),
            "batch": self.batch,
            "epoch": self.epoch,
            "counts": {table: c.to_json() for table, c in sorted(self.counts.items())},
            "receipts": [dict(r) for r in self.receipts],
            "at": self.at.isoformat(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HistoryEntry:
        """Read what `to_json` wrote."""
        require_version(data, "history entry")
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
            _utc(data["at"]),
        )


@dataclass(frozen=True)
class CheckResult:
    """What one check found in one batch.

    Attributes:
        check: name with its arguments, e.g. "not_null(order_id)".
        kind: registry kind, e.g. "not_null".
        column: column it looks at, None for batch-level checks.
        table: `database.table`, or "*" for the whole batch.
        severity: "warn", "quarantine" or "fail".
        evaluated: rows (or values) looked at.
        violations: how many of them violate.
        observed: a batch-level check's measured value in text form, else "".
    """

    check: str
    kind: str
    column: str | None
    table: str
    severity: str
    evaluated: int
    violations: int
    observed: str = ""


@dataclass(frozen=True)
class BatchReport:
    """What one committed batch did.

    Attributes:
        plan: the plan.
        epoch: epoch that committed it.
        run_id: Airflow run id, or "local:…".
        run_url: address of the run's page, "" when unknown.
        tables: counts by table.
        receipts: all receipts of all sinks.
        checks: results of all checks.
        rejected: all quarantined rows.
        durations_ms: stage → wall time in milliseconds; stages in the path's order.
        bytes: log bytes of the range.
        watermark: running maximum of commit time at the end of the range.
        committed_at: when the commit was confirmed.
        attempt: 1, or more when the plan was found unfinished.
    """

    plan: Plan
    epoch: Epoch
    run_id: str
    run_url: str
    tables: Mapping[str, TableCounts]
    receipts: tuple[WriteReceipt, ...]
    checks: tuple[CheckResult, ...]
    rejected: tuple[RejectedRow, ...]
    durations_ms: Mapping[str, float]
    bytes: int
    watermark: datetime | None
    committed_at: datetime
    attempt: int = 1

    @property
    def rows(self) -> int:
        """Rows read."""
        return sum(c.read for c in self.tables.values())


def require_version(data: Mapping[str, Any], what: str) -> None:
    """Refuse stored JSON of another format version.

    Raises:
        CheckpointFormatError: `v` is missing or not FORMAT_VERSION.
    """
    if data.get("v") != FORMAT_VERSION:
        raise CheckpointFormatError(
            f"stored {what} has format version {data.get('v')!r}, this code reads {FORMAT_VERSION}",
            hint="Upgrade databus on every worker before going on.",
        )
