"""Alembic environment: migrations run on the connection and in the transaction of `databus.records.schema`."""

from __future__ import annotations

from alembic import context

from databus.records.database import VERSION_TABLE
from databus.records.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
