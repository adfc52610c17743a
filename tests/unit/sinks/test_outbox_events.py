"""Rows of an outbox as Debezium's outbox event router writes them."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus import Flow, Kafka, Mock, Route, SequenceTable
from databus.core.connections import Connection
from databus.core.errors import ConfigError, SinkSettingError
from databus.core.errors.sink import ValidationRefusedError
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.plan import SinkPlan
from databus.rows.murmur2 import murmur2
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.direct.required import lane_findings
from databus.sinks.kafka.message_options import require_read_back
from databus.sinks.kafka.outbox_events import OutboxEncoder, json_string
from databus.testing.contract.simple_sink import FixedConnections, context
from databus.testing.contract.source import EVERYTHING
from tests.reference.made_messages import plan
from tests.unit.sinks.test_kafka_spec import open_sink

OUTBOX = """CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL,
    aggregatetype VARCHAR(20) NOT NULL, aggregateid VARCHAR(20), type VARCHAR(20), payload TEXT, version INTEGER)"""
PARTITIONS = {"outbox.event.Order": 3, "outbox.event.Customer": 3}


def rows(tmp_path: Path, *events: tuple[Any, ...], create: str = OUTBOX, **options: Any) -> pa.RecordBatch:
    """Return events (kind, aggregate, type, payload) as the direct lane has their rows, with the kind as route."""
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute(create)
        for kind, *others in events:
            connection.execute(
                "INSERT INTO outbox (created_at, aggregatetype, aggregateid, type, payload, version) "
                "VALUES ('2024-11-27 12:00:00', ?, ?, ?, ?, 3)",
                (kind, *others),
            )
    connection.close()
    spec = SequenceTable(conn_id="f", table="main.outbox", lag_window=timedelta(milliseconds=1), **options)
    source: Any = spec.open(
        FixedConnections([Connection(conn_id="f", conn_type="sqlite", host=str(tmp_path / "shop.db"))]), context("f")
    )
    planned = source.plan(SequenceOffset(0), EVERYTHING)
    (batch,) = [batch for split in source.splits(planned, 1) for batch in split.read_text({})]
    source.close()
    kinds = [json.loads(after)["aggregatetype"] for after in batch["after"].to_pylist()]
    if "route" in batch.schema.names:
        return batch.set_column(batch.schema.get_field_index("route"), "route", pa.array(kinds))
    return batch.append_column("route", pa.array(kinds))


def encoded(batch: pa.RecordBatch, slots: int = 1, **options: Any) -> list[dict[str, Any]]:
    spec = Kafka(conn_id="k", topic="outbox.event.{route}", envelope="outbox", **options)
    encoder = pickle.loads(pickle.dumps(OutboxEncoder(spec, plan(SinkPlan(slots=slots, partitions=PARTITIONS)))))
    return [record for slot in range(slots) for record in encoder.encode(batch, slot).to_pylist()]


EVENTS = (
    ("Order", "17", "OrderPaid", '{"order": 17, "amount": 1.50, "note": "é\\u00e9"}'),
    ("Customer", "x", "CustomerMoved", 'no JSON: "\\'),
    ("Order", "18", "OrderDeleted", None),
)


def test_the_value_is_the_payload_and_the_key_the_aggregate(tmp_path: Path) -> None:
    records = encoded(rows(tmp_path, *EVENTS))
    assert [(each["topic"], each["key"], each["value"]) for each in records] == [
        (f"outbox.event.{kind}", key.encode(), payload and payload.encode()) for kind, key, _, payload in EVENTS
    ]
    assert [each["header:id"] for each in records] == ["1", "2", "3"]
    assert [each["header:event_id"] for each in records] == [
        f"f:sequence_table/f/main.outbox:{number}:0:0" for number in (1, 2, 3)
    ]
    assert not any(each["tombstone"] for each in records)
    assert [each["canonical_key"] for each in records] == [b'{"id":1}', b'{"id":2}', b'{"id":3}']


def test_a_payload_as_a_string_is_a_json_string(tmp_path: Path) -> None:
    values = [each["value"] for each in encoded(rows(tmp_path, *EVENTS), payload="string")]
    assert [value and json.loads(value) for value in values] == [payload for *_, payload in EVENTS]
    assert values[2] is None


@given(st.text())
def test_a_json_string_is_the_text(text: str) -> None:
    found = json_string(text)
    assert json.loads(found) == text
    assert all(char < "\U00010000" for char in found)


def test_a_json_string_has_the_escapes_of_kafka_connect() -> None:
    """As test_outbox_router.py found them."""
    assert json_string('é😀/\x1f\x7f\u2028"\\\n\t') == '"é\\uD83D\\uDE00/\\u001F\x7f\u2028\\"\\\\\\n\\t"'


def test_columns_are_headers_by_choice(tmp_path: Path) -> None:
    records = encoded(rows(tmp_path, *EVENTS), event_headers=("type", "version"), headers=("event_id", "op"))
    headers = [
        {name.removeprefix("header:"): value for name, value in each.items() if name.startswith("header:")}
        for each in records
    ]
    assert list(headers[0]) == ["event_id", "op", "id", "type", "version"]
    assert [(each["op"], each["type"], each["version"]) for each in headers] == [
        ("c", kind, "3") for _, _, kind, _ in EVENTS
    ]


@pytest.mark.parametrize("slots", [1, 2])
def test_an_aggregate_is_of_the_partition_of_its_key_and_of_one_slot(tmp_path: Path, slots: int) -> None:
    batch = rows(tmp_path, *(("Order", str(n % 7), "T", str(n)) for n in range(40)))
    records = encoded(batch, slots)
    assert Counter(each["value"] for each in records) == Counter(str(n).encode() for n in range(40))
    for each in records:
        assert each["partition"] == (murmur2(each["key"]) & 0x7FFFFFFF) % 3
        assert each["slot"] == each["partition"] % slots
    for key in {each["key"] for each in records}:
        values = [int(each["value"]) for each in records if each["key"] == key]
        assert values == sorted(values)


def test_an_event_without_an_aggregate_has_no_key(tmp_path: Path) -> None:
    (record,) = encoded(rows(tmp_path, ("Order", None, "T", "1")))
    assert (record["key"], record["partition"]) == (None, 0)


def test_a_row_without_a_column_of_an_event_is_named(tmp_path: Path) -> None:
    batch = rows(tmp_path, EVENTS[0], columns=("id", "aggregatetype", "aggregateid"))
    with pytest.raises(SinkSettingError, match=r"main\.outbox has no column payload") as caught:
        encoded(batch)
    assert "aggregateid" in caught.value.hint
    (tmp_path / "more").mkdir()
    with pytest.raises(SinkSettingError, match="has no column tenant"):
        encoded(rows(tmp_path / "more", EVENTS[0]), event_headers=("tenant",))


@pytest.mark.parametrize("op", ["u", "d", "t"])
def test_what_is_no_insert_is_named(tmp_path: Path, op: str) -> None:
    batch = rows(tmp_path, EVENTS[0])
    batch = batch.set_column(batch.schema.get_field_index("op"), "op", pa.array([op]))
    with pytest.raises(SinkSettingError, match=f"is an operation '{op}'") as caught:
        encoded(batch)
    assert "SequenceTable" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"payload": "string"}, 'payload: with envelope="outbox" alone'),
        ({"event_headers": ("type",), "envelope": "row"}, 'event_headers: with envelope="outbox" alone'),
        ({"envelope": "outbox", "event_headers": ("id",)}, "name a header twice"),
        ({"envelope": "outbox", "event_headers": ("type", "type")}, "name a header twice"),
        ({"envelope": "outbox", "event_headers": ("",)}, "an empty one"),
        ({"envelope": "outbox", "cloudevents": True}, "cloudevents are of changes"),
        ({"envelope": "outbox", "ddl": True}, "ddl"),
        ({"envelope": "outbox", "transaction_topic": "t"}, "transaction_topic"),
        ({"envelope": "outbox", "format": "avro", "registry_conn_id": "r"}, "format"),
        ({"envelope": "outbox", "types": "debezium"}, "types"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Kafka(conn_id="k", **options)


def test_options_are_stored_where_they_are_chosen() -> None:
    stored = Kafka(conn_id="k", envelope="outbox").to_json()
    assert stored["envelope"] == "outbox"
    assert not {"payload", "event_headers"} & stored.keys()
    chosen = Kafka(conn_id="k", envelope="outbox", payload="string", event_headers=("type",))
    assert chosen.to_json()["event_headers"] == ["type"]
    assert Kafka.from_stored({name: value for name, value in chosen.to_json().items() if name != "kind"}) == chosen


def test_rows_are_routed_by_kind_in_the_direct_lane() -> None:
    source = SequenceTable(conn_id="p", table="public.outbox")
    route = Route(by="aggregatetype", routes=("Order", "Customer"))
    for envelope, direct in (("outbox", True), ("canal", False)):
        flow = Flow(name="f", source=source, transforms=(route,), sinks=(Kafka(conn_id="k", envelope=envelope),))
        assert may_be_direct(flow) == direct
        assert [finding.code for finding in lane_findings(flow)] == ([] if direct else ["lane_required"])


def test_the_direct_lane_alone_writes_it_and_it_is_not_read_back() -> None:
    sink = Kafka(conn_id="k", envelope="outbox")
    (finding,) = lane_findings(Flow(name="f", source=Mock(rows=10), sinks=(sink,), lane="spark"))
    assert finding.code == "lane_required"
    with pytest.raises(ValidationRefusedError, match='envelope="outbox"'):
        require_read_back(sink)
    opened: Any = open_sink(envelope="outbox")
    with pytest.raises(SinkSettingError, match="direct lane alone"):
        opened.encode(None, None)
    assert isinstance(opened.encoder(plan(SinkPlan())), OutboxEncoder)
