"""The store: URLs, tables, errors."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa

from databus.core.errors import ConfigError, RecordingError
from databus.records import store as stores
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.record_samples import report


@pytest.mark.parametrize("url", ["nonsense secret", "nosuch://u:secret@h/d", "mssql+pyodbc://u:secret@h/d"])
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigError) as refused:
        RecordStore(url)
    assert "DATABUS_RECORDS_URL" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_postgresql_gets_our_driver_and_no_password_in_its_repr():
    store = RecordStore("postgresql://user:secret@host/records")
    assert repr(store) == "RecordStore(postgresql+psycopg://user:***@host/records)"


def test_a_database_that_does_not_answer_is_a_recording_error():
    with (
        RecordStore("postgresql://user:secret@127.0.0.1:1/records") as store,
        pytest.raises(RecordingError, match=r"127\.0\.0\.1") as down,
    ):
        SqlRecorder(store).record(report())
    assert down.value.retryable
    assert "secret" not in str(down.value)


def test_a_folder_that_cannot_be_made_is_a_recording_error(tmp_path):
    (tmp_path / "file").touch()
    with RecordStore(f"sqlite:///{tmp_path}/file/records.db") as store, pytest.raises(RecordingError) as refused:
        SqlRecorder(store).record(report())
    assert "DATABUS_RECORDS_URL" in refused.value.hint


def test_tables_of_another_version_are_left_alone(store):
    SqlRecorder(store).record(report())
    with store.transaction() as connection:
        connection.exec_driver_sql("UPDATE databus_schema SET version = 99")
    with RecordStore(str(store.url)) as later, pytest.raises(RecordingError, match="99") as refused:
        SqlRecorder(later).record(report(2))
    assert refused.value.code == "recording_schema_version"


def test_sqlite_lets_readers_in_while_it_is_written_to(store):
    with store.transaction() as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        keys = connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one()
    assert (mode, keys) == ("wal", 1)


def test_a_naive_time_is_refused(store):
    naive = report().committed_at.replace(tzinfo=None)
    with pytest.raises(RecordingError):
        SqlRecorder(store).record(report(committed_at=naive))


def test_messages_do_not_repeat_what_rows_hold(store):
    with pytest.raises(RecordingError) as failed, store.transaction() as connection:
        connection.execute(sa.text("INSERT INTO nowhere VALUES (:v)"), {"v": "private"})
    assert "nowhere" in str(failed.value)
    assert "private" not in str(failed.value)


@pytest.fixture
def kept(store, monkeypatch):
    """A store whose file another process keeps for itself, as one does that was stopped in mid-write."""
    monkeypatch.setattr(stores, "BUSY_TIMEOUT_MS", 10)
    SqlRecorder(store).record(report())
    holder = sqlite3.connect(str(store.url.database), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield holder
    holder.close()


def test_a_file_that_another_process_keeps_is_read_all_the_same(store, kept):
    """Finding out that there is nothing to migrate takes no lock."""
    assert kept.in_transaction
    with RecordStore(str(store.url)) as later:
        assert SqlRecorder(later).paged("shop") == 0


def test_a_writer_waits_a_bounded_time_for_a_file_that_another_process_keeps(store, kept):
    with RecordStore(str(store.url)) as mine:
        for _ in range(2):
            with pytest.raises(RecordingError, match="locked") as refused:
                SqlRecorder(mine).record(report(2))
            assert refused.value.retryable
        kept.execute("ROLLBACK")
        SqlRecorder(mine).record(report(2))
