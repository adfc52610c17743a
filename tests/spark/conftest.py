"""One local Spark session for all tests that need Spark itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.emit import emit
from databus.rows.frames.changes import FrameChanges
from databus.testing.table_batches import transactions


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .appName("databus-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.python.daemon.module", "databus.runtime.spark.worker_daemon")
        # Not UTC: what is typed must not depend on the session's zone.
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def changes_of(spark: Any) -> Callable[..., FrameChanges]:
    """Return a function from decoded batches (and statement rows) to Changes over a DataFrame."""

    def build(*batches: TableBatch, statements: Sequence[pa.RecordBatch] = ()) -> FrameChanges:
        pieces = [piece for b in batches for piece in emit(b, transactions(8), "server")]
        rows = spark.createDataFrame(pa.Table.from_batches([*pieces, *statements]))
        return FrameChanges.of(rows, [b.schema for b in batches])

    return build
