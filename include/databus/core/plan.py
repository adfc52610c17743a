"""Plans: what will be moved, pinned before anything is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from databus.core.offsets import OffsetRange
from databus.core.stored_form import VERSION, Form
from databus.core.stored_json import canonical_json
from databus.core.tables import TableSchema

SINK_PLAN = Form("plan of a sink", "slots prev partitions", "ids names", part=True)
PLAN = Form("plan", "installation flow batch range sinks spec_hash clock mode")


@dataclass(frozen=True)
class SourcePlan:
    """What a source proposes to read next.

    Attributes:
        range: (start, end], ending on a transaction boundary.
        tables: schemas of the tables with rows in the range; `schema_id` is the index.
        rows: row changes in the range, before any filter of the flow's transforms.
        bytes: log bytes in the range.
        first_commit_at: commit time of the first transaction, None for a range without any, or when unknown.
        watermark: running maximum of commit time at the end of the range, None when unknown.
        more: whether the log goes on past the end of this range already.
        statements: transactions that truncate or redefine captured tables.
        bound: whether `rows` is an upper bound only: the offsets of a Kafka log have holes that no request tells of
            (control records, aborted transactions, compaction).
        passed: why the range is passed over unread by the source's own policy; "" for a range to read.
    """

    range: OffsetRange
    tables: tuple[TableSchema, ...]
    rows: int
    bytes: int
    first_commit_at: datetime | None = None
    watermark: datetime | None = None
    more: bool = False
    statements: int = 0
    bound: bool = False
    passed: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing in the range concerns the flow."""
        return self.rows == 0 and self.statements == 0


@dataclass(frozen=True)
class SinkPlan:
    """What a sink pins before a batch is written.

    Attributes:
        slots: number of writers; a slot is written by one writer at a time.
        prev: last committed batch of each slot, 0 for a slot that never wrote; the compare-and-set of the writer. Slots
            that the sink had once and the plan has not stand behind them, and keep what they hold.
        partitions: output → partition count, for sinks that have partitions.
        ids: output → id that the server gave it, "" for a server that gives none. No part of the plan's hash: they are
            looked at before and while rows are written, and decide nothing of what is written.
        names: output → exact name, for outputs in whose names characters were replaced; no part of the hash either.
    """

    slots: int = 1
    prev: tuple[int, ...] = (0,)
    partitions: Mapping[str, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def following(self, known: Sequence[int], committed: int) -> SinkPlan:
        """Return it with what the markers must hold.

        That is known from our own commits, and not asked from the sink it is to be compared with, but for slots that
        took no part in the last batch: nothing of theirs is in flight. Their marker may have expired, and older
        versions did not keep what they held.

        Args:
            known: last batch of each slot that the sink ever had; empty before its first.
            committed: last committed batch.
        """
        standing = (*self.prev, *(0,) * self.slots)[: self.slots]
        newest = max(known, default=0)

        def previous(slot: int) -> int:
            if slot >= len(known):
                return standing[slot] if known and standing[slot] <= committed else 0
            idle = known[slot] < newest and standing[slot] == 0
            return 0 if idle else known[slot]

        return replace(self, prev=(*map(previous, range(self.slots)), *known[self.slots :]))

    def marks_after(self, batch: int) -> tuple[int, ...]:
        """Return the last batch of each slot after this one, also of slots that take no part in it."""
        return (*(batch,) * self.slots, *self.prev[self.slots :])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        known = {"ids": dict(self.ids), "names": dict(self.names)}
        return SINK_PLAN.write(
            {
                "slots": self.slots,
                "prev": list(self.prev),
                "partitions": dict(self.partitions),
                **{name: value for name, value in known.items() if value},
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SinkPlan:
        """Read what `to_json` wrote."""
        data = SINK_PLAN.read(data)
        known = dict(data.get("ids", {})), dict(data.get("names", {}))
        return cls(data["slots"], tuple(data["prev"]), dict(data["partitions"]), *known)


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
        mode: "live", or "replay" where rows are moved again that the flow has moved before.
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
        return PLAN.write(
            {
                "installation": self.installation,
                "flow": self.flow,
                "batch": self.batch,
                "range": self.range.to_json(),
                "sinks": {name: sink.to_json() for name, sink in sorted(self.sinks.items())},
                "spec_hash": self.spec_hash,
                "clock": self.clock.isoformat(),
                "mode": self.mode,
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a plan.
        """
        data = PLAN.read(data)
        return cls(
            data["installation"],
            data["flow"],
            data["batch"],
            OffsetRange.from_json(data["range"]),
            {name: SinkPlan.from_json(sink) for name, sink in data["sinks"].items()},
            data["spec_hash"],
            datetime.fromisoformat(data["clock"]),
            data["mode"],
        )

    @property
    def live_flow(self) -> str:
        """Name of the flow whose rows are moved; a backfill of it moves them under a name of its own."""
        return self.flow.partition(".")[0]

    @cached_property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the plan's canonical JSON; stands in every marker.

        Versions of forms count as 1: a plan keeps its hash, whichever databus wrote it and reads it again. It also
        keeps it when a person accepts another topic in an output's place: markers hold the hash.
        """
        return hashlib.sha256(canonical_json({**_unversioned(self.to_json()), VERSION: 1})).hexdigest()[:16]


def _unversioned(value: Any) -> Any:
    """Return stored JSON without the versions of its forms and the ids of outputs; names of sinks and topics stay."""
    plain = {name: part for name, part in value.items() if name != VERSION}
    ends = {side: {k: v for k, v in end.items() if k != VERSION} for side, end in plain["range"].items()}
    apart = {VERSION, "ids", "names"}
    sinks = {name: {k: v for k, v in sink.items() if k not in apart} for name, sink in plain["sinks"].items()}
    return {**plain, "range": ends, "sinks": sinks}
