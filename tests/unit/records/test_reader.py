"""Reading by plain SQL: the same as through SQLAlchemy, and what only SQLAlchemy can do is left to it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy as sa

from databus.core.errors import ConfigError, RecordingError
from databus.records.database import VERSION_TABLE
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.ranges import OUTPUT, SOURCE
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from tests.contract.record_samples import report

HEAVY = ("alembic", "opensearchpy", "pyarrow", "requests", "sqlalchemy", "urllib3", "yaml")


def test_a_batch_reads_the_same_as_through_sqlalchemy(store, reader):
    SqlRecorder(store).record(report())
    (stored,) = Reports(store).newest("orders_to_kafka")
    assert stored.checks
    assert stored.receipts
    provenance = Provenance(reader)
    (stream,) = provenance.streams(stored.flow, SOURCE)
    after, upto = provenance.bounds(stored.flow, SOURCE, stream)
    assert after < upto
    assert provenance.read(stored.flow, stream, upto) == [stored]
    assert {name for names in provenance.outputs(stored.flow).values() for name in names} == {
        name for receipt in stored.receipts for name in receipt["outputs"]
    }
    assert provenance.streams(stored.flow, OUTPUT)


def test_all_reads_of_a_snapshot_see_one_state(store, reader):
    SqlRecorder(store).record(report())
    count = "SELECT count(*) AS batches FROM databus_batches"
    with reader.snapshot() as select:
        assert select(count) == [{"batches": 1}]
        SqlRecorder(store).record(report(2))
        assert select(count) == [{"batches": 1}]
    with reader.snapshot() as select:
        assert select(count) == [{"batches": 2}]


def test_tables_that_are_missing_are_made(tmp_path):
    with RecordReader(f"sqlite:///{tmp_path / 'new' / 'records.db'}") as reader:
        assert Provenance(reader).flows() == []


@pytest.mark.parametrize("query", ["?timeout=9", ""])
def test_a_url_with_more_than_a_path_is_left_to_sqlalchemy(store, tmp_path, query):
    SqlRecorder(store).record(report())
    with RecordReader(f"{store.url}{query}") as reader:
        assert Provenance(reader).flows() == ["orders_to_kafka"]
        with reader.snapshot() as select:
            assert select("SELECT :a AS a", a="x:y") == [{"a": "x:y"}]


def test_a_newer_database_is_refused(store, reader):
    with store.transaction() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
    with pytest.raises(RecordingError) as caught:
        Provenance(reader).flows()
    assert caught.value.code == "recording_schema_version"


def test_what_the_database_refuses_is_named(store, reader):
    refused = pytest.raises(RecordingError, match=r"RecordReader\(sqlite.*no such table: nowhere")
    with refused as caught, reader.snapshot() as select:
        select("SELECT * FROM nowhere")
    assert "DATABUS_RECORDS_URL" in caught.value.hint


def test_a_server_that_is_away_is_named_without_its_password():
    url = "postgresql+psycopg://databus:sesame@127.0.0.1:1/records?connect_timeout=1"
    with RecordReader(url) as reader, pytest.raises(RecordingError) as caught:
        Provenance(reader).flows()
    assert "sesame" not in f"{caught.value} {reader!r}"
    assert caught.value.retryable


@pytest.mark.parametrize("url", ["postgresql://me:s3same@h/db", "postgresql+psycopg://me:s3/same:x@h/db?y=a@b"])
def test_a_repr_shows_no_password(url):
    assert "s3" not in repr(RecordReader(url))
    assert repr(RecordReader("postgresql://me@h:5432/db")) == "RecordReader(postgresql://me@h:5432/db)"


def test_another_kind_of_url_is_refused():
    with RecordReader("mysql://me@here/records") as reader, pytest.raises(ConfigError, match="DATABUS_RECORDS_URL"):
        Provenance(reader).flows()


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "records.db").write_text("no database at all, but long enough to be looked at " * 40)
    with RecordReader(f"sqlite:///{tmp_path / 'records.db'}") as reader, pytest.raises(RecordingError):
        Provenance(reader).flows()
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(tmp_path / "records.db").execute("SELECT 1 FROM sqlite_master")


def test_a_look_up_loads_neither_sqlalchemy_nor_a_search_client(store):
    SqlRecorder(store).record(report())
    code = (
        "import sys\n"
        "import databus.cli.trace, databus.ops.trace.follow\n"
        "import databus.sinks.kafka.tracing.topic_reader, databus.sinks.elasticsearch.tracing\n"
        "from databus.records.provenance import Provenance\n"
        "from databus.records.quick_reader import RecordReader\n"
        f"with RecordReader({str(store.url)!r}) as reader: print(Provenance(reader).flows())\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['orders_to_kafka']", "[]"]
