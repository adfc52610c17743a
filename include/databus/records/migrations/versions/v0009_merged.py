"""Reports that several batches were merged into.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add `first_batch` to `databus_batches`."""
    op.add_column("databus_batches", sa.Column("first_batch", sa.BigInteger))
    op.execute("UPDATE databus_schema SET version = 9")
