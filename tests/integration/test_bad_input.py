"""Each fault a user can make: a named error with a hint, the checkpoint unmoved, nothing lost once it is mended.

Every case runs against the real servers, what a task refuses through Spark, and the doctor is asked about the same
flow.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from databus import Elasticsearch, Filter, Flow, Kafka, Mask, MysqlBinlog, NotNull
from databus.core.errors import DatabusError
from databus.core.findings import Level
from databus.demo.consumers import index_documents, topic_records
from databus.demo.oracle import fold
from databus.ops.health.doctor import examine_flow
from databus.ops.runs.view import run_view
from databus.records.reports import quarantined
from tests.integration.broken_table import Bench, diagnosed, mended, mysql_set, refused
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def bench(world: World, database: str) -> Bench:
    return Bench(world, database)


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
