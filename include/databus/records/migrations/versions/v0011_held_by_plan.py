"""Held rows with the hash of the plan that held them: numbers of batches begin anew where a flow's state is lost.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add `plan_hash` to `databus_quarantine`; of what was stored before it is not known."""
    op.add_column("databus_quarantine", sa.Column("plan_hash", sa.String(64)))
    op.execute("UPDATE databus_schema SET version = 11")
