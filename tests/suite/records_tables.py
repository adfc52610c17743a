"""The tables of a new SQLite records store, as the migrations made them once in this process.

Some 1,000 tests open a store of their own. To run fifteen migrations for each takes 80 ms of CPU, to execute what they
have left behind 3 ms. A database with anything in it is migrated as always, and so is every one of the tests that are
about migrations.
"""

from __future__ import annotations

import sqlite3
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

MIGRATING = ("unit/records/test_schema.py", "unit/records/test_store.py", "integration/test_records.py")
"""Tests for which migrations run."""

_STORE = "databus.records.store"


@cache
def statements() -> tuple[str, ...]:
    """Return what makes the tables that all migrations leave behind in an empty database."""
    import sqlalchemy as sa

    from databus.records.schema import migrate

    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        migrate(connection, "the template of tests")
        made: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        found = tuple(line for line in made.iterdump() if line not in {"BEGIN TRANSACTION;", "COMMIT;"})
    engine.dispose()
    return found


def made_or_migrated(connection: Any, place: str) -> bool:
    """Make the tables in an empty SQLite database; migrate any other, as `databus.records.schema.migrate`."""
    from databus.records import schema

    empty = (
        connection.dialect.name == "sqlite"
        and not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    )
    if not empty:
        return schema.migrate(connection, place)
    for statement in statements():
        connection.exec_driver_sql(statement)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let new stores be made so in this test, if it is not about migrations."""
    store: Any = sys.modules.get(_STORE)
    if store is not None:
        from databus.records import schema

        about = Path(item.path).as_posix().endswith(MIGRATING)
        store.migrate = schema.migrate if about else made_or_migrated
