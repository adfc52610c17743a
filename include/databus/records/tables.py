"""The tables of the records store, as the newest migration leaves them."""

from __future__ import annotations

import sqlalchemy as sa

from databus.records.columns import Id, Json, JsonOrNull, UtcDateTime
from databus.records.database import SCHEMA_TABLE

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

schema_version = sa.Table(
    SCHEMA_TABLE,
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)

runs = sa.Table(
    "databus_runs",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("run_id", sa.String(250), nullable=False),
    sa.Column("run_url", sa.Text, nullable=False),
    sa.UniqueConstraint("flow", "run_id"),
)

LOST = sa.text("lost IS NOT NULL")
"""Batches that passed over a gap: few, and found by an index of their own. Not a parameter, for that."""

batches = sa.Table(
    "databus_batches",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("run", Id, sa.ForeignKey(runs.c.id, ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),
    # A flow whose checkpoint was made anew numbers its batches from 1 again: the plan's hash distinguishes them.
    sa.Column("plan_hash", sa.String(64), nullable=False),
    sa.Column("spec_hash", sa.String(64), nullable=False),
    sa.Column("mode", sa.String(20), nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("range_start", Json, nullable=False),
    sa.Column("range_end", Json, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("durations_ms", Json, nullable=False),
    sa.Column("watermark", UtcDateTime),
    sa.Column("committed_at", UtcDateTime, nullable=False),
    # Filled in from history after a kill: durations, checks and the spec's hash are not known.
    sa.Column("refilled", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("code_version", sa.String(50), nullable=False, server_default=""),  # "" in older and refilled reports
    sa.Column("first_batch", sa.BigInteger),  # of several that were merged into this one; NULL in a single batch's
    sa.Column("snapshot_progress", JsonOrNull),  # behind the batch, as SnapshotProgress.to_json; NULL without chunks
    sa.Column("lost", sa.Text),  # why a part of its range, which it passed over, is gone; NULL where nothing is
    sa.UniqueConstraint("flow", "batch", "plan_hash"),
    # Named by hand. The first holds all that a chart needs of a batch, the second finds the few that passed over a gap.
    sa.Index("ix_databus_batches_chart", "flow", "committed_at", "rows", "watermark"),
    sa.Index("ix_databus_batches_lost", "flow", "committed_at", sqlite_where=LOST, postgresql_where=LOST),
)


def _of_batch() -> sa.Column[int]:
    return sa.Column("batch", Id, sa.ForeignKey(batches.c.id, ondelete="CASCADE"), nullable=False, index=True)


table_counts = sa.Table(
    "databus_table_counts",
    metadata,
    sa.Column("id", Id, primary_key=True),
    _of_batch(),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("read", sa.BigInteger, nullable=False),
    sa.Column("filtered", sa.BigInteger, nullable=False),
    sa.Column("quarantined", sa.BigInteger, nullable=False),
    sa.Column("dispatched", sa.BigInteger, nullable=False),
    sa.Column("superseded", sa.BigInteger),  # NULL for none
    sa.Column("snapshot", sa.BigInteger),  # NULL for none
)

receipts = sa.Table(
    "databus_receipts",
    metadata,
    sa.Column("id", Id, primary_key=True),
    _of_batch(),
    sa.Column("sink", sa.Text, nullable=False),
    sa.Column("slot", sa.Integer, nullable=False),
    sa.Column("written", sa.BigInteger, nullable=False),
    sa.Column("rejected", sa.BigInteger, nullable=False),
    sa.Column("duplicate", sa.Boolean, nullable=False),
    sa.Column("rows", Json, nullable=False),
    sa.Column("outputs", Json, nullable=False),
)

check_results = sa.Table(
    "databus_check_results",
    metadata,
    sa.Column("id", Id, primary_key=True),
    _of_batch(),
    sa.Column("check_name", sa.Text, nullable=False),
    sa.Column("kind", sa.String(100), nullable=False),
    sa.Column("column_name", sa.Text),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("severity", sa.String(20), nullable=False),
    sa.Column("evaluated", sa.BigInteger, nullable=False),
    sa.Column("violations", sa.BigInteger, nullable=False),
    sa.Column("observed", sa.Text, nullable=False),
)

quarantine = sa.Table(
    "databus_quarantine",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("event_id", sa.String(500), nullable=False),
    sa.Column("stage", sa.String(250), nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),  # number of the last batch that held it back
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("key", sa.Text),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("position", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("plan_hash", sa.String(64)),  # of that batch's plan; NULL in entries from before it was kept
    sa.Column("cause_class", sa.Text),  # kind of the cause, without ids and values of the row
    sa.Column("first_held_at", UtcDateTime, nullable=False),
    sa.Column("last_held_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("flow", "event_id", "stage"),
    sa.Index("ix_databus_quarantine_first", "flow", "first_held_at", "stage"),
)

quality_results = sa.Table(
    "databus_quality_results",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("run_id", sa.String(250), nullable=False),
    sa.Column("success", sa.Boolean, nullable=False),
    sa.Column("worst", sa.String(20)),  # severity of the worst violated check, NULL when none is violated
    sa.Column("evaluated", sa.BigInteger, nullable=False),
    sa.Column("violations", sa.BigInteger, nullable=False),
    sa.Column("result", Json, nullable=False),
    sa.Column("evaluated_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("flow", "run_id"),
)

AMENDED = sa.text("action <> 'commit'")
"""Pages that hold something else than a commit: few, and found by an index of their own. Not a parameter, for that."""

ledger = sa.Table(
    "databus_ledger",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    # Raised when a flow that has pages starts again from its first entry: its ZooKeeper nodes were deleted.
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("action", sa.String(50), nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),
    # The history entry; places of many partitions as differences to the page before it (`stored_places`).
    sa.Column("entry", Json, nullable=False),
    sa.Column("paged_at", UtcDateTime, nullable=False),
    sa.Column("base", sa.BigInteger),  # number of the whole page that it is read from on; NULL where it is whole
    sa.UniqueConstraint("flow", "generation", "number"),
    sa.Index(
        "ix_databus_ledger_amended", "flow", "generation", "number", sqlite_where=AMENDED, postgresql_where=AMENDED
    ),
)

quarantine_decisions = sa.Table(
    "databus_quarantine_decisions",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("event_id", sa.String(500), nullable=False),
    sa.Column("stage", sa.String(250), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),  # held, replayed, discarded; a row without an entry is held
    sa.Column("replay", sa.BigInteger),  # number of the last replay that took the row up
    sa.Column("origin", sa.BigInteger),  # number of the batch whose range that replay reads
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("flow", "event_id", "stage"),
)

ranges = sa.Table(
    "databus_ranges",
    metadata,
    sa.Column("id", Id, primary_key=True),
    _of_batch(),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("side", sa.String(10), nullable=False),  # source, output or snapshot
    sa.Column("stream", sa.String(500), nullable=False),  # server/timeline/stem of a log, topic[partition], snapshot-N
    sa.Column("after", sa.BigInteger, nullable=False),  # exclusive
    sa.Column("upto", sa.BigInteger, nullable=False),  # inclusive
    # Named by hand, and holding all that a look-up needs.
    sa.Index("ix_databus_ranges_place", "flow", "side", "stream", "upto", "after", "batch"),
)

lineage_runs = sa.Table(
    "databus_lineage_runs",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("run_id", sa.String(250), nullable=False),
    sa.Column("clear", sa.Integer, nullable=False),  # how often Airflow had cleared the run
    sa.Column("parent", sa.String(50), nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("state", sa.String(20), nullable=False, server_default=""),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("start_sent", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("end_sent", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("flow", "run_id", "clear"),
    sa.Index("ix_databus_lineage_runs_open", "flow", "end_sent"),
)

run_columns = sa.Table(
    "databus_run_columns",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("run", Id, sa.ForeignKey(runs.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("columns", Json, nullable=False),  # what one table gives one output (core.column_lineage)
    sa.UniqueConstraint("run", "digest"),
)

offset_map = sa.Table(
    "databus_offset_map",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),  # of the flow's ledger
    sa.Column("number", sa.BigInteger, nullable=False),  # of the ledger page that it stands in
    sa.Column("incarnation", sa.Integer, nullable=False),  # how often the source partition's log had been replaced
    sa.Column("source_topic", sa.String(249), nullable=False),
    sa.Column("source_partition", sa.Integer, nullable=False),
    sa.Column("source_from", sa.BigInteger, nullable=False),
    sa.Column("source_upto", sa.BigInteger, nullable=False),  # exclusive
    sa.Column("target_topic", sa.String(249), nullable=False),
    sa.Column("target_partition", sa.Integer, nullable=False),
    sa.Column("target_from", sa.BigInteger),  # NULL: no broker reported it, the neighbours bound it
    sa.Column("target_upto", sa.BigInteger),  # exclusive
    sa.Column("spans", Json, nullable=False),  # [source from, upto, target from, upto, 1 where both count up together]
    sa.Column("paged_at", UtcDateTime, nullable=False),
    sa.Column("outlived", sa.Boolean, nullable=False, server_default=sa.false()),  # rows before it were deleted
    # Named by hand. A look-up asks for rows that end behind a place, which are few.
    sa.Index("ix_databus_offset_map_source", "flow", "source_topic", "source_partition", "source_upto", "source_from"),
    sa.Index("ix_databus_offset_map_target", "flow", "target_topic", "target_partition", "target_upto", "target_from"),
    sa.Index("ix_databus_offset_map_page", "flow", "generation", "number"),
)

actions = sa.Table(
    "databus_actions",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("key", sa.String(200), nullable=False),  # of the request, chosen by who sends it
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("action", sa.String(50), nullable=False),
    sa.Column("asked", sa.String(64), nullable=False),  # digest of all that was asked
    sa.Column("attempt", sa.String(32), nullable=False),  # of the process that does it
    sa.Column("begun_at", UtcDateTime, nullable=False),
    sa.Column("status", sa.Integer),  # NULL while it is done, or was cut off
    sa.Column("answer", JsonOrNull),
    sa.UniqueConstraint("flow", "key"),
)

definitions = sa.Table(
    "databus_definitions",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("flow", sa.String(100), nullable=False),
    sa.Column("dag", sa.String(250), nullable=False),  # that ran it; "" where no run of Airflow did
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),  # number of the first batch that it moved
    sa.Column("since", UtcDateTime, nullable=False),  # when that was committed
    sa.Column("definition", Json, nullable=False),  # `Flow.shown`
    # Named by hand. The newest of a flow is looked up at each run's first report.
    sa.Index("ix_databus_definitions_newest", "flow", "id"),
)
