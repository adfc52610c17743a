from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from databus.records import schema
from databus.records import store as module
from databus.records.store import RecordStore
from tests.suite import records_tables
from tests.suite.records_tables import MIGRATING, made_or_migrated
from tests.suite.steady import ROOT


def made(path: Path) -> list[str]:
    """Return all that is in a new store after its first use."""
    with RecordStore(f"sqlite:///{path}") as store, store.transaction():
        pass
    with sqlite3.connect(path) as connection:
        dump = list(connection.iterdump())
    connection.close()
    return dump


def test_a_new_store_has_the_tables_that_migrations_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.migrate is made_or_migrated  # type: ignore[attr-defined]
    short = made(tmp_path / "short.db")
    monkeypatch.setattr(module, "migrate", schema.migrate)
    assert made(tmp_path / "migrated.db") == short
    assert sum(line.startswith("CREATE TABLE") for line in short) > 10


def test_a_store_of_an_earlier_databus_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_tables, "statements", lambda: pytest.fail("it is not empty"))
    old = (ROOT / "tests/contract/records_v1_sqlite.sql").read_text()
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.executescript(old)
    connection.close()
    assert any("alembic_version" in line for line in made(tmp_path / "old.db"))


def test_the_tests_of_migrations_are_there() -> None:
    assert all((ROOT / "tests" / file).exists() for file in MIGRATING)
