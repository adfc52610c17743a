"""Ledger pages that are stored as differences to the page before them; those that are there are whole, and stay.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add `base` to `databus_ledger`."""
    op.add_column("databus_ledger", sa.Column("base", sa.BigInteger))
    op.execute("UPDATE databus_schema SET version = 8")
