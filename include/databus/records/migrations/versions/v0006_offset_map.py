"""Offset maps of mirrors.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.state.checkpoint import HistoryEntry
from databus.records.columns import Id, Json, UtcDateTime
from databus.records.offset_map_rows import map_rows

revision = "0006"
down_revision = "0005"

_PAGES = 200


def upgrade() -> None:
    """Add `databus_offset_map`, filled from the ledger's pages."""
    offset_map = op.create_table(
        "databus_offset_map",
        sa.Column("id", Id, nullable=False),
        sa.Column("flow", sa.String(100), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("incarnation", sa.Integer, nullable=False),
        *(
            column
            for side, known in (("source", True), ("target", False))
            for column in (
                sa.Column(f"{side}_topic", sa.String(249), nullable=False),
                sa.Column(f"{side}_partition", sa.Integer, nullable=False),
                sa.Column(f"{side}_from", sa.BigInteger, nullable=not known),
                sa.Column(f"{side}_upto", sa.BigInteger, nullable=not known),
            )
        ),
        sa.Column("spans", Json, nullable=False),
        sa.Column("paged_at", UtcDateTime, nullable=False),
        sa.Column("outlived", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("id", name="pk_databus_offset_map"),
    )
    for side in ("source", "target"):
        columns = ["flow", *(f"{side}_{name}" for name in ("topic", "partition", "upto", "from"))]
        op.create_index(f"ix_databus_offset_map_{side}", "databus_offset_map", columns)
    op.create_index("ix_databus_offset_map_page", "databus_offset_map", ["flow", "generation", "number"])
    _fill(offset_map)
    op.execute("UPDATE databus_schema SET version = 6")


def _fill(offset_map: sa.Table) -> None:
    """Take over what is in the pages; the table is named as it is at this revision."""
    connection = op.get_bind()
    names = ("id", "flow", "generation", "action")
    ledger = sa.table("databus_ledger", *map(sa.column, names), sa.column("entry", Json),
                      sa.column("paged_at", UtcDateTime))  # fmt: skip
    last = 0
    while True:
        wanted = sa.select(ledger).where((ledger.c.id > last) & (ledger.c.action == "commit"))
        pages = connection.execute(wanted.order_by(ledger.c.id).limit(_PAGES)).all()
        if not pages:
            return
        last = pages[-1].id
        rows = []
        for page in pages:
            try:
                entry = HistoryEntry.from_json(page.entry)
            except (CheckpointFormatError, KeyError, TypeError, ValueError, AttributeError):
                continue  # told by `databus ledger --verify`
            rows += map_rows(page.flow, page.generation, [entry], page.paged_at)
        if rows:
            connection.execute(sa.insert(offset_map), rows)
