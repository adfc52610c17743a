"""Each fault a user can make: a named error with a hint, the checkpoint unmoved, nothing lost once it is mended.

Every case runs against the real servers, what a task refuses through Spark, and the doctor is asked about the same
flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from databus import Batching, DropColumns, Elasticsearch, Filter, Flow, Kafka, Mask, MysqlBinlog, NotNull
from databus.core.errors import DatabusError
from databus.core.findings import Level
from databus.demo.consumers import index_documents, topic_records
from databus.demo.oracle import fold
from databus.ops.health.doctor import examine_flow
from databus.ops.runs.view import run_view
from databus.records.reports import quarantined
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.window_result import WindowResult
from tests.integration.conftest import World
from tests.integration.one_process import run_locally
from tests.integration.statements import run_sql

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@dataclass
class Bench:
    """A table with three committed rows behind a flow, ready to be broken."""

    world: World
    database: str

    def __post_init__(self) -> None:
        self.execute("CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2), note VARCHAR(50))")

    def execute(self, *statements: str) -> None:
        with self.world.sql(self.database) as connection:
            run_sql(connection, *statements)

    @property
    def table(self) -> str:
        return f"{self.database}.orders"

    def flow(self, **changes: Any) -> Flow:
        options = {
            "name": f"bad_{self.database}",
            "source": MysqlBinlog(conn_id="mysql_shop", tables=(self.table,), snapshot="never"),
            "sinks": (Kafka(conn_id="kafka_east", topic=self.database),),
            "batching": Batching(max_wait=timedelta(seconds=0.2)),
        }
        return Flow(**{**options, **changes})

    def run(self, flow: Flow) -> WindowResult:
        """Run a flow: without Spark, where that can be."""
        return (run_locally if may_be_direct(flow) and not flow.checks else World.run)(self.world, flow)

    def start(self, flow: Flow) -> Any:
        """Run once so that the flow has a checkpoint, with one row delivered."""
        self.run(flow)
        self.execute("INSERT INTO orders VALUES (1, 1.50, 'one')")
        self.run(flow)
        return self.world.checkpoint(flow)

    def delivered(self) -> dict[str, Any]:
        seen = fold(topic_records(self.world.sandbox.address("kafka"), self.database))
        assert (seen.duplicates, seen.disordered) == (0, 0)
        return seen.state.get(self.table, {})


@pytest.fixture
def bench(world: World, database: str) -> Bench:
    return Bench(world, database)


def refused(bench: Bench, flow: Flow, code: str, hint: str, *, spark: bool = False) -> DatabusError:
    """Run the broken flow: the error is the named one and the checkpoint stands where it stood."""
    before = bench.world.checkpoint(flow)
    with pytest.raises(DatabusError) as caught:
        (bench.world.run if spark else bench.run)(flow)
    error = caught.value
    assert error.code == code, error
    assert hint.lower() in error.hint.lower(), error.hint
    assert bench.world.checkpoint(flow) == before
    return error


def diagnosed(bench: Bench, flow: Flow, code: str) -> None:
    """Ask the doctor: it finds the same fault and says what to do."""
    findings = [f for f in examine_flow(flow, bench.world.connections) if f.level is not Level.OK]
    assert code in {f.code for f in findings}, findings
    assert all(f.hint for f in findings if f.code == code), findings


@contextmanager
def mysql_set(bench: Bench, variable: str, value: str) -> Iterator[None]:
    with bench.world.sql() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{variable}")
        former = cursor.fetchone()[0]
        cursor.execute(f"SET GLOBAL {variable} = '{value}'")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {variable} = '{former}'")


def mended(bench: Bench, flow: Flow, expected: set[str]) -> None:
    """Run the mended flow: everything that was written meanwhile arrives, once."""
    bench.run(flow)
    assert set(bench.delivered()) == expected


def test_wrong_password(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
    conn_id = bench.world.override("mysql_shop", password="wrong")
    broken = bench.flow(source=MysqlBinlog(conn_id=conn_id, tables=(bench.table,), snapshot="never"))
    error = refused(bench, broken, "source_access_denied", "password", spark=True)
    assert "wrong" not in str(error)
    diagnosed(bench, broken, "source_access_denied")
    mended(bench, flow, {'{"id":1}', '{"id":2}'})


def test_server_down(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    conn_id = bench.world.override("mysql_shop", port=1)
    broken = bench.flow(source=MysqlBinlog(conn_id=conn_id, tables=(bench.table,), snapshot="never"))
    assert refused(bench, broken, "source_unavailable", "server").retryable
    diagnosed(bench, broken, "source_unavailable")
    bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
    mended(bench, flow, {'{"id":1}', '{"id":2}'})


def test_kafka_down(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
    conn_id = bench.world.override("kafka_east", extra={"bootstrap.servers": "127.0.0.1:1"})
    broken = bench.flow(sinks=(Kafka(conn_id=conn_id, topic=bench.database, timeout=timedelta(seconds=2)),))
    assert refused(bench, broken, "sink_unavailable", "broker", spark=True).retryable
    diagnosed(bench, broken, "sink_unavailable")
    mended(bench, flow, {'{"id":1}', '{"id":2}'})


def test_zookeeper_down(bench: Bench) -> None:
    conn_id = bench.world.override("zookeeper_default", port=1, extra={"connect_timeout_s": 2})
    broken = bench.flow(zookeeper_conn_id=conn_id)
    with pytest.raises(DatabusError) as caught:
        bench.run(broken)
    assert caught.value.code == "checkpoint_unavailable"
    assert caught.value.hint
    diagnosed(bench, broken, "checkpoint_unavailable")


def test_unknown_connection(bench: Bench) -> None:
    broken = bench.flow(source=MysqlBinlog(conn_id="mysql_nowhere", tables=(bench.table,)))
    with pytest.raises(DatabusError) as caught:
        bench.run(broken)
    assert caught.value.code == "connection_missing"
    assert "AIRFLOW_CONN_MYSQL_NOWHERE" in caught.value.hint
    diagnosed(bench, broken, "connection_missing")


def test_binlog_format_not_row(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    with mysql_set(bench, "binlog_format", "STATEMENT"):
        findings = examine_flow(flow, bench.world.connections)
        named = [f for f in findings if "binlog_format" in f.subject]
        assert [f.level for f in named] == [Level.ERROR]
        assert "SET GLOBAL binlog_format" in named[0].hint
        before = bench.world.checkpoint(flow)
        with bench.world.sql(bench.database) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
            cursor.execute("INSERT INTO orders VALUES (2, 2, 'two')")
        # A statement in the log is a row change that cannot be known: reading stops there.
        error = refused(bench, flow, "source_decode", "binlog_format=ROW", spark=True)
        assert before.offset.file in error.message
    # The statement stays in the log: only a person can decide what it did.
    refused(bench, flow, "source_decode", "binlog_format=ROW")


def test_row_metadata_not_full(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    with mysql_set(bench, "binlog_row_metadata", "MINIMAL"):
        diagnosed(bench, flow, "source_setting")
        bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
        mended(bench, flow, {'{"id":1}', '{"id":2}'})
        bench.execute("INSERT INTO orders VALUES (3, 3, 'three')", "CREATE TABLE parted AS SELECT 1 AS n")
        bench.execute("ALTER TABLE orders RENAME COLUMN note TO remark", "INSERT INTO orders VALUES (4, 4, 'four')")
        mended(bench, flow, {'{"id":1}', '{"id":2}', '{"id":3}', '{"id":4}'})


def test_rows_of_an_unknown_definition(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    with mysql_set(bench, "binlog_row_metadata", "MINIMAL"):
        bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
        bench.execute("ALTER TABLE orders RENAME COLUMN note TO remark")
        error = refused(bench, flow, "source_schema_unknown", "binlog_row_metadata=FULL")
    assert "RENAME COLUMN note TO remark" in error.message


def test_no_primary_key_is_refused_by_search(bench: Bench) -> None:
    bench.execute("CREATE TABLE keyless (a INT, b INT)")
    flow = bench.flow(
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{bench.database}.keyless",), snapshot="never"),
        sinks=(Elasticsearch(conn_id="opensearch_default", index=bench.database),),
    )
    error = refused(bench, flow, "sink_no_primary_key", "exclude_tables")
    assert "keyless" in error.message
    assert bench.world.checkpoint(flow) is None
    diagnosed(bench, flow, "sink_no_primary_key")
    bench.execute("ALTER TABLE keyless ADD PRIMARY KEY (a)")
    bench.run(flow)
    # Once it runs, the batch that comes to rows without a key stops in front of them.
    bench.execute("INSERT INTO keyless VALUES (1, 2)", "ALTER TABLE keyless DROP PRIMARY KEY")
    bench.run(flow)
    bench.execute("INSERT INTO keyless VALUES (3, 4)")
    assert "keyless" in refused(bench, flow, "sink_no_primary_key", "key", spark=True).message
    assert set(index_documents(bench.world.sandbox.address("opensearch"), bench.database)) == {"1"}
    findings = examine_flow(flow, bench.world.connections)
    assert [f.level for f in findings if f.code == "sink_no_primary_key"] == [Level.WARN]


def test_a_key_that_makes_other_ids_stops_search_and_its_advice_goes_on(bench: Bench) -> None:
    """Rows from before the ALTER go to the index that has their ids, in whatever batch they lie; none to the next."""
    address, made = bench.world.sandbox.address("opensearch"), [f"{bench.database}-{number}" for number in range(3)]
    first, second, third = (
        bench.flow(sinks=(Elasticsearch(conn_id="opensearch_default", index=index),)) for index in made
    )

    def stops(flow: Flow) -> str:
        with pytest.raises(DatabusError):
            bench.run(flow)
        return refused(bench, flow, "sink_key_changed", "take a new index").message  # and stands there

    def notes(index: str) -> dict[str, Any]:
        return {key: document["note"] for key, document in index_documents(address, index).items()}

    bench.run(first)
    bench.execute("INSERT INTO orders VALUES (1, 2, 'a'), (2, 1, 'b'), (3, 3, 'c')")
    bench.run(first)
    by_total = "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (total)"
    bench.execute("UPDATE orders SET note = 'before'", by_total, "DELETE FROM orders WHERE total = 3")
    assert "the primary key of " in stops(first)
    assert notes(made[0]) == {"1": "before", "2": "before", "3": "before"}
    bench.run(second)
    bench.execute("UPDATE orders SET note = CONCAT(note, ', behind')")  # the rows are written again
    bench.run(second)
    assert notes(made[1]) == {"1.00": "before, behind", "2.00": "before, behind"}
    # The same columns, whose values are written in another way.
    whole = "ALTER TABLE orders MODIFY total DECIMAL(10,0)"
    bench.execute("UPDATE orders SET note = 'two digits'", whole, "DELETE FROM orders WHERE total = 1")
    assert "is (total whole) now" in stops(second)
    assert notes(made[1]) == {"1.00": "two digits", "2.00": "two digits"}
    bench.execute("ALTER TABLE orders MODIFY total BIGINT, MODIFY note VARCHAR(90)", "UPDATE orders SET note = 'none'")
    bench.run(third)
    assert notes(made[2]) == {"2": "none"}


def test_another_column_under_the_name_of_the_key_stops_search(bench: Bench) -> None:
    """The statement lies in a batch without rows; a key column that only gets another name before it goes on."""
    address, made = bench.world.sandbox.address("opensearch"), [f"{bench.database}-{number}" for number in range(2)]
    first, second = (bench.flow(sinks=(Elasticsearch(conn_id="opensearch_default", index=each),)) for each in made)

    def notes(index: str) -> dict[str, Any]:
        return {key: document["note"] for key, document in index_documents(address, index).items()}

    bench.run(first)
    bench.execute("ALTER TABLE orders ADD b INT NOT NULL", "INSERT INTO orders VALUES (1, 1, 'a', 3), (3, 3, 'c', 1)")
    bench.run(first)
    bench.execute("ALTER TABLE orders RENAME COLUMN id TO pk")
    bench.run(first)
    bench.execute("UPDATE orders SET note = CONCAT(note, ', pk')")
    bench.run(first)
    bench.execute("UPDATE orders SET note = CONCAT(note, ', last')")
    before = {"1": "a, pk, last", "3": "c, pk, last"}
    bench.execute("ALTER TABLE orders DROP PRIMARY KEY, CHANGE pk old INT, CHANGE b pk INT, ADD PRIMARY KEY (pk)")
    bench.run(first)
    assert notes(made[0]) == before
    bench.execute("UPDATE orders SET note = CONCAT('of ', old)")
    with pytest.raises(DatabusError, match=r"is \(pk\) now.*ids made of \(pk, which are called \(old\) now\)"):
        bench.run(first)
    refused(bench, first, "sink_key_changed", "take a new index")
    assert notes(made[0]) == before
    bench.run(second)
    assert notes(made[1]) == {"3": "of 1", "1": "of 3"}
    # Both in one range: it ends before the statement, and the definition is the same before and behind.
    bench.execute(
        "ALTER TABLE orders MODIFY pk INT FIRST, MODIFY old INT NOT NULL AFTER note",
        "UPDATE orders SET note = CONCAT(note, ', last')",
        "ALTER TABLE orders DROP PRIMARY KEY, CHANGE pk old INT NOT NULL AFTER note, CHANGE old pk INT NOT NULL FIRST, "
        "ADD PRIMARY KEY (pk)",
        "UPDATE orders SET note = 'never'",
    )
    with pytest.raises(DatabusError, match="which are called"):
        bench.run(second)
    assert notes(made[1]) == {"3": "of 1, last", "1": "of 3, last"}


def test_a_table_that_does_not_exist(bench: Bench) -> None:
    misspelled = MysqlBinlog(conn_id="mysql_shop", tables=(bench.table, f"{bench.database}.order"), snapshot="never")
    broken = bench.flow(source=misspelled)
    error = refused(bench, broken, "source_table_missing", f"Did you mean {bench.table}")
    assert f"{bench.database}.order: the table does not exist" in error.message
    assert bench.world.checkpoint(broken) is None
    diagnosed(bench, broken, "source_table_missing")
    waits = bench.flow(source=misspelled.model_copy(update={"on_missing_table": "wait"}))
    bench.start(waits)
    bench.execute("CREATE TABLE `order` (id INT PRIMARY KEY)", "INSERT INTO `order` VALUES (7)")
    mended(bench, waits, {'{"id":1}'})
    seen = fold(topic_records(bench.world.sandbox.address("kafka"), bench.database))
    assert set(seen.state[f"{bench.database}.order"]) == {'{"id":7}'}


def test_a_column_that_does_not_exist(bench: Bench) -> None:
    table = (bench.table,)
    for transform in (Mask("nota", tables=table), Filter("totla > 1", tables=table), Mask("nota")):
        broken = bench.flow(transforms=(transform,))
        error = refused(bench, broken, "column_unknown", "Did you mean")
        assert bench.world.checkpoint(broken) is None, error
    diagnosed(bench, broken, "column_unknown")
    flow = bench.flow(checks=(NotNull("note", tables=table),))
    bench.start(flow)
    # A flow that is changed later is compared again, before the first row under its new definition.
    bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
    refused(bench, bench.flow(checks=(NotNull("nota", tables=table),)), "column_unknown", "Did you mean note")
    mended(bench, flow, {'{"id":1}', '{"id":2}'})


def test_a_table_that_is_dropped_or_renamed_stops_no_flow_that_had_it(bench: Bench) -> None:
    """Its rows lie in the log before the flow."""
    bench.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    both = (bench.table, f"{bench.database}.other")
    flow = bench.flow(source=MysqlBinlog(conn_id="mysql_shop", tables=both, snapshot="never"))
    bench.start(flow)
    bench.execute(
        "INSERT INTO orders VALUES (2, 2, 'two')",
        "RENAME TABLE orders TO archive",
        "INSERT INTO other VALUES (5)",
        "DROP TABLE other",
    )
    changed = bench.flow(source=flow.source, checks=(NotNull("id"),))
    mended(bench, changed, {'{"id":1}', '{"id":2}'})
    seen = fold(topic_records(bench.world.sandbox.address("kafka"), bench.database))
    assert set(seen.state[f"{bench.database}.other"]) == {'{"id":5}'}
    findings = [f for f in examine_flow(changed, bench.world.connections) if f.code == "source_table_missing"]
    assert [f.level for f in findings] == [Level.WARN, Level.WARN]
    bench.run(changed)


def test_missing_grant(bench: Bench) -> None:
    user = f"u_{bench.database}"[:32]
    bench.execute(f"CREATE USER {user} IDENTIFIED WITH mysql_native_password BY 'pw'", f"GRANT SELECT ON *.* TO {user}")
    conn_id = bench.world.override("mysql_shop", login=user, password="pw")
    broken = bench.flow(source=MysqlBinlog(conn_id=conn_id, tables=(bench.table,), snapshot="never"))
    refused(bench, broken, "source_access_denied", "GRANT REPLICATION")
    diagnosed(bench, broken, "source_access_denied")
    bench.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}")
    bench.run(broken)
    bench.execute("INSERT INTO orders VALUES (1, 1, 'one')")
    mended(bench, broken, {'{"id":1}'})


def test_topic_that_cannot_be_created(bench: Bench) -> None:
    flow = bench.flow(sinks=(Kafka(conn_id="kafka_east", topic=bench.database, replication_factor=3),))
    bench.run(flow)
    bench.execute("INSERT INTO orders VALUES (1, 1, 'one')")
    error = refused(bench, flow, "sink_setting", "topic")
    assert bench.database in error.message
    diagnosed(bench, flow, "sink_setting")


def test_index_mapping_that_rejects_a_document(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    flow = bench.flow(
        sinks=(
            Kafka(conn_id="kafka_east", topic=bench.database),
            Elasticsearch(
                conn_id="opensearch_default",
                index=bench.database,
                mapping={"properties": {"note": {"type": "integer"}}},
                on_reject="quarantine",
            ),
        )
    )
    bench.world.run(flow)
    bench.execute("INSERT INTO orders VALUES (1, 1, '11'), (2, 2, 'not a number'), (3, 3, '33')")
    result = bench.world.run(flow)
    documents = index_documents(bench.world.sandbox.address("opensearch"), bench.database)
    assert set(documents) == {"1", "3"}
    assert result.quarantined == 1
    shown = result.summary()
    assert shown["state"] == "rejected"
    assert shown["sinks"] == {
        "elasticsearch": {"dispatched": 2, "rejected": 1},
        "kafka": {"dispatched": 3, "rejected": 0},
    }
    warned, at_the_end = (r.getMessage() for r in caplog.records if "refused" in r.getMessage())
    assert "NOT WELL: sink elasticsearch refused 1 rows, and took 2" in at_the_end
    cause = "1 × mapper_parsing_exception: field [note] of type [integer]"
    assert f"sink elasticsearch refused 1 row of {bench.database}.orders: {cause};" in warned
    assert "not a number" not in warned
    viewed = run_view(flow.name, result.checkpoint.run_id, bench.world.settings)
    assert viewed is not None
    assert viewed["state"] == "rejected"
    assert viewed["sinks"] == [{"sink": name, **counts} for name, counts in shown["sinks"].items()]
    held = quarantined(bench.world.settings.records_url, flow.name)
    assert [(row.key, "mapper_parsing_exception" in row.cause) for row in held] == [('{"id":2}', True)]
    assert '"not a number"' in held[0].payload
    assert held[0].position


def test_a_second_run_is_refused_the_lease(bench: Bench, world: World) -> None:
    from databus.ops.services import open_services

    flow = bench.flow()
    bench.start(flow)
    with open_services(flow, world.connections, world.settings) as services:
        lease = services.store.claim(flow.name, "the-first-run", 0)
        error = refused(bench, flow, "checkpoint_busy", "")
        assert "the-first-run" in error.message
        assert error.retryable
        lease.release()
    bench.execute("INSERT INTO orders VALUES (2, 2, 'two')")
    mended(bench, flow, {'{"id":1}', '{"id":2}'})


@pytest.mark.parametrize(
    ("start", "code"),
    [
        ("mysql-bin.000001:5", "source_offset_invalid"),
        ("mysql-bin.999999:4", "source_offset_invalid"),
        ("gtid:00000000-0000-0000-0000-000000000001:1-5", "source_diverged"),
    ],
)
def test_a_position_that_is_not_one_of_this_log(bench: Bench, start: str, code: str) -> None:
    flow = bench.flow(source=MysqlBinlog(conn_id="mysql_shop", tables=(bench.table,), start=start))
    with pytest.raises(DatabusError) as caught:
        bench.run(flow)
    assert caught.value.code == code, caught.value
    assert caught.value.hint
    assert bench.world.checkpoint(flow) is None or bench.world.checkpoint(flow).batch == 0


def test_purged_log_is_a_named_gap(bench: Bench) -> None:
    flow = bench.flow()
    bench.start(flow)
    bench.execute("INSERT INTO orders VALUES (2, 2, 'two')", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    with bench.world.sql() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchone()[0]}'")
    error = refused(bench, flow, "source_offset_purged", "", spark=True)
    assert bench.world.checkpoint(flow).offset.file in error.message
    diagnosed(bench, flow, "source_offset_purged")


@pytest.mark.parametrize("kind", [DropColumns, Mask])  # one for each lane
def test_a_hidden_column_that_gets_another_name_is_not_delivered_in_clear(
    bench: Bench, kind: type[DropColumns] | type[Mask]
) -> None:
    flow = bench.flow(transforms=(kind("note"),))
    bench.start(flow)
    bench.execute("INSERT INTO orders VALUES (2, 2.50, 'two')", "ALTER TABLE orders RENAME COLUMN note TO remark")
    bench.execute("INSERT INTO orders VALUES (3, 3.50, 'three')")
    refused(bench, flow, "hidden_column_gone", f'former=("{bench.table}.note",)')
    assert len(bench.delivered()) == 1
    # Without the former name the older rows of the range would show it.
    refused(bench, bench.flow(transforms=(kind("remark"),)), "hidden_column_shown", f'former=("{bench.table}.note",)')
    # The plan in flight is of the former definition; the range has rows of both names.
    mended = bench.flow(transforms=(kind("remark", former=(f"{bench.table}.note",)),))
    bench.run(mended)
    assert len(bench.delivered()) == 3
    # Without a row that still has it: what was hidden in earlier runs is remembered.
    bench.execute("ALTER TABLE orders RENAME COLUMN remark TO note_2", "INSERT INTO orders VALUES (4, 4.50, 'four')")
    refused(bench, mended, "hidden_column_gone", f'former=("{bench.table}.remark",)')
    former = (f"{bench.table}.note", f"{bench.table}.remark")
    bench.run(bench.flow(transforms=(kind("note_2", former=former),)))
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert len(bench.delivered()) == 4
    assert not any(word in value for _, value in records for word in (b"one", b"two", b"three", b"four"))


@pytest.mark.parametrize("meant", ["*", "orders"])
def test_a_hidden_column_whose_table_gets_another_name_is_not_delivered_in_clear(bench: Bench, meant: str) -> None:
    tables = ("*",) if meant == "*" else (bench.table,)
    source = MysqlBinlog(conn_id="mysql_shop", tables=(f"{bench.database}.*",), snapshot="never")
    hides = DropColumns("note", tables=tables)
    flow = bench.flow(source=source, transforms=(hides,))
    bench.start(flow)
    bench.execute("ALTER TABLE orders RENAME customers")
    bench.run(flow)  # no row of the new name yet: that it was another is remembered
    bench.execute("ALTER TABLE customers RENAME COLUMN note TO remark", "INSERT INTO customers VALUES (2, 2.50, 'two')")
    new = f"{bench.database}.customers"
    if meant == "*":
        refused(bench, flow, "hidden_column_gone", f'former=("{new}.note",)')
        mended = [DropColumns("remark", former=(f"{bench.table}.note", f"{new}.note"))]
    else:
        refused(bench, flow, "hidden_column_shown", f'former=("{new}.note",)')
        mended = [hides, DropColumns("remark", former=(f"{new}.note",), tables=(new,))]
    bench.run(bench.flow(source=source, transforms=tuple(mended)))
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert any(b"2.5" in value for _, value in records)
    assert not any(b"two" in value for _, value in records)


EXCHANGED = "ALTER TABLE orders RENAME COLUMN note TO remark, RENAME COLUMN remark TO note"
REPLACED = "ALTER TABLE orders CHANGE note note_old VARCHAR(20), ADD COLUMN note VARCHAR(20) DEFAULT 'new'"


@pytest.mark.parametrize("statement", [EXCHANGED, REPLACED], ids=["exchanged", "replaced"])
@pytest.mark.parametrize("kind", [DropColumns, Mask])  # one for each lane
def test_a_hidden_column_whose_name_another_one_takes_is_not_delivered_in_clear(
    bench: Bench, kind: type[DropColumns] | type[Mask], statement: str
) -> None:
    new = "remark" if statement is EXCHANGED else "note_old"
    flow, former = bench.flow(transforms=(kind("note"),)), f'former=("{bench.table}.note",)'
    bench.start(flow)
    bench.execute(
        "ALTER TABLE orders ADD COLUMN remark VARCHAR(20) DEFAULT 'plain'",
        "INSERT INTO orders VALUES (2, 2.50, 'SECRET', 'plain')", statement,
        f"INSERT INTO orders (id, total, {new}) VALUES (3, 3.50, 'SECRET')",
    )  # fmt: skip
    error = refused(bench, flow, "hidden_column_gone", former)
    assert f"Name {new} as well" in error.hint
    # By its new name alone the range's older rows would show it, though the table has a column of the old one; of an
    # exchange that is the same again, the other way round.
    told = ("hidden_column_gone", "Name note as well") if statement is EXCHANGED else ("hidden_column_shown", former)
    refused(bench, bench.flow(transforms=(kind(new),)), *told)
    mended = bench.flow(transforms=(kind("note", new, former=(f"{bench.table}.note",)),))
    bench.run(mended)
    assert len(bench.delivered()) == 3
    # Behind the statement as well, where no row of the range is an older one.
    bench.execute(f"INSERT INTO orders (id, total, {new}) VALUES (4, 4.50, 'SECRET')")
    refused(bench, bench.flow(transforms=(kind(new),)), "hidden_column_shown", former)
    bench.run(mended)
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert len(bench.delivered()) == 4
    assert not any(b"SECRET" in value for _, value in records)


@pytest.mark.parametrize("again", [True, False], ids=["another of its name", "gone"])
def test_a_hidden_column_that_an_online_change_renames_is_not_delivered_in_clear(bench: Bench, again: bool) -> None:
    """As gh-ost and pt-online-schema-change do: a copy that is none of the flow's is altered, filled, and exchanged."""
    flow, column = bench.flow(transforms=(Mask("note"),)), f"{bench.table}.note"
    bench.start(flow)
    more = ", ADD COLUMN note VARCHAR(20) DEFAULT 'new'" if again else ""
    renames = f"ALTER TABLE _orders_gho CHANGE COLUMN note remark VARCHAR(50){more}"
    # One that was given up, and one that adds a column: neither needs anybody.
    bench.execute("CREATE TABLE _orders_gho LIKE orders", renames)
    bench.run(flow)
    bench.execute("DROP TABLE _orders_gho", "CREATE TABLE _orders_gho LIKE orders")
    bench.execute("ALTER TABLE _orders_gho ADD COLUMN remark VARCHAR(20) DEFAULT 'plain'")
    bench.execute("INSERT INTO _orders_gho (id, total, note) SELECT id, total, note FROM orders")
    bench.run(flow)
    bench.execute("RENAME TABLE orders TO _orders_del, _orders_gho TO orders", "DROP TABLE _orders_del")
    bench.execute("INSERT INTO orders VALUES (2, 2.50, 'SECRET', 'plain')")
    bench.run(flow)
    assert len(bench.delivered()) == 2
    # The same again with a rename.
    bench.execute("CREATE TABLE _orders_gho LIKE orders", "ALTER TABLE _orders_gho DROP COLUMN remark", renames)
    bench.execute("INSERT INTO _orders_gho (id, total, remark) SELECT id, total, note FROM orders")
    bench.run(flow)
    bench.execute("RENAME TABLE orders TO _orders_del, _orders_gho TO orders")
    bench.execute("INSERT INTO orders (id, total, remark) VALUES (3, 3.50, 'SECRET')")
    error = refused(bench, flow, "hidden_column_gone", f'former=("{column}",)')
    if again:
        assert f"in {bench.table} a statement of the log gives note" in error.message
        assert "altered a table that took this one's name" in error.message
    assert len(bench.delivered()) == 2
    mended = bench.flow(transforms=(Mask("remark", former=(column,)),))
    bench.run(mended)
    bench.execute("UPDATE orders SET total = 4.50, remark = 'SECRET TOO'")
    bench.run(mended)
    records = topic_records(bench.world.sandbox.address("kafka"), bench.database)
    assert len(bench.delivered()) == 3
    assert not any(b"SECRET" in value for _, value in records)
