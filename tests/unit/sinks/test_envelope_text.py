"""What the envelope's text says of rows that tests/spark does not compare: those of a snapshot."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa

from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import Plan
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.sinks import envelope_text
from databus.testing.table_batches import batch, table, transactions


def test_rows_of_a_snapshot_belong_to_no_transaction() -> None:
    offsets = OffsetRange(BinlogOffset("log.000001", 4), BinlogOffset("log.000001", 900))
    plan = Plan("test", "the_flow", 7, offsets, {}, "spec", datetime(2026, 11, 21, tzinfo=UTC))
    schema = table("shop.t", {"id": "int"})
    (rows,) = emit(batch(schema, [(None, {"id": n}) for n in range(3)]), transactions(), "srv", json_form({}))
    place = rows.schema.get_field_index("op")
    mixed = rows.set_column(place, rows.schema.field(place), pa.array(["r", "c", "r"]))

    found = [json.loads(value) for value in envelope_text.debezium(mixed, plan).to_pylist()]

    assert [(r["op"], r["source"]["snapshot"], r["transaction"]) for r in found] == [
        ("r", "true", None),
        ("c", "false", {"id": "source:1", "total_order": 2}),
        ("r", "true", None),
    ]
    assert [r["after"] for r in found] == [{"id": 0}, {"id": 1}, {"id": 2}]
