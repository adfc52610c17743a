"""`SequenceTable` on PostgreSQL and MySQL: rows committed late are not missed; what it cannot read is named."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from databus import Flow, Kafka
from databus.connections.airflow_format import to_json
from databus.core.batching import Batching
from databus.core.connections import Connection
from databus.core.errors import (
    OffsetInvalidError,
    OffsetPurgedError,
    SequenceTableError,
    SourceDivergedError,
    SourceUnavailableError,
)
from databus.core.findings import Level
from databus.core.positions.offsets import SequenceOffset
from databus.core.positions.pg_snapshot import PgSnapshotOffset
from databus.ops.ledger.verify import verify
from databus.ops.services import open_services
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.accounts import APPLICATION
from databus.testing.contract import SourceContract
from databus.testing.contract.source import EVERYTHING, IMPATIENT
from tests.integration.conftest import Started
from tests.integration.kafka_target import consume
from tests.integration.one_process import OneProcessWorld
from tests.integration.sequence_servers import Outbox, Reader, Writers, faults_of, rows_of
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
NONE = {"missed": 0, "not there": 0, "twice": 0, "out of order": 0, "cut": 0}
MARKS = "CREATE TABLE {}.databus_cleaned (log_table varchar(200) PRIMARY KEY, cleaned_by varchar(200), place text)"
_NUMBERS = itertools.count(1)
Made = Callable[[str], Outbox]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A PostgreSQL, and a MySQL that says who holds locks."""
    options = SandboxOptions(sql_options={"mysql": {"performance_schema": "ON"}})
    sandbox = Sandbox(tmp_path_factory.mktemp("sequence"), ports_from=ports_from(23_800), options=options)
    sandbox.up(["postgres", "mysql"])
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def make(servers: Sandbox) -> Iterator[Made]:
    """Make tables of the test's own by engine."""
    made: list[Outbox] = []

    def outbox(engine: str) -> Outbox:
        host, port = servers.address(engine).split(":")
        made.append(Outbox(engine, host, int(port), f"outbox_{next(_NUMBERS)}"))
        return made[-1]

    yield outbox
    for each in made:
        each.drop()


@pytest.fixture(params=["postgres", "mysql"])
def outbox(request: pytest.FixtureRequest, make: Made) -> Outbox:
    """A table on each of the two."""
    return make(str(request.param))


class Subject:
    """The table, for the contract."""

    def __init__(self, outbox: Outbox):
        self._outbox = outbox
        self.begin = outbox.open().earliest_offset()

    def open(self) -> Any:
        return self._outbox.open()

    def grow(self) -> None:
        with self._outbox.transaction() as connection:
            for number in range(20):
                for k in range(3):
                    connection.exec_driver_sql(self._outbox.insert(f"g{number}", k, number))
                connection.commit()


class TestContract(SourceContract):
    counts_lag = False
    knows_times = False

    @pytest.fixture
    def subject(self, outbox: Outbox) -> Subject:
        return Subject(outbox)


def play(outbox: Outbox, seconds: float, writers: int, longest_s: float, seed: int, kill_every_s: float = 0) -> Reader:
    """Read beside writers for a while, then to the end."""
    choose, reader = random.Random(seed), Reader(outbox, seed)
    running = Writers(outbox, writers, longest_s, seed)
    with running:
        deadline = time.monotonic() + seconds
        next_kill = time.monotonic() + kill_every_s if kill_every_s else deadline
        while time.monotonic() < deadline:
            reader.step()
            if time.monotonic() > next_kill and kill_every_s:
                next_kill += kill_every_s
                reader.restart()
                kill_one(outbox, choose)
    while reader.step() or reader.source.lag(reader.place).bytes != 0:
        pass
    assert running.failures or not kill_every_s
    assert len(reader.rows) > 50
    assert faults_of(outbox, reader.rows) == NONE
    return reader


def kill_one(outbox: Outbox, choose: random.Random) -> None:
    """End the session of one writer."""
    if outbox.engine == "postgres":
        mine = "SELECT pid FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        end = "SELECT pg_terminate_backend({})"
    else:
        mine = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx"
        end = "KILL {}"
    found = outbox.sql(mine)
    if found:
        with contextlib.suppress(sa.exc.DBAPIError):  # it has ended by itself
            outbox.sql(end.format(choose.choice(found)[0]))


def test_rows_that_are_committed_late_are_read_once_and_in_order(outbox: Outbox) -> None:
    reader = play(outbox, seconds=3, writers=8, longest_s=1.5, seed=7)
    for plan, rows in random.Random(1).sample(reader.plans, min(8, len(reader.plans))):
        reader.restart()
        assert rows_of(reader.source, reader.source.reopen(plan.range)) == rows
    reader.source.close()


@pytest.mark.timeout(600)
def test_fifty_writers_kills_of_writers_and_of_the_reader(outbox: Outbox) -> None:
    reader = play(outbox, seconds=30, writers=50, longest_s=30, seed=11, kill_every_s=0.7)
    for plan, rows in reader.plans:
        assert rows_of(reader.source, reader.source.reopen(plan.range)) == rows
    reader.source.close()


def test_a_smaller_number_that_is_committed_later_comes_later(outbox: Outbox) -> None:
    """The history in one picture: number 1 is committed after 2."""
    source = outbox.open()
    begin = source.earliest_offset()
    with outbox.transaction() as late, outbox.transaction() as early:
        late.exec_driver_sql(outbox.insert("late"))
        early.exec_driver_sql(outbox.insert("early"))
        early.commit()
        first = source.plan(begin, IMPATIENT)
        assert source.lag(begin).seconds is not None
        assert not source.lag(begin).caught_up
        if outbox.engine == "postgres":
            assert [row["tag"] for row in rows_of(source, first)] == ["early"]
            assert source.plan(first.range.end, IMPATIENT) is None
        else:
            assert first is None
        late.commit()
    plan = source.plan(begin if first is None else first.range.end, EVERYTHING)
    assert [row["tag"] for row in rows_of(source, plan)] == (["late"] if first else ["late", "early"])
    source.close()


def test_cleaning_takes_what_was_delivered_alone(outbox: Outbox) -> None:
    outbox.sql(MARKS.format(outbox.schema))
    try:
        source = outbox.open(clean=True)
        assert [finding.level for finding in source.preflight(None)] == [Level.OK]
        begin = source.earliest_offset()
        with outbox.transaction() as late:
            late.exec_driver_sql(outbox.insert("late"))
            outbox.sql(outbox.insert("early"))
            if outbox.engine == "mysql":
                late.commit()
            plan = source.plan(begin, Batching(max_rows=1, max_wait=timedelta(seconds=2)))
            source.release(plan)
            late.commit()
        rest = source.plan(plan.range.end, EVERYTHING)
        assert [row["tag"] for row in rows_of(source, rest)] == (["late"] if outbox.engine == "postgres" else ["early"])
        assert outbox.sql(f"SELECT COUNT(*) FROM {outbox.name}") == [(1,)]
        with pytest.raises(OffsetPurgedError, match="were cleaned up to"):
            source.reopen(plan.range)
        source.release(rest)
        assert source.plan(rest.range.end, IMPATIENT) is None
        assert outbox.sql(f"SELECT COUNT(*) FROM {outbox.name}") == [(0,)]
        source.close()
    finally:
        outbox.sql(f"DROP TABLE {outbox.schema}.databus_cleaned")


def test_a_flow_that_begins_at_the_head_reads_what_comes(outbox: Outbox) -> None:
    outbox.sql(outbox.insert("before"))
    source = outbox.open(start="latest")
    begin = source.start_offset()
    outbox.sql(outbox.insert("behind"))
    assert [row["tag"] for row in rows_of(source, source.plan(begin, EVERYTHING))] == ["behind"]
    source.close()


def test_a_table_that_goes_away_is_named(outbox: Outbox) -> None:
    source = outbox.open()
    begin = source.earliest_offset()
    outbox.sql(outbox.insert())
    plan = source.plan(begin, EVERYTHING)
    outbox.sql(f"DROP TABLE {outbox.name}")
    with pytest.raises(SequenceTableError) as caught:
        rows_of(source, plan)
    assert caught.value.hint.startswith("Create the table")
    (finding,) = source.preflight(None)
    assert f"there is no table {outbox.schema}.{outbox.name}" in finding.message
    source.close()


def test_a_server_that_is_away_and_a_wrong_login_are_named(outbox: Outbox) -> None:
    away = outbox.connection.model_copy(update={"port": 1})
    with pytest.raises(SourceUnavailableError):
        outbox.open(login=away).earliest_offset()
    wrong = Connection(**{**dict(outbox.connection), "password": "hush-hush"})
    (finding,) = outbox.findings(login=wrong)
    assert finding.code == "source_access_denied"
    assert "hush-hush" not in str(finding)


class TestPostgres:
    @pytest.fixture
    def outbox(self, make: Made) -> Outbox:
        return make("postgres")

    def test_a_table_without_ids_of_transactions_gets_them_by_the_hint(self, outbox: Outbox) -> None:
        outbox.sql(outbox.insert("old"), f"ALTER TABLE {outbox.name} DROP COLUMN txid")
        (finding,) = outbox.findings()
        assert (finding.level, finding.code) == (Level.ERROR, "source_table_unfit")
        outbox.sql(*finding.hint.split("; "))
        source = outbox.open()
        assert [finding.level for finding in source.preflight(None)] == [Level.OK]
        outbox.sql(outbox.insert("new"))
        plan = source.plan(source.earliest_offset(), EVERYTHING)
        assert [row["tag"] for row in rows_of(source, plan)] == ["old", "new"]
        source.close()

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("ALTER COLUMN txid DROP DEFAULT", "not filled with the transaction's id"),
            ("ALTER COLUMN txid DROP NOT NULL", "that may be NULL"),
            ("DROP CONSTRAINT {0}_pkey", "id without an index"),
        ],
    )
    def test_what_the_table_lacks_is_named(self, outbox: Outbox, change: str, said: str) -> None:
        outbox.sql(f"ALTER TABLE {outbox.name} {change.format(outbox.name)}")
        (finding,) = outbox.findings()
        assert said in finding.message
        assert outbox.name in finding.hint

    def test_ids_without_an_index_are_named(self, outbox: Outbox) -> None:
        outbox.sql(f"DROP INDEX {outbox.name}_txid_idx")
        (finding,) = outbox.findings()
        outbox.sql(finding.hint)
        assert [each.level for each in outbox.findings()] == [Level.OK]

    def test_a_table_with_capitals_is_read_and_its_sequence_found(self, outbox: Outbox) -> None:
        outbox.sql(outbox.insert(), f'ALTER TABLE {outbox.name} RENAME TO "Outbox 1"')
        try:
            source = outbox.open(table="public.Outbox 1")
            assert [finding.level for finding in source.preflight(None)] == [Level.OK]
            assert source.plan(source.earliest_offset(), EVERYTHING).rows == 1
            outbox.sql('ALTER TABLE "Outbox 1" ALTER id SET CACHE 5')
            assert [finding.level for finding in source.preflight(None)] == [Level.WARN]
        finally:
            outbox.sql(f'ALTER TABLE "Outbox 1" RENAME TO {outbox.name}')

    def test_an_account_without_rights_is_told_which(self, outbox: Outbox) -> None:
        outbox.sql("DROP ROLE IF EXISTS looker", "CREATE ROLE looker LOGIN PASSWORD 'looker'")
        looker = Connection(**{**dict(outbox.connection), "login": "looker", "password": "looker"})
        (finding,) = outbox.findings(login=looker)
        assert finding.code == "source_access_denied"
        assert f"GRANT SELECT ON public.{outbox.name}" in finding.hint
        outbox.sql(f"GRANT SELECT ON public.{outbox.name} TO looker")
        assert [each.level for each in outbox.findings(login=looker)] == [Level.OK]
        outbox.sql(f"REVOKE ALL ON public.{outbox.name} FROM looker", "DROP ROLE looker")

    def test_a_server_behind_the_checkpoint_is_refused(self, outbox: Outbox) -> None:
        ahead = PgSnapshotOffset("900000000:900000000:")
        source = outbox.open()
        with pytest.raises(SourceDivergedError):
            source.plan(ahead, IMPATIENT)
        (finding,) = source.preflight(ahead)
        assert finding.code == "source_diverged"

    def test_types_of_the_table(self, outbox: Outbox) -> None:
        outbox.sql(
            f"ALTER TABLE {outbox.name} ADD j jsonb, ADD u uuid, ADD n numeric, ADD m numeric(12,2), ADD b boolean, "
            "ADD f float8, ADD d date, ADD a int[], ADD w interval",
            f"INSERT INTO {outbox.name} (j, u, n, m, b, f, d, a, w) VALUES ('{{\"a\": 1}}', "
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 1e30, 1.10, true, 0.5, '2026-01-02', '{1,2}', '1 day')",
        )
        source = outbox.open(columns=("j", "u", "n", "m", "b", "f", "d", "a", "w"))
        (row,) = rows_of(source, source.plan(source.earliest_offset(), EVERYTHING))
        assert row == {
            "j": '{"a": 1}', "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "n": "1" + "0" * 30, "m": 1.1, "b": 1,
            "f": 0.5, "d": "2026-01-02", "a": "{1,2}", "w": "1 day",
        }  # fmt: skip
        source.close()


class TestMysql:
    @pytest.fixture
    def outbox(self, make: Made) -> Outbox:
        return make("mysql")

    def test_types_of_the_table(self, outbox: Outbox) -> None:
        outbox.sql(
            f"ALTER TABLE {outbox.name} ADD f double, ADD r float, ADD s SET('red', 'green', 'blue'), "
            "ADD e ENUM('small', 'large'), ADD m decimal(12,2), ADD j json, ADD b boolean, ADD w time",
            f"INSERT INTO {outbox.name} (f, r, s, e, m, j, b, w) "
            "VALUES (0.1, 0.5, 'blue,red', 'large', 1.10, '[1]', 1, '12:00:01')",
        )
        with outbox.transaction() as loose:
            loose.exec_driver_sql("SET SESSION sql_mode = ''")
            loose.exec_driver_sql(f"INSERT INTO {outbox.name} (e) VALUES ('huge')")
            loose.commit()
        source = outbox.open(columns=("f", "r", "s", "e", "m", "j", "b", "w"))
        first, second = rows_of(source, source.plan(source.earliest_offset(), EVERYTHING))
        assert first == {
            "f": 0.1, "r": 0.5, "s": "red,blue", "e": "large", "m": 1.1, "j": "[1]", "b": 1, "w": "12:00:01",
        }  # fmt: skip
        assert second["e"] == ""
        source.close()

    def test_a_writer_without_a_row_yet_is_waited_for(self, outbox: Outbox) -> None:
        """It may have taken a number; no lock of a row shows it."""
        source = outbox.open()
        with outbox.transaction() as slow:
            slow.exec_driver_sql(f"INSERT INTO {outbox.name} (k) SELECT 1 FROM DUAL WHERE 1 = 0")
            outbox.sql(outbox.insert("quick"))
            assert source.plan(SequenceOffset(0), IMPATIENT) is None
            slow.commit()
        assert source.plan(SequenceOffset(0), EVERYTHING).rows == 1
        source.close()

    def test_a_prepared_transaction_is_waited_for_though_its_session_ended(self, outbox: Outbox) -> None:
        source = outbox.open()
        session = outbox.sql_engine.raw_connection()
        cursor = session.cursor()
        xid = f"'{outbox.name}'"
        for statement in (f"XA START {xid}", outbox.insert("xa"), f"XA END {xid}", f"XA PREPARE {xid}"):
            cursor.execute(statement)
        session.driver_connection.close()
        outbox.sql(outbox.insert("quick"))
        assert source.plan(SequenceOffset(0), IMPATIENT) is None
        outbox.sql(f"XA COMMIT {xid}")
        assert [row["tag"] for row in rows_of(source, source.plan(SequenceOffset(0), EVERYTHING))] == ["xa", "quick"]
        source.close()

    @pytest.mark.parametrize("looks", ["each time", "before and after", "before and at the end"])
    def test_a_prepared_transaction_that_changes_hands_between_looks_is_waited_for(
        self, outbox: Outbox, looks: str
    ) -> None:
        source = outbox.open()
        session = outbox.sql_engine.raw_connection()
        cursor = session.cursor()
        xid = f"'{outbox.name}'"
        for statement in (f"XA START {xid}", outbox.insert("xa")):
            cursor.execute(statement)
        outbox.sql(outbox.insert("quick"))
        assert source.plan(SequenceOffset(0), IMPATIENT) is None
        for statement in (f"XA END {xid}", f"XA PREPARE {xid}"):
            cursor.execute(statement)
        if looks == "each time":
            assert source.plan(SequenceOffset(0), IMPATIENT) is None
        session.driver_connection.close()
        if looks != "before and at the end":
            for _ in range(3):
                assert source.plan(SequenceOffset(0), IMPATIENT) is None
        if looks == "each time":
            outbox.open().plan(SequenceOffset(0), IMPATIENT)
        with outbox.transaction() as locking:
            locking.exec_driver_sql("FLUSH TABLES WITH READ LOCK")  # holds the XA COMMIT back
            ending = threading.Thread(target=outbox.sql, args=(f"XA COMMIT {xid}",))
            ending.start()
            time.sleep(0.3)
            assert source.plan(SequenceOffset(0), IMPATIENT) is None
            locking.exec_driver_sql("UNLOCK TABLES")
            ending.join()
        assert [row["tag"] for row in rows_of(source, source.plan(SequenceOffset(0), EVERYTHING))] == ["xa", "quick"]
        source.close()

    def test_numbers_that_begin_again_are_refused_though_there_are_rows(self, outbox: Outbox) -> None:
        source = outbox.open()
        outbox.sql(*[outbox.insert()] * 5)
        end = source.plan(SequenceOffset(0), EVERYTHING).range.end
        outbox.sql(f"TRUNCATE {outbox.name}", outbox.insert())
        with pytest.raises(OffsetInvalidError, match="gives 2 as its next id") as caught:
            outbox.open().plan(end, IMPATIENT)
        (mend,) = re.findall(r"ALTER TABLE \S+ AUTO_INCREMENT = 6", caught.value.hint)
        outbox.sql(mend)
        assert outbox.open().plan(end, IMPATIENT) is None
        source.close()

    def test_an_account_that_may_not_see_locks_is_told_so(self, outbox: Outbox) -> None:
        shop = outbox.connection.model_copy(update={"login": APPLICATION.user, "password": APPLICATION.password})
        (finding,) = outbox.findings(login=shop)
        assert finding.code == "source_access_denied"
        assert "GRANT SELECT ON performance_schema.*" in finding.hint
        assert [each.level for each in outbox.findings(login=shop, lag_window=timedelta(seconds=1))] == [Level.OK]


def test_a_flow_brings_rows_to_kafka_once_and_its_ledger_adds_up(
    started: Started, outbox: Outbox, tmp_path: Path
) -> None:
    world = OneProcessWorld(started("zookeeper", "kafka"), tmp_path)
    world.environment[f"AIRFLOW_CONN_{outbox.connection.conn_id.upper()}"] = to_json(outbox.connection)
    outbox.sql(MARKS.format(outbox.schema))
    try:
        flow = Flow(
            name=f"{outbox.engine}_{outbox.name}",
            source=outbox.spec(),
            sinks=(Kafka(conn_id="kafka_east", topic=outbox.name, partitions=1, replication_factor=1),),
            batching=Batching(max_rows=20),
        )
        with Writers(outbox, 4, 0.4, seed=3):
            for _ in range(2):
                world.run(flow, max_batches=5)
        world.run(flow)
        values = [json.loads(message.value()) for message in consume(world.sandbox.address("kafka"), outbox.name)]
        assert faults_of(outbox, [value["after"] for value in values]) == NONE
        assert {value["op"] for value in values} == {"c"}
        with open_services(flow, world.connections, world.settings) as services:
            assert [str(problem) for problem in verify(flow, services, None).problems] == []
        outbox.sql(outbox.insert("last"))
        cleaning = flow.model_copy(update={"source": outbox.spec(clean=True)})
        world.run(cleaning)
        left = 0 if outbox.engine == "postgres" else len(values)  # by number, a run deletes what it has read
        assert outbox.sql(f"SELECT COUNT(*) FROM {outbox.name}") == [(left,)]
        assert len(consume(world.sandbox.address("kafka"), outbox.name)) == len(values) + 1
    finally:
        outbox.sql(f"DROP TABLE {outbox.schema}.databus_cleaned")


@pytest.mark.parametrize(("flavor", "said"), [("mysql", "performance_schema is off"), ("mariadb", "MariaDB does not")])
def test_a_server_that_does_not_say_who_holds_locks_is_refused(databases: Sandbox, flavor: str, said: str) -> None:
    host, port = databases.address(flavor).split(":")
    table = Outbox("mysql", host, int(port), f"outbox_{next(_NUMBERS)}")
    try:
        (finding,) = table.findings()
        assert (finding.level, finding.code) == (Level.ERROR, "source_setting")
        assert said in finding.message
        assert "lag_window" in finding.hint
        assert [each.level for each in table.findings(lag_window=timedelta(seconds=1))] == [Level.OK]
    finally:
        table.drop()
