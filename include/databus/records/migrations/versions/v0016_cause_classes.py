"""Kinds of causes of held rows: servers quote ids and values of rows in a cause, and by these no two rows share one.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from databus.core.batches.refusals import kind_of_cause

revision = "0016"
down_revision = "0015"

_CHUNK = 1_000


def upgrade() -> None:
    """Add `cause_class` to `databus_quarantine`, and name the kinds of what is held."""
    op.add_column("databus_quarantine", sa.Column("cause_class", sa.Text))
    held = sa.table("databus_quarantine", *map(sa.column, ("id", "stage", "cause", "cause_class")))
    connection, after = op.get_bind(), 0
    while found := connection.execute(_behind(held, after)).all():
        of_class: dict[str, list[int]] = {}
        for number, stage, cause in found:
            of_class.setdefault(kind_of_cause(stage, cause), []).append(number)
        for named, numbers in of_class.items():
            connection.execute(held.update().where(held.c.id.in_(numbers)).values(cause_class=named))
        after = found[-1][0]
    op.execute("UPDATE databus_schema SET version = 16")


def _behind(held: sa.TableClause, after: int) -> Any:
    c = held.c
    return sa.select(c.id, c.stage, c.cause).where(c.id > after).order_by(c.id).limit(_CHUNK)
