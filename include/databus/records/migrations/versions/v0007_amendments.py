"""An index of the ledger pages that hold something else than a commit: between them a flow only goes forward.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the index; pages that are there are in it as well."""
    amended = sa.text("action <> 'commit'")
    columns = ["flow", "generation", "number"]
    op.create_index(
        "ix_databus_ledger_amended", "databus_ledger", columns, sqlite_where=amended, postgresql_where=amended
    )
    op.execute("UPDATE databus_schema SET version = 7")
