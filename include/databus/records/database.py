"""Records database access: its version, time-outs, and messages of failures, shared by all ways to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 16
"""Raised by every migration; a databus from before migrations refuses what it does not know by it."""

SCHEMA_TABLE = "databus_schema"
"""Holds that version."""

VERSION_TABLE = "databus_alembic_version"
"""Alembic's own table, under a name of ours: Airflow keeps its `alembic_version` in what may be the same database."""

BUSY_TIMEOUT_MS = 5_000
"""How long a writer to SQLite waits for another one; one that was paused in its transaction must not stop the rest."""

BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {},
    "postgresql": {"connect_timeout": 5, "tcp_user_timeout": 10_000, "options": "-c lock_timeout=5s"},
}
"""Bounds of a server that is away or of a lock that is not given back; seconds, milliseconds, PostgreSQL's settings."""

CHECK_IT = "Check DATABUS_RECORDS_URL, that the database runs and that its disk is not full."


def revision(version: int) -> str:
    """Return Alembic's name of a version."""
    return f"{version:04d}"
