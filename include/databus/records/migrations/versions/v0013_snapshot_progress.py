"""Progress of a snapshot behind each batch that took chunks of it along.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import JsonOrNull

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add `snapshot_progress` to `databus_batches`; what was stored before has none."""
    op.add_column("databus_batches", sa.Column("snapshot_progress", JsonOrNull))
    op.execute("UPDATE databus_schema SET version = 13")
