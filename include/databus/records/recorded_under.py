"""Under which names a run is recorded: its flow's, or those of the pieces that a run of a backfill DAG moves."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from databus.core.state.backfill import pieces_moved_by


def recorded_under(column: sa.ColumnElement[str], name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row belongs to a name.

    Args:
        column: names that rows are kept under.
        name: a flow, or a backfill DAG, to which the pieces of its flow belong as well.
    """
    beginning = pieces_moved_by(name)
    own: sa.ColumnElement[bool] = column == name
    if beginning is None:
        return own
    # LIKE would take the underscores of a name for any character, and on SQLite small letters for capitals.
    begins: sa.ColumnElement[Any] = sa.func.substr(column, 1, len(beginning))
    return own | (begins == beginning)
