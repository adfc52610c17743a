"""Migrations on SQLite: new, adopted, newer, and what they leave equals the tables in the code."""

from __future__ import annotations

import importlib
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from databus.core.errors import RecordingError
from databus.records.database import SCHEMA_VERSION, VERSION_TABLE, revision
from databus.records.migrations import versions
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.tables import metadata, schema_version
from tests.contract.record_samples import report
from tests.contract.records_v1 import insert_batch, statements


@pytest.fixture
def old(tmp_path):
    """A database as databus 0.1 left it, with one batch in it; yields its file."""
    file = tmp_path / "records.db"
    with sqlite3.connect(file) as connection:
        for statement in [*statements("sqlite"), *insert_batch()]:
            connection.execute(statement)
    connection.close()
    return file


def state(connection: sa.Connection) -> tuple[list[str], int]:
    revisions = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    return list(revisions), connection.execute(sa.select(schema_version.c.version)).scalar_one()


def test_a_new_database_gets_the_tables_of_the_code(store):
    with store.transaction() as connection:
        assert state(connection) == (["0016"], SCHEMA_VERSION)
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_a_database_from_before_migrations_is_adopted_with_its_rows(old):
    with RecordStore(f"sqlite:///{old}") as store:
        (kept,) = Reports(store).batches("orders", "run-1")
        assert (kept.batch, kept.rows, kept.refilled) == (7, 0, False)
        SqlRecorder(store).record(report())
        with store.transaction() as connection:
            assert state(connection) == (["0016"], SCHEMA_VERSION)
            context = MigrationContext.configure(
                connection, opts={"version_table": VERSION_TABLE, "compare_type": True}
            )
            assert compare_metadata(context, metadata) == []


def test_revisions_are_unique_and_follow_each_other():
    named, folder = {}, Path(versions.__file__).parent
    for file in sorted(folder.glob("v*.py")):
        module = importlib.import_module(f"{versions.__name__}.{file.stem}")
        assert module.revision not in named, f"{file.name} and {named[module.revision]} are both {module.revision}"
        named[module.revision] = file.name
        assert (module.revision, file.name[1:5]) == (file.name[1:5], f"{len(named):04}"), file.name
        assert module.down_revision == (f"{len(named) - 1:04}" if len(named) > 1 else None), file.name
    assert max(named) == revision(SCHEMA_VERSION)


def test_what_was_held_before_causes_had_kinds_gets_them(store):
    with store.transaction():
        pass
    connection, insert = sqlite3.connect(str(store.url).removeprefix("sqlite:///")), "INSERT INTO databus_quarantine "
    with connection:
        connection.execute("ALTER TABLE databus_quarantine DROP COLUMN cause_class")
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0015'")
        connection.execute("UPDATE databus_schema SET version = 15")
        for number in range(1_500):
            cause, stage = (f"too_large: {number}", "kafka") if number % 2 else ("not_null(a), in_range(b)", "check")
            connection.execute(
                f"{insert} (flow, event_id, stage, batch, table_name, cause, position, payload, first_held_at, "
                "last_held_at) VALUES ('o', ?, ?, 1, 't', ?, 'p', '{}', '2026-01-01', '2026-01-01')",
                (f"e{number}", stage, cause),
            )
    connection.close()
    with RecordStore(str(store.url)) as again, again.transaction() as opened:
        kinds = opened.exec_driver_sql("SELECT cause_class, count(*) FROM databus_quarantine GROUP BY 1 ORDER BY 1")
        assert kinds.all() == [("not_null(a), in_range(b)", 750), ("too_large", 750)]


def test_opening_again_changes_nothing(store):
    with store.transaction() as connection:
        before = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name").all()
    with RecordStore(str(store.url)) as again, again.transaction() as connection:
        assert connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name").all() == before


def test_a_newer_revision_is_refused_by_name(store):
    with store.transaction() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
    with RecordStore(str(store.url)) as older, pytest.raises(RecordingError, match="revision 0099") as refused:
        SqlRecorder(older).record(report())
    assert refused.value.code == "recording_schema_version"
    assert "revision 0016" in refused.value.message


def test_a_newer_database_from_before_migrations_is_refused_and_left_as_it_is(old):
    connection = sqlite3.connect(old)
    connection.execute("UPDATE databus_schema SET version = 99")
    connection.commit()
    with RecordStore(f"sqlite:///{old}") as store, pytest.raises(RecordingError, match="version 99"):
        SqlRecorder(store).record(report())
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert VERSION_TABLE not in tables
    assert "databus_ledger" not in tables


def test_a_migration_that_fails_leaves_nothing_behind(old):
    connection = sqlite3.connect(old)
    connection.execute("CREATE TABLE databus_ledger (other TEXT)")  # in the way of revision 0002
    connection.commit()
    with RecordStore(f"sqlite:///{old}") as store, pytest.raises(RecordingError, match="databus_ledger"):
        SqlRecorder(store).record(report())
    columns = [row[1] for row in connection.execute("PRAGMA table_info(databus_batches)")]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "refilled" not in columns
    assert VERSION_TABLE not in tables
    connection.execute("DROP TABLE databus_ledger")
    connection.commit()
    connection.close()
    with RecordStore(f"sqlite:///{old}") as store:
        assert [kept.batch for kept in Reports(store).batches("orders", "run-1")] == [7]
