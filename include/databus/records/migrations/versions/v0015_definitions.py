"""Definitions of flows, as their batches were moved by, and indexes for charts of a flow.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, Json, UtcDateTime

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add `databus_definitions`, empty: what moved earlier batches is not known. Add indexes, which cover all rows."""
    op.create_table(
        "databus_definitions",
        sa.Column("id", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("dag", sa.String(250), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("definition", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_databus_definitions"),
    )
    op.create_index("ix_databus_definitions_newest", "databus_definitions", ["flow", "id"])
    chart = ["flow", "committed_at", "rows", "watermark"]
    op.create_index("ix_databus_batches_chart", "databus_batches", chart)
    lost = sa.text("lost IS NOT NULL")
    columns = ["flow", "committed_at"]
    op.create_index("ix_databus_batches_lost", "databus_batches", columns, sqlite_where=lost, postgresql_where=lost)
    op.create_index("ix_databus_quarantine_first", "databus_quarantine", ["flow", "first_held_at", "stage"])
    op.execute("UPDATE databus_schema SET version = 15")
