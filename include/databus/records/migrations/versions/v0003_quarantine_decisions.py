"""Quarantine decisions: what people decided about rows held back.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, UtcDateTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add `databus_quarantine_decisions`."""
    op.create_table(
        "databus_quarantine_decisions",
        sa.Column("id", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("event_id", sa.String(500), nullable=False),
        sa.Column("stage", sa.String(250), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("replay", sa.BigInteger),
        sa.Column("origin", sa.BigInteger),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_databus_quarantine_decisions"),
        sa.UniqueConstraint("flow", "event_id", "stage", name="uq_databus_quarantine_decisions_flow_event_id_stage"),
    )
    op.execute("UPDATE databus_schema SET version = 3")
