"""Reports of batches that passed over a range which is gone.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add `lost` to `databus_batches`; of what was stored before it is not known."""
    op.add_column("databus_batches", sa.Column("lost", sa.Text))
    op.execute("UPDATE databus_schema SET version = 10")
