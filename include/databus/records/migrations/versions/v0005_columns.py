"""Column lineage of a run's outputs.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, Json

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add `databus_run_columns`; of earlier runs nothing is known."""
    op.create_table(
        "databus_run_columns",
        sa.Column("id", Id, nullable=False),
        sa.Column("run", Id, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("columns", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_databus_run_columns"),
        sa.ForeignKeyConstraint(
            ["run"], ["databus_runs.id"], name="fk_databus_run_columns_run_databus_runs", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("run", "digest", name="uq_databus_run_columns_run_digest"),
    )
    op.execute("UPDATE databus_schema SET version = 5")
