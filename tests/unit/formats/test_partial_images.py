"""Images that lack columns, keys that Arrow cannot hold, and statements, in the forms of other connectors."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import TableEvent
from databus.core.errors.source import DecodeError
from databus.core.state.plan import SinkPlan
from databus.rows.emit import emit, emit_events
from databus.rows.image_form import json_form
from databus.sinks.kafka.direct import KafkaEncoder
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.tally import MessageTally
from databus.sinks.kafka.tracing.record import plain_key, reads_alike
from databus.testing.table_batches import Unrepresentable, batch, table, transactions
from tests.reference.made_messages import SERVER, plan
from tests.unit.formats.encoded_messages import made

ORDERS = table("shop.orders", {"id": "bigint", "note": "varchar(20)", "n": "int"})


@pytest.mark.parametrize(
    ("kind", "odd", "plain", "shown"),
    [("date", "0000-00-00", date(2026, 1, 1), "2026-01-01"), ("varchar(9)", b"\xff", "a", "a")],
)
def test_a_key_that_moves_from_or_to_what_arrow_cannot_hold_keeps_the_deleted_row_whole(
    kind: str, odd: Any, plain: Any, shown: str
) -> None:
    schema = table("shop.d", {"d": kind, "note": "varchar(20)"}, ("d",))
    none, some = {"d": Unrepresentable(odd), "note": "x"}, {"d": plain, "note": "x"}
    for change in ((none, some), (some, none)):
        (_, deleted), (_, inserted) = made(schema, [change], envelope="maxwell")
        assert [deleted["data"]["note"], inserted["data"]["note"]] == ["x", "x"]
        assert shown in (deleted["data"]["d"], inserted["data"]["d"])
        (_, deleted), _ = made(schema, [change], envelope="canal")
        assert deleted["data"][0]["note"] == "x"
    ((_, kept),) = made(schema, [(none, {**none, "note": "y"})], envelope="maxwell")
    assert kept["old"] == {"note": "x"}


def test_an_update_of_a_minimal_image_has_its_key_among_the_data_and_no_old_values() -> None:
    ((_, message),) = made(ORDERS, [({"id": 1}, {"note": "y"})], envelope="maxwell")
    assert (message["type"], message["data"], message["old"]) == ("update", {"id": 1, "note": "y"}, {})
    ((_, message),) = made(ORDERS, [({"id": 1}, {"note": "y"})], envelope="canal")
    assert (message["data"], message["old"]) == ([{"id": "1", "note": "y"}], None)
    pair = table("shop.p", {"a": "int", "b": "int"}, ("a", "b"))
    (_, deleted), (key, inserted) = made(pair, [({"a": 1, "b": 2}, {"a": 3})], envelope="maxwell")
    assert (deleted["data"], inserted["data"]) == ({"a": 1, "b": 2}, {"a": 3, "b": 2})
    assert key == '{"database":"shop","table":"p","pk.a":3,"pk.b":2}'


def test_an_image_that_contradicts_the_schema_beside_it_is_refused() -> None:
    strict = replace(ORDERS, columns=tuple(replace(column, nullable=False) for column in ORDERS.columns))
    whole = {"id": 1, "note": "x", "n": 1}
    assert len(made(strict, [(None, whole)], types="debezium", schemas=True)) == 1
    for change in (({"id": 1}, {"note": "y"}), ({"id": 1}, None), (whole, {"note": "y", "n": 1})):
        with pytest.raises(DecodeError, match="schemas=True says that every row has it") as caught:
            made(strict, [change], types="debezium", schemas=True)
        assert "binlog_row_image" in caught.value.hint
        assert made(strict, [change], types="debezium")


def test_a_statement_of_a_table_without_rows_has_a_schema_of_its_name() -> None:
    sink = Kafka(conn_id="k", types="debezium", schemas=True)
    encoder = KafkaEncoder(sink, plan(SinkPlan(partitions={})), sink.message_format()).of_tables([])
    events = [TableEvent("t", "shop", name, f"TRUNCATE {name}", 0, number) for number, name in enumerate("ab")]
    (rows,) = emit_events(events, transactions(), SERVER, json_form({}, values=encoder.values))
    values = encoder.encode(rows.append_column("route", pa.array(["shop.a", "shop.b"])), 0)["value"].to_pylist()
    names = [json.loads(value)["schema"]["name"] for value in values]
    assert names == [f"orders_to_kafka.shop.{name}.Envelope" for name in "ab"]


@pytest.mark.parametrize("options", [{"envelope": "maxwell"}, {"types": "debezium", "schemas": True}])
def test_a_record_held_back_for_its_size_is_known_by_its_canonical_key(options: dict[str, Any]) -> None:
    sink = Kafka(conn_id="k", **options)
    pinned = SinkPlan(partitions={"cdc.shop.orders": 1})
    encoder = KafkaEncoder(sink, plan(pinned), sink.message_format()).of_tables([ORDERS])
    changes = batch(ORDERS, [(None, {"id": 1, "note": "x" * 99, "n": 1})])
    (rows,) = emit(changes, transactions(), SERVER, json_form({}, values=encoder.values))
    tally = MessageTally("kafka", {"cdc.shop.orders": 100})
    tally.accept(encoder.encode(rows.append_column("route", pa.array(["shop.orders"])), 0))
    assert [row.key for row in tally.rejected] == ['{"id":1}']


def test_a_traced_key_reads_as_a_canonical_one() -> None:
    keys = {"id": 7, "note": 'é"pk.x,"payload":{', "n": None}
    schema = table("shop.k", {"id": "bigint", "note": "varchar(90)", "v": "int"}, ("id", "note"))
    row = {"id": 7, "note": keys["note"], "v": 1}
    ((plain, _),) = made(schema, [(None, row)])
    for options in ({"envelope": "maxwell"}, {"envelope": "canal"}, {"types": "debezium", "schemas": True}):
        ((key, _),) = made(schema, [(None, row)], **options)
        assert plain_key(key) == plain_key(plain) == plain
    others = ("", '{"database":"a"}', '{"database":')
    assert [plain_key(key) for key in others] == list(others)
    assert plain_key('{"database":"s","table":"t","pk.a":1.50}') == '{"a":1.50}'
    asked = ('{"id":1}', '{"a":1.50}', '{"a":"x"}', '{"order-id":1}', f'{{"a":{2**63}}}', "x")
    assert [reads_alike(key) for key in asked] == [True, False, False, False, False, False]


@pytest.mark.parametrize("written", [True, False])
def test_a_column_that_is_not_written_is_not_flagged(written: bool) -> None:
    schema = table("shop.w", {"id": "int", "big": "bigint unsigned"})
    columns = {} if written else {0: [("id", "id")]}
    values = Kafka(conn_id="k", types="debezium").message_format().values  # type: ignore[union-attr]
    changes = batch(schema, [(None, {"id": 1, "big": 2**63})])
    (rows,) = emit(changes, transactions(), SERVER, json_form(columns, values=values))
    assert rows["flags"].to_pylist() == [["after.big:wrapped"] if written else None]
