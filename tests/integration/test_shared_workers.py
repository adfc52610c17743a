"""Sessions of a Spark Connect server share its Python workers, and are found again by their names."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from databus.runtime.spark import session as engine
from databus.runtime.spark.session import connect_session
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Let go of the sessions where no lock is held (see `World.run`)."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def daemon(session: Any) -> int:
    """Process id of the Python daemon whose workers the session uses."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"pid": [os.getppid()]})

    (found,) = {row.pid for row in session.range(1).mapInArrow(ask, "pid BIGINT").collect()}
    return int(found)


def session_id(session: Any) -> str:
    return str(session.session_id)


def test_sessions_of_two_flows_share_their_workers(world: World) -> None:
    one, other = world.spark("shared_workers_1"), world.spark("shared_workers_2")
    assert session_id(one) != session_id(other)
    assert daemon(one) == daemon(other)
    assert one.conf.get("spark.sql.session.timeZone") == "UTC"


def test_settings_and_views_stay_a_sessions_own(world: World) -> None:
    one, other = world.spark("own_settings_1"), world.spark("own_settings_2")
    one.conf.set("spark.sql.shuffle.partitions", "3")
    one.range(1).createOrReplaceTempView("seen_by_one")
    assert other.conf.get("spark.sql.shuffle.partitions") != "3"
    assert not other.catalog.tableExists("seen_by_one")


def test_a_session_is_found_again_until_the_server_closed_it(world: World) -> None:
    first = world.spark("found_again")
    again = world.spark("found_again")
    assert session_id(again) == session_id(first)
    again.stop()
    next_one = world.spark("found_again")
    assert session_id(next_one) != session_id(first)
    assert daemon(next_one) == daemon(world.spark("shared_workers_1"))


def test_a_model_that_the_server_closed_is_made_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MODEL", "test/a model that is closed")
    shared = daemon(world.spark("shared_workers_1"))
    url = f"sc://{world.sandbox.address('spark')}"
    model = next(engine._generations(engine._MODEL))
    connect_session(url, "test/makes the model")
    from pyspark.sql.connect.client.core import SparkConnectClient

    client = SparkConnectClient(connection=engine._with_session(url, model))
    client.release_session()
    client.close()
    assert daemon(connect_session(url, "test/after the model")) == shared


def test_columns_are_built_beside_an_earlier_session_that_the_server_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark's functions ask the thread's active session for a setting, once in a process."""
    from pyspark.errors import utils
    from pyspark.sql import functions
    from pyspark.sql.connect.client.core import SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    monkeypatch.setattr(utils, "_enable_debugging_cache", None)
    earlier = world.spark("earlier_active")
    SparkSession._active_session.session = earlier
    client = SparkConnectClient(
        connection=engine._with_session(f"sc://{world.sandbox.address('spark')}", session_id(earlier))
    )
    client.release_session()
    client.close()
    session = world.spark("later_active")
    assert session.range(2).select(functions.concat_ws(".", "id", "id").alias("c")).collect()[1].c == "1.1"


ENDS = """
import sys
from pyspark.sql.connect.client.core import SparkConnectClient
from databus.runtime.spark.session import connect_session
SparkConnectClient._cleanup_ml_cache = lambda client: print("asked")
session = connect_session(*sys.argv[1:])
assert session.range(3).count() == 3
"""


def test_a_process_that_ends_asks_nothing_more_of_its_server(world: World) -> None:
    """PySpark has every client clear ML models as Python ends: 15 seconds for each where the server has gone."""
    told = [f"sc://{world.sandbox.address('spark')}", "test/a process that ends"]
    ended = subprocess.run([sys.executable, "-c", ENDS, *told], check=True, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "", ended.stderr
