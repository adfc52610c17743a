"""Plans: what will be moved, pinned before anything is read."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from databus.core.positions.offsets import KafkaOffsets, Offset, OffsetRange, offset_from_json
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.state.snapshot import ChunkFile, PlannedChunks
from databus.core.stored_form import VERSION, Form, canonical_json
from databus.core.tables.schemas import MovedColumns, RenamedTable, TableChange, TableSchema
from databus.core.tables.unlogged import UnloggedChange

SINK_PLAN = Form("plan of a sink", "slots prev partitions", "ids names first", "schemas", part=True)
PLAN = Form("plan", "installation flow batch range sinks spec_hash clock mode", "closed_until", "chunks")


@dataclass(frozen=True)
class LostRange:
    """Part of a planned range that the log has lost, and that the source's own policy passes over.

    Attributes:
        range: from the planned range's start to where reading begins; places of many logs may lie apart.
        why: what is gone, and the setting that lets it pass.
    """

    range: OffsetRange
    why: str


@dataclass(frozen=True)
class SourcePlan:
    """Source plan: what a source proposes to read next.

    Attributes:
        range: (start, end], ending on a transaction boundary.
        tables: schemas of the tables with rows in the range; `schema_id` is the index.
        rows: row changes in the range, before any filter of the flow's transforms.
        bytes: log bytes in the range.
        first_commit_at: commit time of the first transaction, None for a range without any, or when unknown.
        watermark: running maximum of commit time at the end of the range, None when unknown.
        more: whether the log goes on past the end of this range already.
        statements: transactions that truncate or redefine captured tables.
        named: (op, table) of these statements as they are delivered, each pair once: op "t" or "m", and a table without
            columns, whose name is "" where the statement is on a database or on several tables.
        renamed: tables that these statements rename, in the order of the log.
        columns_renamed: of each statement that renames columns, in the order of the log: `database.table` behind it,
            and the columns before and after, all of them names from before it.
        table_changes: what statements do to names of tables and columns, in the order of the log, those of tables that
            are none of the flow's among them: one of these may take the place of one of the flow's.
        columns_moved: statements behind which names of a table's columns stand for others, in the order of the log.
        bound: whether `rows` is an upper bound only: the offsets of a Kafka log have holes that no request reports
            (control records, aborted transactions, compaction).
        unlogged: statements in the range that change rows without row events.
        passed: why the range is passed over unread by the source's own policy; "" for a range to read.
        lost: what the log does not hold any more of a range that was planned before; the rest is read.
        rows_before: of each table's schema, how many rows lie before a transaction boundary in front of its first one:
            a range of so many ends before rows of this schema. Empty where a source does not report.
        chunks: chunk files of a snapshot whose rows are delivered before those of the range; their rows are in `rows`.
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
    unlogged: tuple[UnloggedChange, ...] = ()
    lost: LostRange | None = None
    named: tuple[tuple[str, TableSchema], ...] = ()
    renamed: tuple[RenamedTable, ...] = ()
    columns_renamed: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    table_changes: tuple[TableChange, ...] = ()
    rows_before: tuple[int, ...] = ()
    columns_moved: tuple[MovedColumns, ...] = ()
    chunks: tuple[ChunkFile, ...] = ()

    @property
    def passes_over(self) -> LostRange | None:
        """Part of the range that is gone, and comes to no sink; None where nothing is."""
        return LostRange(self.range, self.passed) if self.passed else self.lost

    @property
    def start(self) -> Offset:
        """Offset at which reading begins: the range's start, or the end of what is lost of it."""
        return self.range.start if self.lost is None else self.lost.range.end

    @property
    def empty(self) -> bool:
        """Return whether nothing in the range concerns the flow."""
        return self.rows == 0 and self.statements == 0


@dataclass(frozen=True)
class SinkPlan:
    """Sink plan: what a sink pins before a batch is written.

    Attributes:
        slots: number of writers; a slot is written by one writer at a time.
        prev: last committed batch of each slot, 0 for a slot that never wrote; the compare-and-set of the writer. Slots
            that the sink had once and the plan has not stand behind them, and keep what they hold.
        partitions: output → partition count, for sinks that have partitions.
        ids: output → id that the server gave it, "" for a server that gives none. No part of the plan's hash: they are
            looked at before and while rows are written, and decide nothing of what is written.
        names: output → exact name, for outputs in whose names characters were replaced; no part of the hash either.
        first: outputs that had never held anything when the batch was planned, where the sink asks for that; each
            attempt of the plan takes them for new, whatever an earlier one has written.
        schemas: schema_id of a table → the registered schemas of its records, for sinks whose format has a registry.
    """

    slots: int = 1
    prev: tuple[int, ...] = (0,)
    partitions: Mapping[str, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    schemas: Mapping[int, RegisteredSchemas] = field(default_factory=dict)

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

    def also_first(self, given_up: SinkPlan | None, still: Sequence[str] = ()) -> SinkPlan:
        """Return it with more outputs that are new, although attempts of another plan may have left something there.

        Args:
            given_up: that plan, where it has just been given up.
            still: what was new to such plans before a gap that was passed over.
        """
        before = given_up.first if given_up is not None else ()
        return replace(self, first=tuple(sorted({*self.first, *before, *still})))

    def marks_after(self, batch: int) -> tuple[int, ...]:
        """Return the last batch of each slot after this one, also of slots that take no part in it."""
        return (*(batch,) * self.slots, *self.prev[self.slots :])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        known = {"ids": dict(self.ids), "names": dict(self.names), "first": list(self.first)}
        known["schemas"] = {str(number): found.to_json() for number, found in sorted(self.schemas.items())}
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
        known = dict(data.get("ids", {})), dict(data.get("names", {})), tuple(data.get("first", ()))
        schemas = {int(number): RegisteredSchemas.from_json(found) for number, found in data.get("schemas", {}).items()}
        return cls(data["slots"], tuple(data["prev"]), dict(data["partitions"]), *known, schemas)


@dataclass(frozen=True)
class Plan:
    """Plan of a batch: all that decides its output; written to ZooKeeper before anything is read.

    Attributes:
        installation: name of the installation, part of every marker's key.
        flow: flow name.
        batch: number of this plan; never reused, unchanged by a retry.
        range: (start, end].
        sinks: per sink name what it pinned.
        spec_hash: hash of the flow's definition and of the code version.
        clock: the plan's time; transforms know no other.
        mode: "live", or "replay" where rows are moved again that the flow has moved before.
        closed_until: how far plans went, beyond this one, that were closed before they were committed: sinks without
            markers may hold rows up to there. None for nowhere, and left out of JSON then.
        chunks: chunks of a snapshot that the batch takes along; None for none, and left out of JSON then.
    """

    installation: str
    flow: str
    batch: int
    range: OffsetRange
    sinks: Mapping[str, SinkPlan]
    spec_hash: str
    clock: datetime
    mode: str = "live"
    closed_until: Offset | None = None
    chunks: PlannedChunks | None = None

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        closed: dict[str, Any] = {"closed_until": self.closed_until.to_json()} if self.closed_until is not None else {}
        chunks: dict[str, Any] = {"chunks": self.chunks.to_json()} if self.chunks is not None else {}
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
                **closed,
                **chunks,
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
            offset_from_json(data["closed_until"]) if "closed_until" in data else None,
            PlannedChunks.from_json(data["chunks"]) if "chunks" in data else None,
        )

    @property
    def live_flow(self) -> str:
        """Name of the flow whose rows are moved; a backfill of it moves them under a name of its own."""
        return self.flow.partition(".")[0]

    def left_behind(self, marked: Container[str]) -> tuple[Offset | None, ...]:
        """Return how far rows may reach that sinks hold of this plan, and of those before it, once it is closed.

        Args:
            marked: sinks by whose markers it was closed: they hold nothing of it.
        """
        passed = isinstance(self.range.end, KafkaOffsets) and self.range.end.passed
        written = not passed and any(name not in marked for name in self.sinks)
        return (self.closed_until, self.range.end if written else None)

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
    if "closed_until" in plain:
        plain["closed_until"] = {k: v for k, v in plain["closed_until"].items() if k != VERSION}
    if "chunks" in plain:
        plain["chunks"] = _stripped(plain["chunks"])
    return {**plain, "range": ends, "sinks": sinks}


def _stripped(value: Any) -> Any:
    """Return stored JSON without any version in it; none of its fields is named by a user."""
    if isinstance(value, dict):
        return {name: _stripped(part) for name, part in value.items() if name != VERSION}
    return [_stripped(part) for part in value] if isinstance(value, list) else value
