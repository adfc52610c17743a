"""The records store on real databases: a PostgreSQL server, and an SQLite file that several processes share."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from databus.core.batches.counts import TableCounts
from databus.core.errors import RecordingError
from databus.core.state.plan import LostRange
from databus.records.database import SCHEMA_VERSION, VERSION_TABLE
from databus.records.overview import overview
from databus.records.provenance import Provenance
from databus.records.quality.result import evaluate_run
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.quick_reader import RecordReader
from databus.records.ranges import SOURCE
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.summary import summarize
from databus.records.tables import metadata, schema_version
from databus.sandbox import Sandbox
from databus.sandbox.connections import postgres_url
from tests.contract.growth import GrowthContract
from tests.contract.ledger_pages import LedgerPagesContract
from tests.contract.many_partitions import ManyPartitionsContract
from tests.contract.merged_pages import MergedPagesContract
from tests.contract.record_samples import NOON, check, held, report
from tests.contract.records_v1 import insert_batch, statements
from tests.ports import ports_from

pytestmark = pytest.mark.integration
PASSWORD = "p@ss/w%rd$HOME:x"
RUN = "scheduled__2026-11-21T12:00:00+00:00"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    sandbox = Sandbox(tmp_path_factory.mktemp("postgres"), ports_from=ports_from(24_000))
    sandbox.up(["postgres"])
    yield sandbox
    sandbox.destroy()


@pytest.fixture(scope="module")
def postgres(sandbox):
    """The URL of the sandbox's PostgreSQL, with a role whose password wants quoting."""
    (server,) = sandbox.status()
    url = sa.make_url(postgres_url(server))
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE quoted SUPERUSER LOGIN PASSWORD '{PASSWORD.replace('%', '%%')}'")
    admin.dispose()
    return url.set(username="quoted", password=PASSWORD)


@pytest.fixture
def database(postgres):
    """The URL of a new database on the server."""
    name = f"records_{secrets.token_hex(4)}"
    admin = sa.create_engine(postgres, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    admin.dispose()
    return postgres.set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/records.db" if request.param == "sqlite" else request.getfixturevalue("database")


def test_reports_quarantine_and_sums_are_the_same_on_both(url):
    with SqlRecorder.open(url) as recorder:
        sent = report(1)
        recorder.record(sent)
        recorder.record(sent)
        recorder.record(report(2))
        for batch in (1, 2):
            recorder.quarantine("orders_to_kafka", batch, [held(f"e{n}", "ü\n'x'") for n in range(600)])
        reports = Reports(recorder.store)
        first, _second = found = reports.batches("orders_to_kafka", RUN)
        assert (first.tables, first.checks, first.watermark) == (sent.tables, sent.checks, sent.watermark)
        assert first.committed_at == sent.committed_at
        assert {**first.receipts[0], "batch": 1} == sent.receipts[0].to_json()
        assert summarize("orders_to_kafka", RUN, found).total.read == 24
        rows = reports.quarantined("orders_to_kafka")
        assert len(rows) == 600
        assert {row.cause for row in rows} == {"ü\n'x'"}
        assert reports.newest("orders_to_kafka")[0].batch == 2


def test_the_overview_of_flows_is_the_same_on_both(url):
    now = NOON + timedelta(minutes=6)
    with SqlRecorder.open(url) as recorder:
        for batch in (1, 2):
            recorder.record(report(batch, committed_at=NOON))
        recorder.record(report(7, flow="other", committed_at=now, tables={"shop.orders": TableCounts(12, 0, 0, 12)}))
        passed = report(1, flow="passed")
        recorder.record(replace(passed, lost=LostRange(passed.plan.range, "purged: mysql-bin.000001")))
        recorder.record(report(1, flow="other.backfill-missing-0123456789ab-0"))
        recorder.quarantine("other", 7, [held("e1"), held("e2"), held("e2", stage="search")])
        rows = HeldRows(recorder.store, "other")
        rows.discard(rows.select(Selection(event_ids=("e1",))), ("me", "wrong", now))
        found = {flow.flow: flow for flow in overview(recorder.store, now)}
    shown = {name: (flow.batch, flow.recent_rows, flow.held_rows, flow.refused_rows) for name, flow in found.items()}
    assert shown == {"orders_to_kafka": (2, 0, 0, 0), "other": (7, 12, 1, 1), "passed": (1, 12, 0, 0)}
    assert (found["passed"].lost, found["passed"].gaps_passed) == ("purged: mysql-bin.000001", 1)


def test_a_batch_is_looked_up_by_plain_sql_on_both(url, monkeypatch):
    with SqlRecorder.open(url) as recorder:
        recorder.record(report(1))
        recorder.quarantine("orders_to_kafka", 1, [held("e1", "100% 'x' :y")])
        (stored,) = Reports(recorder.store).newest("orders_to_kafka")
    monkeypatch.setattr("databus.records.store.RecordStore", None)  # nothing is left to SQLAlchemy
    with RecordReader(url) as reader:
        provenance = Provenance(reader)
        (stream,) = provenance.streams(stored.flow, SOURCE)
        after, upto = provenance.bounds(stored.flow, SOURCE, stream)
        assert after < upto == provenance.first_where(stored.flow, stream, lambda end: end == stored.end)
        assert provenance.read(stored.flow, stream, upto) == [stored]
        assert set(provenance.outputs(stored.flow)) == {receipt["sink"] for receipt in stored.receipts}
        (row,) = provenance.held(stored.flow, ["e1", "e2"])
        assert (row["event_id"], row["cause"], row["last_held_at"].tzinfo) == ("e1", "100% 'x' :y", UTC)
        assert provenance.held(stored.flow, []) == []
        with pytest.raises(RecordingError, match="nowhere"), reader.snapshot() as select:
            select("SELECT * FROM nowhere")
        assert provenance.flows() == [stored.flow]  # the connection goes on
        assert PASSWORD not in repr(reader)


def test_great_expectations_judges_the_metrics_where_they_are(url):
    name = "accepted_values(status, ['it''s', '100%'])"
    with SqlRecorder.open(url) as recorder:
        recorder.record(report(1, checks=(check(0), check(3, name, kind="accepted_values", severity="fail"))))
        quality = evaluate_run(recorder.store, "orders_to_kafka", RUN, NOON)
        assert not quality.success
        assert (quality.worst, quality.violations, quality.evaluated) == ("fail", 3, 32)
        assert [m.check for m in quality.metrics if m.violations] == [name]
        stored = Reports(recorder.store).quality("orders_to_kafka", RUN)
        assert stored == quality.result
        assert stored["statistics"]["unsuccessful_expectations"] == 1


WRITER = """
import sys
from databus.records.recorder import SqlRecorder
from tests.contract.record_samples import held, report
url, first = sys.argv[1], int(sys.argv[2])
with SqlRecorder.open(url) as recorder:
    for batch in range(first, first + 10):
        recorder.quarantine("orders_to_kafka", batch, [held()])
        recorder.record(report(batch))
"""


def test_judging_leaves_no_connection_open(database, postgres):
    with SqlRecorder.open(database) as recorder:
        recorder.record(report(1))
        evaluate_run(recorder.store, "orders_to_kafka", RUN, NOON)
    admin = sa.create_engine(postgres)
    open_to = sa.text("SELECT query FROM pg_stat_activity WHERE datname = :name")
    deadline = time.monotonic() + 20  # the server notices a closed connection a little later
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while left := connection.execute(open_to, {"name": sa.make_url(database).database}).scalars().all():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
    admin.dispose()


def together(url, firsts):
    """Record ten batches from each number on, overlapping: each second one is recorded by two processes."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "include")])}

    def run(first):
        command = [sys.executable, "-c", WRITER, url, str(first)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(len(firsts)) as pool:
        ended = list(pool.map(run, firsts))
    assert [(process.returncode, process.stderr) for process in ended] == [(0, "")] * len(firsts)


def test_processes_that_start_together_make_the_tables_once_and_lose_nothing(url):
    together(url, (1, 6, 11, 16))
    with RecordStore(url) as store:
        assert sorted(b.batch for b in Reports(store).batches("orders_to_kafka", RUN)) == list(range(1, 26))
        assert len(Reports(store).quarantined("orders_to_kafka")) == 1


def test_a_wrong_password_is_named_without_showing_it(database):
    wrong = sa.make_url(database).set(password="hidden").render_as_string(hide_password=False)
    with SqlRecorder.open(wrong) as recorder, pytest.raises(RecordingError, match="authentication") as refused:
        recorder.record(report())
    assert "hidden" not in str(refused.value)


def test_a_store_that_comes_back_is_written_to_again(database, postgres):
    """Connections that the server has cut are replaced."""
    with SqlRecorder.open(database) as recorder:
        recorder.record(report(1))
        admin = sa.create_engine(postgres, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            mine = sa.make_url(database).database
            connection.execute(
                sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :mine"), {"mine": mine}
            )
        admin.dispose()
        recorder.record(report(2))
        assert len(Reports(recorder.store).batches("orders_to_kafka", RUN)) == 2


def test_a_database_from_before_migrations_is_adopted_by_processes_that_start_together(database):
    admin = sa.create_engine(database)
    with admin.begin() as connection:
        for statement in [*statements("postgresql"), *insert_batch()]:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("SELECT setval('databus_runs_id_seq', 1), setval('databus_batches_id_seq', 1)")
    admin.dispose()
    together(database, (1, 6, 11))
    with RecordStore(database) as store, store.transaction() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert context.get_current_revision() == "0016"
        assert compare_metadata(context, metadata) == []
        assert connection.execute(sa.select(schema_version.c.version)).scalars().all() == [SCHEMA_VERSION]
    with RecordStore(database) as store:
        assert [b.batch for b in Reports(store).batches("orders", "run-1")] == [7]
        assert sorted(b.batch for b in Reports(store).batches("orders_to_kafka", RUN)) == list(range(1, 21))


def test_the_tables_are_those_of_the_code(url):
    with RecordStore(url) as store, store.transaction() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_a_newer_schema_is_refused_by_name(url):
    with RecordStore(url) as store, store.transaction() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
    with SqlRecorder.open(url) as older, pytest.raises(RecordingError, match="revision 0099") as refused:
        older.record(report())
    assert refused.value.code == "recording_schema_version"


class TestLedgerPages(LedgerPagesContract):
    """The pages, on PostgreSQL; on SQLite: unit/records/test_ledger_pages.py."""

    @pytest.fixture
    def url(self, database):
        return database


class TestManyPartitions(ManyPartitionsContract):
    """Places of many partitions, on PostgreSQL; on SQLite: unit/records/test_ledger_pages.py."""

    @pytest.fixture
    def url(self, database):
        return database


class TestMergedPages(MergedPagesContract):
    """Old batches merged, on PostgreSQL; on SQLite: unit/records/test_ledger_pages.py."""

    @pytest.fixture
    def url(self, database):
        return database


class TestGrowth(GrowthContract):
    """A year's growth, on PostgreSQL; on SQLite: unit/records/test_ledger_pages.py."""

    @pytest.fixture
    def url(self, database):
        return database
