"""The search sink's two encoders: the same rows, the same documents for the writer, in either lane."""

from __future__ import annotations

import random
from decimal import localcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal

from databus.core.connections import Connection
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.protocols import DirectEncoder
from databus.core.state.plan import Plan, SinkPlan
from databus.rows.image_form import VARIANT_FORM, json_form
from databus.sinks.elasticsearch.direct import PASSED_ON
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sinks.elasticsearch.spec import Elasticsearch
from databus.testing.table_batches import batch, table
from tests.spark.test_direct_lane import CLOCK, TYPES, by_type, changes, emitted, loaded

pytestmark = pytest.mark.spark

COLUMNS = {"slot", "document", *PASSED_ON}


def in_arrow(encoder: DirectEncoder, pieces: list[pa.RecordBatch], slots: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for piece in pieces:
        rows = piece.append_column("route", pa.array(["shop.types"] * piece.num_rows))
        for slot in range(slots):
            encoded = encoder.encode(rows, slot)
            assert encoded.validate(full=True) is None
            assert set(encoded.schema.names) == COLUMNS
            assert set(encoded["slot"].to_pylist()) <= {slot}
            assert not found.keys() & set(encoded["event_id"].to_pylist())
            found.update({row["event_id"]: row for row in encoded.to_pylist()})
    return found


@pytest.mark.parametrize("slots", [1, 2])
def test_the_documents_agree(spark: Any, slots: int) -> None:
    """Random rows of every type, some flagged (dates and texts that no type holds), deletes, primary-key updates."""
    from pyspark.sql import functions as f

    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    rows = [batch(table("shop.types", TYPES), changes(r, 300), transactions=[0] * 300, ordinals=range(300))]
    spec = Elasticsearch(conn_id="search", slots=slots)
    offsets = OffsetRange(BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000001", 900))
    plan = Plan("test", "the_flow", 7, offsets, {"elasticsearch": SinkPlan(slots, (0,) * slots)}, "spec", CLOCK)
    sink = ElasticsearchSink(spec, Connection(conn_id="search", conn_type="opensearch"), "the_flow")
    through_spark = spark.createDataFrame(pa.Table.from_batches(emitted(rows, (), VARIANT_FORM, gtid=True)))
    expected = {
        row["event_id"]: row.asDict()
        for row in sink.encode(through_spark.withColumn("route", f.lit("shop.types")), plan).collect()
    }

    found = in_arrow(sink.encoder(plan), emitted(rows, (), json_form({}), gtid=True), slots)

    assert found.keys() == expected.keys()
    assert any("__flags" in (row["document"] or "") for row in found.values()), seed
    for name, row in found.items():
        wanted = expected[name]
        assert set(wanted) == COLUMNS
        for passed in ("slot", *PASSED_ON[:-1]):
            theirs = wanted[passed]
            assert row[passed] == (bytes(theirs) if isinstance(theirs, bytearray) else theirs), (passed, seed)
        assert by_type(TYPES, loaded(row["document"])) == by_type(TYPES, loaded(wanted["document"])), seed
        before = wanted["before"]
        with localcontext(prec=80):  # PySpark's VariantVal computes decimals in the context's precision
            text = before.toJson() if isinstance(before, VariantVal) else None
        assert by_type(TYPES, loaded(row["before"])) == by_type(TYPES, loaded(text)), seed
