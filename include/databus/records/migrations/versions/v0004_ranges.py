"""Ranges by which a change is found, the code that moved a batch, and the windows whose lineage was sent.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.records.columns import Id, Json, UtcDateTime
from databus.records.ranges import ranges_of_batch

revision = "0004"
down_revision = "0003"

_COLUMNS = ("flow", "side", "stream", "upto", "after", "batch")
_ROWS = 1000


def upgrade() -> None:
    """Add `databus_ranges`, filled from the reports that are there, `databus_lineage_runs`, and `code_version`."""
    ranges = op.create_table(
        "databus_ranges",
        sa.Column("id", Id, nullable=False),
        sa.Column("batch", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("side", sa.String(10), nullable=False),
        sa.Column("stream", sa.String(500), nullable=False),
        sa.Column("after", sa.BigInteger, nullable=False),
        sa.Column("upto", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_databus_ranges"),
        sa.ForeignKeyConstraint(
            ["batch"], ["databus_batches.id"], name="fk_databus_ranges_batch_databus_batches", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_databus_ranges_batch", "databus_ranges", ["batch"])
    op.create_index("ix_databus_ranges_place", "databus_ranges", list(_COLUMNS))
    _fill(ranges)
    op.add_column("databus_batches", sa.Column("code_version", sa.String(50), nullable=False, server_default=""))
    op.create_table(
        "databus_lineage_runs",
        sa.Column("id", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("run_id", sa.String(250), nullable=False),
        sa.Column("clear", sa.Integer, nullable=False),
        sa.Column("parent", sa.String(50), nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default=""),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("start_sent", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("end_sent", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("id", name="pk_databus_lineage_runs"),
        sa.UniqueConstraint("flow", "run_id", "clear", name="uq_databus_lineage_runs_flow_run_id_clear"),
    )
    op.create_index("ix_databus_lineage_runs_open", "databus_lineage_runs", ["flow", "end_sent"])
    op.execute("UPDATE databus_schema SET version = 4")


def _fill(ranges: sa.Table) -> None:
    """Derive the ranges of what was recorded before; the tables are named as they are at this revision."""
    connection = op.get_bind()
    batches = sa.table("databus_batches", sa.column("id"), sa.column("flow"), sa.column("range_start", Json),
                       sa.column("range_end", Json))  # fmt: skip
    receipts = sa.table("databus_receipts", sa.column("batch"), sa.column("outputs", Json))
    last = 0
    while True:
        page = connection.execute(
            sa.select(batches).where(batches.c.id > last).order_by(batches.c.id).limit(_ROWS)
        ).all()
        if not page:
            return
        last = page[-1].id
        outputs: dict[int, list[dict[str, object]]] = {}
        mine = (receipts.c.batch >= page[0].id) & (receipts.c.batch <= last)
        for receipt in connection.execute(sa.select(receipts.c.batch, receipts.c.outputs).where(mine)):
            outputs.setdefault(receipt.batch, []).append(receipt.outputs)
        rows = [
            {"batch": batch.id, "flow": batch.flow, **row}
            for batch in page
            for row in ranges_of_batch(batch.range_start, batch.range_end, outputs.get(batch.id, []))
        ]
        if rows:
            connection.execute(sa.insert(ranges), rows)
