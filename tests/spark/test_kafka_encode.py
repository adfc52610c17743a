"""The Kafka sink's encoding in Spark: envelopes, topics, partitions, and its agreement with the Python side."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import jsonschema
import pytest

from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.plan import Plan, SinkPlan
from databus.core.tables.schemas import TableSchema
from databus.rows.murmur2 import murmur2
from databus.sinks import envelope
from databus.sinks.kafka import Kafka
from databus.sinks.kafka.encoding import COLUMNS
from databus.sinks.kafka.topics.names import topic_of

pytestmark = pytest.mark.spark

KEYS = ['{"id":1}', '{"id":2}', '{"id":3}', '{"id":4}', '{"a":1,"b":"é"}']
CLOCK = datetime(2026, 11, 21, 3, 4, 5, 678000, tzinfo=UTC)
PLAIN = {"op": "c", "database": "shop", "table": "orders", "key": KEYS[0], "before": None, "after": '{"id":1}'}


def plan(slots: int = 1, **partitions: int) -> Plan:
    offsets = OffsetRange(BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000001", 900))
    pinned = SinkPlan(slots, (0,) * slots, {name.replace("__", "."): count for name, count in partitions.items()})
    return Plan("test", "orders_flow", 7, offsets, {"kafka": pinned}, "spec", CLOCK)


@pytest.fixture
def encode(spark: Any) -> Any:
    """Return a function: spec options, plan and rows (before and after as JSON text) to encoded rows."""
    from pyspark.sql import functions as f

    from databus.sinks.kafka.sink import KafkaSink

    def run(rows: list[dict[str, Any]], pinned: Plan, **options: Any) -> list[Any]:
        full = [
            {
                "schema_id": 0,
                "key_hash": 0,
                "log": "mysql-bin.000001",
                "place": 900,
                "transaction": "",
                "ordinal": number,
                "part": 0,
                "event_id": f"srv:mysql-bin.000001:900:{number}:0",
                "ts_ms": 1_767_225_600_123,
                "server_id": 5,
                "statement": None,
                "flags": None,
                "route": f"{row['database']}.{row['table']}",
                **row,
            }
            for number, row in enumerate(rows)
        ]
        schema = (
            "op string, database string, table string, schema_id int, key string, key_hash int, before string, "
            "after string, log string, place bigint, transaction string, ordinal bigint, part smallint, "
            "event_id string, ts_ms bigint, server_id bigint, statement string, flags array<string>, route string"
        )
        names = [part.split()[0] for part in schema.split(", ")]
        df = spark.createDataFrame([[row[name] for name in names] for row in full], schema)
        df = df.withColumns(
            {
                "key": f.col("key").cast("binary"),
                "before": f.parse_json("before"),
                "after": f.parse_json("after"),
            }
        )
        connection = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
        sink = KafkaSink(Kafka(conn_id="k", **options), connection, FlowContext("orders_flow", Settings("i", "", "")))
        encoded = sink.encode(df, pinned)
        assert tuple(encoded.columns) == COLUMNS
        collected: list[Any] = encoded.collect()
        return collected

    return run


def value(row: Any) -> Any:
    return json.loads(row["value"], parse_float=Decimal)


def test_debezium_envelope(encode: Any) -> None:
    rows = [
        {**PLAIN, "after": '{"id":1,"amount":1234567890123456.78,"note":null,"big":18446744073709551615}'},
        {**PLAIN, "op": "u", "before": '{"id":1}', "after": '{"id":1,"text":"a\\"b\\u00e9"}', "transaction": "uuid:7"},
        {**PLAIN, "op": "d", "before": '{"id":1,"v":0.10}', "after": None},
        {**PLAIN, "op": "r"},
        {**PLAIN, "op": "t", "key": None, "after": None, "statement": "TRUNCATE orders", "schema_id": -1},
    ]
    create, update, delete, read, truncate = encode(rows, plan(cdc__shop__orders=1))
    for row in (create, update, delete, read, truncate):
        jsonschema.Draft202012Validator(envelope.schema("debezium")).validate(json.loads(row["value"]))
    assert value(create)["after"] == {
        "id": 1,
        "amount": Decimal("1234567890123456.78"),
        "note": None,
        "big": 18446744073709551615,
    }
    assert value(create)["before"] is None
    assert value(create)["ts_ms"] == int(CLOCK.timestamp() * 1000)
    source = value(create)["source"]
    assert (source["connector"], source["name"], source["db"], source["table"]) == (
        "mysql",
        "orders_flow",
        "shop",
        "orders",
    )
    assert (source["file"], source["pos"], source["row"], source["gtid"]) == ("mysql-bin.000001", 900, 0, None)
    assert source["event_id"] == create["event_id"]
    assert value(create)["transaction"] == {"id": "mysql-bin.000001:900", "total_order": 1}
    # A column that the image left out stays out: it is not NULL.
    assert value(update)["before"] == {"id": 1}
    assert value(update)["after"] == {"id": 1, "text": 'a"bé'}
    assert value(update)["transaction"] == {"id": "uuid:7", "total_order": 2}
    assert (value(delete)["before"], value(delete)["after"]) == ({"id": 1, "v": Decimal("0.1")}, None)
    assert (value(read)["source"]["snapshot"], value(read)["transaction"]) == ("true", None)
    assert (truncate["key"], truncate["partition"], value(truncate)["source"]["query"]) == (None, 0, "TRUNCATE orders")
    assert [r["tombstone"] for r in (create, update, delete, truncate)] == [False, False, True, False]


def test_row_envelope(encode: Any) -> None:
    rows = [
        {**PLAIN, "after": '{"id":1,"amount":99999999999999999999.5,"note":null}'},
        {**PLAIN, "op": "d", "before": '{"id":1,"v":2}', "after": None},
        {**PLAIN, "op": "d", "before": None, "after": None},
        {**PLAIN, "op": "u", "before": '{"id":1}', "after": "{}"},
    ]
    encoded = encode(rows, plan(cdc__shop__orders=1), envelope="row", tombstones=False)
    for row in encoded:
        jsonschema.Draft202012Validator(envelope.schema("row")).validate(json.loads(row["value"]))
    create, delete, bare, empty = (value(row) for row in encoded)
    assert create == {
        "id": 1,
        "amount": Decimal("99999999999999999999.5"),
        "note": None,
        "__op": "c",
        "__deleted": False,
        "__ts_ms": 1_767_225_600_123,
        "__event_id": encoded[0]["event_id"],
    }
    assert (delete["v"], delete["__deleted"], delete["__op"]) == (2, True, "d")
    assert (bare["id"], bare["__deleted"]) == (1, True)
    assert set(empty) == {"__op", "__deleted", "__ts_ms", "__event_id"}
    assert not any(row["tombstone"] for row in encoded)


@pytest.mark.parametrize("kind", ["debezium", "row"])
def test_flags_stand_only_in_rows_that_have_them(encode: Any, kind: str) -> None:
    flags = ["after.name:undecodable", "after.born:invalid_date"]
    rows = [{**PLAIN, "flags": flags, "after": after} for after in ('{"id":1,"name":"/w=="}', "{}")]
    *flagged, plain = encode([*rows, PLAIN], plan(cdc__shop__orders=1), envelope=kind)
    for row in flagged:
        jsonschema.Draft202012Validator(envelope.schema(kind)).validate(json.loads(row["value"]))
        event = value(row)
        assert (event["source"]["flags"] if kind == "debezium" else event["__flags"]) == flags
    assert b"flags" not in plain["value"]


def test_partition_is_that_of_kafka_s_default_partitioner(encode: Any) -> None:
    hashes = [murmur2(key.encode()) & 0x7FFFFFFF for key in KEYS]
    rows = [{**PLAIN, "key": key, "key_hash": hashed} for key, hashed in zip(KEYS, hashes, strict=True)]
    rows += [{**row, "table": "items"} for row in rows]
    encoded = encode(rows, plan(slots=2, cdc__shop__orders=6, cdc__shop__items=4))
    assert [row["partition"] for row in encoded] == [h % 6 for h in hashes] + [h % 4 for h in hashes]
    assert [row["slot"] for row in encoded] == [row["partition"] % 2 for row in encoded]


def test_a_topic_outside_the_plan_has_no_partition(encode: Any) -> None:
    (row,) = encode([{**PLAIN, "table": "other"}], plan(cdc__shop__orders=6))
    assert (row["topic"], row["partition"], row["slot"]) == ("cdc.shop.other", None, 0)


@pytest.mark.parametrize("template", ["one", "cdc.{route}", "{flow}.{database}-{table}", "x{table}"])
def test_names_of_topics_agree_with_the_python_side(encode: Any, template: str) -> None:
    tables = [
        ("shop", "orders", "shop.orders"),
        ("sh op", "ordérs$", "sh op.ordérs$"),
        ("a", "b", "big"),
        ("d", "", "d."),
    ]
    rows = [{**PLAIN, "database": d, "table": t, "route": r} for d, t, r in tables]
    encoded = encode(rows, plan(), topic=template)
    wanted = [topic_of(template, TableSchema(0, d, t, ()), r, "orders_flow") for d, t, r in tables]
    assert [row["topic"] for row in encoded] == wanted
