"""A value of each stored form with all of its fields: what no short run of real flows writes.

`forms.json` of a fixture holds them as its version wrote them, and `rewritten` reads them as this version does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.schema_history.definition import (
    ColumnDefinition,
    DeclaredType,
    LogPosition,
    TableDefinition,
    TableName,
)
from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.binlog.schema_history.history import Entry, SchemaHistory
from databus.binlog.segments.kept_segments import KeptSegment
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.binlog.segments.store import PREPARED
from databus.checkpoints.claimant import WAITER
from databus.checkpoints.codec import OWNER
from databus.checkpoints.holder import EPOCH, LeaseHolder
from databus.checkpoints.nodes.large_values import REFERENCE
from databus.checkpoints.nodes.stored_outputs import StoredCheckpoint, restored
from databus.checkpoints.spool import SpooledPlan
from databus.core.alerts.alert import Alert, AlertEvent, AlertKind
from databus.core.alerts.book import AlertState, PendingNotification
from databus.core.batches.counts import TableCounts
from databus.core.positions.binlog_offset import PreparedTransaction
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange, SequenceOffset, offset_from_json
from databus.core.positions.pg_snapshot import PgSnapshotOffset
from databus.core.positions.topics_read import TopicsRead
from databus.core.state.amendments import Pause
from databus.core.state.backfill import Aim, Backfill, Boundary, Mode
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry, MergedCommits, ReplacedOutputs
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.state.snapshot import CaptureScope, ChunkFile, PlannedChunks, Snapshot, TableProgress
from databus.core.stored_form import Form
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.core.tables.unlogged import UnloggedChange
from databus.core.tables.wanted import wants_from_json, wants_to_json
from databus.sinks.kafka.markers import Marker
from databus.sources.mysql.snapshot.chunk_form import ChunkHead

AT = datetime(2026, 11, 27, 4, 30, 15, 250000, tzinfo=UTC)
FROM = BinlogOffset("mysql-bin.000001", 157, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
TO = replace(
    FROM, pos=990, gtids="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9", timeline=1, created_s=1_795_000_000, generation=2,
    server="3e11fa47-71ca-11e1-9e33-c80aa9429562",
    prepared=(PreparedTransaction("X'61',X'',1", "mysql-bin.000001", 200, 300),),
)  # fmt: skip
TOPICS = KafkaOffsets(
    {"orders": {0: 5, 1: 7}}, {"orders": "AAAAAAAAAAAAAAAAAAAAAA"}, {"orders": {0: 3}}, {"orders": {1: 1}},
    passed=True, lives={"orders": {1: {0: 0}}},
)  # fmt: skip
SNAPSHOTS = PgSnapshotOffset("10:20:10,14", "12:31:", 7)
RANGE = OffsetRange(FROM, TO)
COUNTS = {"shop.orders": TableCounts(9, 1, 1, 5, superseded=2, snapshot=4)}
SCHEMA = TableSchema(0, "shop", "orders", (ColumnSchema("id", "int", "int", nullable=False),), ("id",))

_TABLE = TableProgress("shop.orders", "reading", ("'7'",), 2, 900, 3, 5_000, "id > 3", ('{"id":7}',))
SNAPSHOT = Snapshot(
    2, "repair", AT, (_TABLE,), paused=True, finished_at=AT, cancelled=True, mends=(1,), resumed_at=AT, resumed_rows=5
)
_SINK = SinkPlan(2, (1, 1), {"orders": 2}, {"orders": "x"}, {"orders": "or$ders"}, ("orders",),
    {0: RegisteredSchemas("orders", 8, "0f" * 8, 7), 1: RegisteredSchemas("orders", 9, "0e" * 8, 6, (1, 3), (1,))},
)  # fmt: skip
_PLAN = Plan(
    "kept", "orders", 3, RANGE, {"kafka": _SINK}, "0123456789abcdef", AT, "live", closed_until=TO,
    chunks=PlannedChunks(SNAPSHOT, (ChunkFile("chunk-2-1", "ab" * 32, "shop.orders", 900, 3),)),
)  # fmt: skip
_CHECKPOINT = Checkpoint(
    TO, 3, Epoch(4), "run", _PLAN.hash, COUNTS, AT, AT, {"kafka": (3, 3)}, 833, {"rows": 10, "bytes": 99}, TO,
    {"kafka": {"orders": "x"}}, {"kafka": {"orders": "or$ders"}}, TO, {"search": ("orders",)}, 2,
)  # fmt: skip
_AFTER = replace(_CHECKPOINT, batch=2)
_ENTRY = HistoryEntry(3, "commit", "run", "", FROM, TO, 3, Epoch(4), COUNTS, (), AT, _PLAN.hash, AT, 833)
_ACCEPTED = ReplacedOutputs(3, {"kafka": {"orders": None}}, {"kafka": {"orders[0]": 2}})
_ALERT = Alert(
    "kept", "orders", AlertKind.LAG, "", 2, AlertEvent.RAISED, "lag 600 s", AT, AT, {"lag_seconds": 600.5}, "(1, 2]",
    "run", "http://airflow/run", "docs/runbooks/lag.md",
)  # fmt: skip
_ALERTED = AlertState(
    True, 2, AT, AT, AT, AT, (PendingNotification(_ALERT, ("email:ops",)),), "teller", AT, "(1, 2]", "run",
    "http://airflow/run",
)  # fmt: skip
_KIND = ColumnDefinition("kind", DeclaredType("enum", values=("a", "b")), "utf8mb4", nullable=True)
_DEFINITION = TableDefinition("shop", "orders", (ColumnDefinition("id", DeclaredType("int")), _KIND), ("id",))
_UNLOGGED = UnloggedChange(("shop.orders",), "ALTER TABLE orders DROP PARTITION p0", "mysql-bin.000001", 300, 400)
_PINNED = PinnedDefinition("mysql-bin.000001", 200, _DEFINITION)
_COMMIT = CommitPlace("mysql-bin.000001", 500, 600, "", 1_795_000_000_000, 2001)
_SEGMENT = Segment(
    "mysql-bin.000001.00000000000000000157.events", "mysql-bin.000001", 157, 990, 950, 4, {0: 9}, 1, 3, 3,
    checksum=True, table_events=(300,), commits=_COMMIT, min_ts_ms=1, gtids_before=FROM.gtids, definitions=(_PINNED,),
    unlogged=(_UNLOGGED,), others=True,
)  # fmt: skip
_INDEX = RangeIndex(RANGE, "shop.*", (SCHEMA,), (_SEGMENT,), 833, more=True, definitions=(_PINNED,), folds=True)
_KEPT = KeptSegment("mysql", TO.server, FROM.file, 157, 990, 122, 950, 4, FROM.gtids, TO.gtids, 1, 3, 1.5)
_HISTORY = SchemaHistory(
    FROM, LogPosition(1, 990), {TableName("shop", "orders"): [Entry(LogPosition(1, 157), _DEFINITION)]}
)
_HIDDEN = RememberedHidden(
    {"shop.orders": ("card",)}, {"shop.orders": ("shop.old",)}, {"shop.orders": ("cvc",)}, {"shop.orders": ("no",)},
    {"shop.orders_new": ("card\0pan",)},
)  # fmt: skip
_MARKERS = (
    Marker(3, "f123456789abcdef", "abandoned", chunk=-1, last=False, end=FROM.to_json(), at=str(FROM), before=""),
    Marker(4, "f123456789abcdef", chunk=2, last=False, done=15, written=14, outputs={"orders[0]": (0, 13, 14)},
           place=("orders[0]", 7, 0, 0)),
    Marker(5, "f123456789abcdef", outputs=None, epoch=7, refreshed_s=1_795_000_000),
)  # fmt: skip


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _same(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: _json(read(data).to_json())


def _plain(form: Form) -> Callable[[Any], Any]:
    return lambda data: form.write(form.read(data))


def _outcome(data: Mapping[str, Any]) -> Any:
    return _json(PlanOutcome.from_json(data, _AFTER).to_json(_AFTER))


def _beside(data: Mapping[str, Any]) -> Any:
    """Read a checkpoint with the outputs that are stored beside it, and write both again."""
    outputs = json.dumps(data["outputs"], sort_keys=True, separators=(",", ":")).encode()
    stored = StoredCheckpoint.of(restored(data["checkpoint"], outputs), data["checkpoint"]["history"])
    return _both(stored)


def _both(stored: StoredCheckpoint) -> Any:
    assert stored.outputs is not None
    return {"checkpoint": json.loads(stored.content), "outputs": json.loads(stored.outputs)}


def _marker(data: Mapping[str, Any]) -> Any:
    return json.loads(Marker.parse(data["batch"], json.dumps(data)).whole_metadata())


def _markers() -> list[Any]:
    return [json.loads(marker.whole_metadata()) for marker in _MARKERS]


KINDS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "offset": (_same(offset_from_json), [FROM, TO, TOPICS, SequenceOffset(7), SNAPSHOTS]),
    "plan": (_same(Plan.from_json), [_PLAN]),
    "checkpoint": (_same(Checkpoint.from_json), [_CHECKPOINT]),
    "checkpoint and its outputs": (_beside, [_both(StoredCheckpoint.of(_CHECKPOINT, 7))]),
    "history entry": (
        _same(HistoryEntry.from_json),
        [_ENTRY, replace(_ENTRY, merged=MergedCommits(1, 1, 3)), replace(_ENTRY, action="accept", replaced=_ACCEPTED)],
    ),
    "gap": (_same(Gap.from_json), [Gap(1, FROM, TO, "purged", "mended by snapshot 2", "ada", "known", AT, "http://a")]),
    "pause": (_same(Pause.from_json), [Pause("ada", "maintenance", AT)]),
    "boundary": (_same(Boundary.from_json), [Boundary(AT, TO)]),
    "backfill": (
        _same(Backfill.from_json),
        [Backfill("orders", Aim(Mode.REPLAY, ".again", "one"), RANGE, ("earliest", "latest"), (RANGE,), "ada", AT)],
    ),
    "alert state": (_same(AlertState.from_json), [_ALERTED]),
    "snapshot": (_same(Snapshot.from_json), [SNAPSHOT]),
    "capture scope": (_same(CaptureScope.from_json), [CaptureScope(("shop.*",), ("shop.logs",))]),
    "topics read": (_same(TopicsRead.from_json), [TopicsRead(3, AT, frozenset({"a"}), {"b": "x@7"}, "0123")]),
    "hidden columns": (_same(RememberedHidden.from_json), [_HIDDEN]),
    "accepted wants": (lambda data: wants_to_json(wants_from_json(data)), [wants_to_json({"amount of shop.orders"})]),
    "lease": (_same(LeaseHolder.from_json), [LeaseHolder("run", Epoch(4), AT, "worker", 7, "claim", "http://a")]),
    "epoch": (_plain(EPOCH), [EPOCH.write({"epoch": 4})]),
    "waiter": (_plain(WAITER), [WAITER.write({"who": "run", "since": AT.isoformat()})]),
    "turn or server id": (_plain(OWNER), [OWNER.write({"owner": "claim"})]),
    "reference to a large value": (_plain(REFERENCE), [REFERENCE.write({"sha256": "ab", "salt": "cd", "bytes": 7})]),
    "spooled plan": (_same(SpooledPlan.from_json), [SpooledPlan(_PLAN, 2, "h")]),
    "outcome of a plan": (_outcome, [PlanOutcome(_PLAN, _CHECKPOINT, (), COUNTS).to_json(_AFTER)]),
    "segment index": (_same(RangeIndex.from_json), [_INDEX]),
    "kept segment": (_same(KeptSegment.from_json), [_KEPT]),
    "kept prepare": (_plain(PREPARED), [PREPARED.write({"xid": "X'61',X'',1", "definitions": [_PINNED.to_json()]})]),
    "schema history": (_same(SchemaHistory.from_json), [_HISTORY]),
    "chunk": (
        _same(ChunkHead.from_json),
        [ChunkHead(SCHEMA, 2, 1, 1_795_000_000_000), ChunkHead(SCHEMA, 2, 2, 1_795_000_000_000, deletes=True)],
    ),
    "marker": (_marker, _markers()),
}
"""Kind of a stored value → how it is read and written again, and its samples."""


def samples() -> dict[str, list[Any]]:
    """Return the samples of each kind as they are stored."""
    return {
        kind: [_json(value.to_json() if hasattr(value, "to_json") else value) for value in values]
        for kind, (_, values) in KINDS.items()
    }


def rewritten(kind: str, stored: Any) -> Any:
    """Read a stored value and return what is written of it."""
    return KINDS[kind][0](stored)
