"""Ledger pages, and reports that are distinguished when they were filled in from history.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, Json, UtcDateTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add `databus_ledger`, and the column `refilled` to `databus_batches`."""
    op.create_table(
        "databus_ledger",
        sa.Column("id", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("entry", Json, nullable=False),
        sa.Column("paged_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_databus_ledger"),
        sa.UniqueConstraint("flow", "generation", "number", name="uq_databus_ledger_flow_generation_number"),
    )
    op.add_column("databus_batches", sa.Column("refilled", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute("UPDATE databus_schema SET version = 2")
