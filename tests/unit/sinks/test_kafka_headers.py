"""Headers of Kafka records: chosen ones, and CloudEvents'."""

from __future__ import annotations

import hashlib
import re

import pyarrow as pa
import pytest

from databus.core.errors import ConfigError
from databus.core.state.plan import SinkPlan
from databus.sinks.kafka.headers import header_arrays, header_bytes, header_lists, of_tombstone
from databus.sinks.kafka.spec import Kafka
from tests.reference.made_messages import plan
from tests.unit.formats.encoded_messages import encoded

GTID = "f7ceba1a-e55e-11f1-96ca-02fc00000001"


def _headers(**options: object) -> list[list[tuple[str, str]]]:
    return [headers for batch in encoded("orders", **options) for headers in header_lists(batch) or []]


def test_by_default_no_column_is_made() -> None:
    (first, *_) = encoded("orders")
    assert header_lists(first) is None
    assert header_bytes(first).tolist() == [0] * first.num_rows


def test_the_chosen_ones_in_their_order() -> None:
    chosen = ("op", "event_id", "table", "gtid", "position", "server_id", "flow", "batch")
    first, second, *_ = _headers(headers=chosen)
    assert first == [
        ("op", "c"), ("event_id", f"{GTID}:2:0:0"), ("table", "shop.orders"), ("gtid", f"{GTID}:2"),
        ("position", "mysql-bin.000002:645"), ("server_id", "7"), ("flow", "orders_to_kafka"), ("batch", "7"),
    ]  # fmt: skip
    assert second[0] == ("op", "u")


def test_a_trace_for_each_transaction_and_a_parent_for_each_change() -> None:
    found = [dict(headers) for headers in _headers(headers=("event_id", "traceparent"))]
    assert all(re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-00", each["traceparent"]) for each in found)
    pairs = {(each["event_id"].rsplit(":", 2)[0], each["traceparent"].split("-")[1]) for each in found}
    traces = dict(pairs)
    assert (
        len(pairs)
        == len(set(traces.values()))
        == len(traces)
        < len(found)
        == len({each["traceparent"] for each in found})
    )
    transaction = f"{GTID}:2"
    assert traces[transaction] == hashlib.sha256(transaction.encode()).hexdigest()[:32]


def test_copies_and_boundaries_are_of_the_trace_of_their_transaction() -> None:
    ends = ("begin", "0:0", "1:0.0", "1:0.1", "1:1.12", "end")
    ids = [f"{transaction}:{end}" for transaction in (f"{GTID}:2", "mysql-bin.000002:645") for end in ends]
    rows = pa.table({"event_id": ids}).to_batches()[0]
    spec = Kafka(conn_id="k", headers=("event_id", "traceparent"))
    found = header_arrays(rows, spec, plan(SinkPlan()))["header:traceparent"].to_pylist()

    traces = [each.split("-")[1] for each in found]
    wanted = (hashlib.sha256(each).hexdigest()[:32] for each in (f"{GTID}:2".encode(), b"mysql-bin.000002:645"))
    assert traces == [each for each in wanted for _ in ends]
    assert len(set(found)) == len(ids)


def test_cloud_events_of_any_envelope() -> None:
    first, *_ = _headers(cloudevents=True, envelope="row")
    assert dict(first) == {
        "event_id": f"{GTID}:2:0:0", "ts_ms": "1777803630120", "ce_specversion": "1.0",
        "ce_source": "/databus/orders_to_kafka", "content-type": "application/json", "ce_id": f"{GTID}:2:0:0",
        "ce_type": "databus.mysql.create", "ce_time": "2026-05-03T10:20:30.120Z", "ce_subject": "shop.orders",
    }  # fmt: skip
    assert of_tombstone(first) == [("event_id", f"{GTID}:2:0:0"), ("ts_ms", "1777803630120")]


def test_their_bytes_are_counted() -> None:
    batch = pa.RecordBatch.from_pydict({"header:op": ["c", None], "value": [b"x", b"y"]})
    assert header_bytes(batch).tolist() == [9, 8]
    assert header_lists(batch) == [[("op", "c")], []]


@pytest.mark.parametrize("headers", [("ts_ms",), ("event_id", "event_id"), ("event_id", "other")])
def test_sets_that_are_refused(headers: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="headers"):
        Kafka(conn_id="k", headers=headers)
