"""Documents of the direct lane: flags inside them, none for deletes, and the payload of a row that is refused."""

from __future__ import annotations

import json

import pyarrow as pa

from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.sinks.elasticsearch.direct import ElasticsearchEncoder
from databus.sinks.elasticsearch.documents import RowWrite
from databus.sinks.elasticsearch.tally import rejected_row
from databus.testing.table_batches import batch, table, transactions

PAIRS = [(None, {"id": 1, "v": "a"}), ({"id": 1, "v": "a"}, {}), ({"id": 1, "v": "b"}, None)]


def rows(flags: list[list[str] | None]) -> pa.RecordBatch:
    (made,) = emit(batch(table("shop.t", {"id": "int", "v": "text"}), PAIRS), transactions(), "srv", json_form({}))
    place = made.schema.get_field_index("flags")
    flagged = made.set_column(place, made.schema.field(place), pa.array(flags, made.schema.field(place).type))
    return flagged.append_column("route", pa.array(["shop.t"] * 3))


def test_flags_become_a_member_of_the_document_and_a_delete_has_none() -> None:
    plain = ElasticsearchEncoder(1).encode(rows([None, None, None]), 0)["document"].to_pylist()
    assert [text and json.loads(text) for text in plain] == [{"id": 1, "v": "a"}, {}, None]

    found = ElasticsearchEncoder(1).encode(rows([["x", "y"], ["z"], ["x"]]), 0)["document"].to_pylist()
    assert [text and json.loads(text) for text in found] == [
        {"id": 1, "v": "a", "__flags": ["x", "y"]}, {"__flags": ["z"]}, None,
    ]  # fmt: skip


def test_a_refused_row_carries_both_images() -> None:
    encoded = ElasticsearchEncoder(1).encode(rows([None, None, None]), 0)
    write = RowWrite("shop.t", "1", 7, "{}", "shop.t", ("log.000001", 9), (encoded, 2))
    payload = json.loads(rejected_row(write, "too long", "elasticsearch").payload)
    assert payload == {"op": "d", "before": {"id": 1, "v": "b"}, "after": None}
