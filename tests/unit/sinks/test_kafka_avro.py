"""Records in Avro say what the same rows' JSON says, and are byte for byte what fastavro writes."""

# ruff: noqa: DTZ001 - DATETIME has no zone

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.errors.config import ConfigError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.avro.schemas import envelope_schema, key_schema, shape_in
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.rows.wire.shapes import wire_head
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.encoding import CANONICAL_KEY
from databus.sinks.kafka.registered.avro import AvroEncoder
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.tally import MessageTally
from databus.testing.table_batches import Unrepresentable, batch, table, transactions

SCHEMA = table(
    "shop.orders", {"id": "int", "at": "datetime(3)", "amount": "decimal(12,2)", "note": "text", "raw": "blob"}
)
AVRO = Kafka(conn_id="k", format="avro", registry_conn_id="r", partitions=4)
CHANGES: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = [
    (None, {"id": 1, "at": datetime(2026, 11, 27, 7), "amount": Decimal("-1.50"), "note": "ä", "raw": b"\0"}),
    ({"id": 1, "note": "ä"}, {"note": None, "amount": Decimal("2.00")}),  # row image MINIMAL
    ({"id": 2, "note": Unrepresentable(b"\xff")}, {"id": 3, "at": Unrepresentable("0000-00-00 00:00:00.000")}),
    ({"id": 4, "note": "gone"}, None),
]


def plan_of(schema: TableSchema, columns: Any = None) -> Plan:
    offsets = OffsetRange(BinlogOffset("log.000001", 4), BinlogOffset("log.000001", 900))
    form = shape_in(schema, columns).form
    pinned = SinkPlan(partitions={"cdc.shop.orders": 4}, schemas={0: RegisteredSchemas("cdc.shop.orders", 7, form, 5)})
    return Plan("test", "the_flow", 7, offsets, {"kafka": pinned}, "spec", datetime(2026, 11, 21, tzinfo=UTC))


def encoded(b: TableBatch, *, columns: Any = None, plan: Plan | None = None, gtid: bool = True) -> pa.RecordBatch:
    encoder: AvroEncoder = pickle.loads(pickle.dumps(AvroEncoder(AVRO, plan or plan_of(b.schema))))
    (rows,) = emit(b, transactions(gtid=gtid), "srv", encoder.image_form(columns or {}, None))
    return encoder.encode(with_route(rows), 0)


def with_route(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("route", pa.repeat(pa.scalar("shop.orders"), rows.num_rows))


def as_json(b: TableBatch, *, gtid: bool = True) -> pa.RecordBatch:
    (rows,) = emit(b, transactions(gtid=gtid), "srv", json_form({}))
    return KafkaEncoder(Kafka(conn_id="k", partitions=4), plan_of(b.schema)).encode(with_route(rows), 0)


def schemas_of(schema: TableSchema) -> tuple[Any, Any]:
    shape = shape_in(schema, None)
    fields = [field for _, field in shape.chosen]
    value = envelope_schema("cdc.shop.orders", fields, "mysql")
    return fastavro.parse_schema(value), fastavro.parse_schema(key_schema("cdc.shop.orders", shape.key))


@pytest.mark.parametrize("gtid", [True, False])
def test_envelopes_say_what_the_json_says(gtid: bool) -> None:
    b = batch(SCHEMA, CHANGES)
    made, other = encoded(b, gtid=gtid), as_json(b, gtid=gtid)
    value_schema, key_schema_ = schemas_of(SCHEMA)

    assert made.num_rows == 5  # an update of the key is two
    assert made["partition"] == other["partition"]
    assert made[CANONICAL_KEY] == other["key"]
    for row, (value, key) in enumerate(zip(made["value"].to_pylist(), made["key"].to_pylist(), strict=True)):
        assert (value[:5], key[:5]) == (wire_head(7), wire_head(5))
        assert fastavro.schemaless_reader(io.BytesIO(key[5:]), key_schema_, None) == json.loads(
            other["key"][row].as_py()
        )
        read = fastavro.schemaless_reader(io.BytesIO(value[5:]), value_schema, None)
        again = io.BytesIO()
        fastavro.schemaless_writer(again, value_schema, read)
        assert value[5:] == again.getvalue()
        said = json.loads(other["value"][row].as_py(), parse_float=Decimal)
        for image in ("before", "after"):
            flags = (read[image] or {}).pop("__flags", None) or {}
            mine = {n: v for n, v in (read[image] or {}).items() if flags.get(n) != "absent"} if read[image] else None
            if mine and mine.get("raw") is not None:
                mine["raw"] = "AA=="
            assert mine == said[image]
        source = {name: each for name, each in read["source"].items() if name not in ("sequence", "thread")}
        assert {name: each for name, each in source.items() if name != "flags" or each} == said["source"]
        assert [read[name] for name in ("op", "ts_ms", "transaction")] == [
            said[name] for name in ("op", "ts_ms", "transaction")
        ]


def test_rows_of_a_snapshot_belong_to_no_transaction() -> None:
    b = batch(SCHEMA, CHANGES[:1] * 2, read=True)
    read = [
        fastavro.schemaless_reader(io.BytesIO(value[5:]), schemas_of(SCHEMA)[0], None)
        for value in encoded(b)["value"].to_pylist()
    ]
    assert [(one["op"], one["source"]["snapshot"], one["transaction"]) for one in read] == [("r", "true", None)] * 2
    assert [one["after"]["id"] for one in read] == [1, 1]


def test_other_columns_than_were_registered_stop_the_batch() -> None:
    b = batch(SCHEMA, CHANGES[:1])
    with pytest.raises(DecodeError, match=r"other columns than the Avro schema 7 that was registered for cdc\.shop"):
        encoded(b, columns={0: (("id", "id"),)})
    chosen = (("note", "the note"), ("id", "id"))
    made = encoded(b, columns={0: chosen}, plan=plan_of(SCHEMA, chosen))
    assert made["value"][0].as_py()[5:10] == b"\0\2\2\4" + "ä".encode()[:1]


def test_tables_that_the_sink_does_not_take_cost_nothing() -> None:
    other = replace(SCHEMA, schema_id=3)
    form = AvroEncoder(AVRO, plan_of(SCHEMA)).image_form({}, None)
    (rows,) = emit(batch(other, CHANGES[:1]), transactions(), "srv", form)
    assert rows["after"].to_pylist() == [b""]


def test_a_row_that_is_too_large_is_held_back_by_its_canonical_key() -> None:
    made = encoded(batch(SCHEMA, [(None, {"id": 200, "note": "x" * 3000})]))
    tally = MessageTally("kafka", {"cdc.shop.orders": 1000}, "avro")
    assert tally.accept(made).num_rows == 0
    (row,) = tally.rejected
    assert (row.key, json.loads(row.payload)["format"]) == ('{"id":200}', "avro")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "avro"}, "needs registry_conn_id"),
        ({"registry_conn_id": "r"}, "of no use with format='json'"),
        ({"format": "avro", "registry_conn_id": "r", "envelope": "row"}, "has envelope='debezium' only"),
        ({"format": "avro", "registry_conn_id": "r", "ddl": True}, "no schema changes"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Kafka(conn_id="k", **options)


def test_stored_options_name_a_registry_only_where_there_is_one() -> None:
    assert not {"format", "registry_conn_id"} & Kafka(conn_id="k").to_json().keys()
    assert AVRO.to_json()["format"] == "avro"
    assert AVRO.conn_ids() == (("k", "kafka"), ("r", "http|schema_registry"))
    assert (AVRO.extras(), AVRO.needs_direct_lane()) == (("kafka", "registry"), 'format="avro"')


def test_a_plan_without_schemas_is_written_as_before() -> None:
    plain = SinkPlan(partitions={"t": 1})
    pinned = replace(plain, schemas={0: RegisteredSchemas("t", 7, "f", 5)})
    assert plain.to_json() == {"slots": 1, "prev": [0], "partitions": {"t": 1}}
    assert SinkPlan.from_json(pinned.to_json()) == pinned
    assert np.all([pinned.to_json()["v"] == 3, SinkPlan.from_json(plain.to_json()) == plain])


def test_cloud_events_say_that_the_value_is_avro() -> None:
    spec = Kafka(conn_id="k", format="avro", registry_conn_id="r", partitions=4, cloudevents=True)
    decoded = batch(SCHEMA, CHANGES[:1])
    encoder = AvroEncoder(spec, plan_of(SCHEMA))
    (rows,) = emit(decoded, transactions(), "srv", encoder.image_form({}, None))
    found = encoder.encode(with_route(rows), 0)["header:content-type"].to_pylist()
    assert found == ["application/vnd.confluent.avro"]


def test_a_plan_with_schemas_of_a_newer_databus_is_refused_by_name() -> None:
    stored = plan_of(SCHEMA).sinks["kafka"].to_json()
    assert SinkPlan.from_json(stored).to_json() == stored
    stored["schemas"]["0"]["more"] = 1
    with pytest.raises(CheckpointFormatError, match=r"registered schemas of a table .* unknown fields: more"):
        SinkPlan.from_json(stored)
