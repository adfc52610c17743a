"""What is counted before a filter stays counted when nothing passes the filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from databus.runtime.spark.session import SESSION_CONF

_RULES = "spark.sql.adaptive.optimizer.excludedRules"


@pytest.fixture
def ours(spark: Any) -> Iterator[Any]:
    """The session with the rules that ours exclude."""
    spark.conf.set(_RULES, SESSION_CONF[_RULES])
    yield spark
    spark.conf.unset(_RULES)


@pytest.mark.spark
def test_rows_that_are_all_held_back_are_counted(ours: Any) -> None:
    """As dispatch does for a sink of two slots; by default Spark drops the shuffle and the observation with it."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    rows = ours.range(10).observe(seen, f.count(f.lit(1)).alias("n")).where(f.col("id") > f.lit(100))
    placed = rows.repartitionById(2, f.col("id").cast("int")).sortWithinPartitions("id")
    assert placed.mapInArrow(lambda batches: batches, "id long").collect() == []
    assert seen.get == {"n": 10}
