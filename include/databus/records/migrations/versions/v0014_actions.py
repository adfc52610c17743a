"""Actions that came by the API, each under the key of its request: what was asked and answered.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, JsonOrNull, UtcDateTime

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add `databus_actions`."""
    op.create_table(
        "databus_actions",
        sa.Column("id", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("asked", sa.String(64), nullable=False),
        sa.Column("attempt", sa.String(32), nullable=False),
        sa.Column("begun_at", UtcDateTime, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("answer", JsonOrNull),
        sa.PrimaryKeyConstraint("id", name="pk_databus_actions"),
        sa.UniqueConstraint("flow", "key", name="uq_databus_actions_flow_key"),
    )
    op.execute("UPDATE databus_schema SET version = 14")
