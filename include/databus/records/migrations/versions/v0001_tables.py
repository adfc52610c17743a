"""The tables of databus 0.1: runs, batches, counts, receipts, checks, quarantine, quality.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, Json, UtcDateTime

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "databus_schema",
        sa.Column("version", sa.Integer, nullable=False, autoincrement=False),
        _key("databus_schema", "version"),
    )
    op.create_table(
        "databus_runs",
        _id(),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("run_id", sa.String(250), nullable=False),
        sa.Column("run_url", sa.Text, nullable=False),
        _key("databus_runs"),
        sa.UniqueConstraint("flow", "run_id", name="uq_databus_runs_flow_run_id"),
    )
    op.create_table(
        "databus_batches",
        _id(),
        sa.Column("run", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
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
        _key("databus_batches"),
        sa.UniqueConstraint("flow", "batch", "plan_hash", name="uq_databus_batches_flow_batch_plan_hash"),
        _reference("databus_batches", "run", "databus_runs"),
    )
    op.create_index("ix_databus_batches_run", "databus_batches", ["run"])
    _of_batch(
        "databus_table_counts",
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("read", sa.BigInteger, nullable=False),
        sa.Column("filtered", sa.BigInteger, nullable=False),
        sa.Column("quarantined", sa.BigInteger, nullable=False),
        sa.Column("dispatched", sa.BigInteger, nullable=False),
    )
    _of_batch(
        "databus_receipts",
        sa.Column("sink", sa.Text, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("written", sa.BigInteger, nullable=False),
        sa.Column("rejected", sa.BigInteger, nullable=False),
        sa.Column("duplicate", sa.Boolean, nullable=False),
        sa.Column("rows", Json, nullable=False),
        sa.Column("outputs", Json, nullable=False),
    )
    _of_batch(
        "databus_check_results",
        sa.Column("check_name", sa.Text, nullable=False),
        sa.Column("kind", sa.String(100), nullable=False),
        sa.Column("column_name", sa.Text),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("severity", sa.String(20), nullable=False),
        sa.Column("evaluated", sa.BigInteger, nullable=False),
        sa.Column("violations", sa.BigInteger, nullable=False),
        sa.Column("observed", sa.Text, nullable=False),
    )
    op.create_table(
        "databus_quarantine",
        _id(),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("event_id", sa.String(500), nullable=False),
        sa.Column("stage", sa.String(250), nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("position", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("first_held_at", UtcDateTime, nullable=False),
        sa.Column("last_held_at", UtcDateTime, nullable=False),
        _key("databus_quarantine"),
        sa.UniqueConstraint("flow", "event_id", "stage", name="uq_databus_quarantine_flow_event_id_stage"),
    )
    op.create_table(
        "databus_quality_results",
        _id(),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("run_id", sa.String(250), nullable=False),
        sa.Column("success", sa.Boolean, nullable=False),
        sa.Column("worst", sa.String(20)),
        sa.Column("evaluated", sa.BigInteger, nullable=False),
        sa.Column("violations", sa.BigInteger, nullable=False),
        sa.Column("result", Json, nullable=False),
        sa.Column("evaluated_at", UtcDateTime, nullable=False),
        _key("databus_quality_results"),
        sa.UniqueConstraint("flow", "run_id", name="uq_databus_quality_results_flow_run_id"),
    )
    op.execute("INSERT INTO databus_schema (version) VALUES (1)")


def _id() -> sa.Column[int]:
    return sa.Column("id", Id, nullable=False)


def _key(table: str, column: str = "id") -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(column, name=f"pk_{table}")


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE")


def _of_batch(table: str, *columns: sa.Column[object]) -> None:
    batch = sa.Column("batch", Id, nullable=False)
    op.create_table(table, _id(), batch, *columns, _key(table), _reference(table, "batch", "databus_batches"))
    op.create_index(f"ix_{table}_batch", table, ["batch"])
