"""Column types that behave alike on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

Json = sa.JSON().with_variant(JSONB(), "postgresql")
"""JSON text on SQLite, JSONB on PostgreSQL."""

JsonOrNull = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""The same of a column that may be NULL: a plain one would hold JSON's null."""

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A generated key; SQLite generates only INTEGER ones."""


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware UTC time; SQLite keeps no zone, so the zone is put back on reading."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        """Turn an aware time into UTC; a naive one is refused."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        """Return an aware UTC time."""
        if value is None:
            return None
        stored: datetime = value
        return stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC)
