"""Simple sinks get the same rows in both lanes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from databus.rows.emit import emit
from databus.rows.image_form import VARIANT_FORM, json_form
from databus.sinks.simple_rows import COLUMNS, SimpleEncoder, SimpleRows, encoded_frame
from databus.testing.table_batches import batch, table, transactions

pytestmark = pytest.mark.spark


def test_the_encoders_agree(spark: Any) -> None:
    from pyspark.sql import functions as f

    schema = table("shop.orders", {"id": "bigint", "state": "text", "money": "decimal(12,2)"})
    images = [{"id": n, "state": None if n % 3 else 'é"\n', "money": Decimal(f"{n}.10")} for n in range(9)]
    changed = [(None, image) for image in images]
    changed += [(images[0], {**images[0], "state": "x"}), (images[1], {**images[1], "id": 99}), (images[2], None)]
    decoded, log = batch(schema, changed), transactions()
    through_spark = pa.Table.from_batches(emit(decoded, log, "srv", VARIANT_FORM))
    frame = spark.createDataFrame(through_spark).withColumn("route", f.concat_ws(".", "database", "table"))
    encoded = encoded_frame(frame)
    assert encoded.columns == ["slot", *COLUMNS]
    (direct,) = emit(decoded, log, "srv", json_form({}))
    routed = direct.append_column("route", pa.repeat(pa.scalar("shop.orders"), direct.num_rows))
    ours = list(SimpleRows([SimpleEncoder().encode(routed, 0)], "i/f/s", 1))
    theirs = list(SimpleRows(encoded.toArrow().to_batches(), "i/f/s", 1))
    assert len(ours) == len(changed) + 1
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.event_id, mine.op, mine.table, mine.route, mine.key_json, mine.committed_at) == (
            other.event_id, other.op, other.table, other.route, other.key_json, other.committed_at,
        )  # fmt: skip
        assert (mine.before, mine.after) == (other.before, other.after)
