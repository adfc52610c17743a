"""Counts of rows that a snapshot brought, and of those among them that the log superseded.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add `superseded` and `snapshot` to `databus_table_counts`; what was stored before had none."""
    op.add_column("databus_table_counts", sa.Column("superseded", sa.BigInteger))
    op.add_column("databus_table_counts", sa.Column("snapshot", sa.BigInteger))
    op.execute("UPDATE databus_schema SET version = 12")
