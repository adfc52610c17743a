"""A run that is to end once nothing is new ends on a server where others never stop writing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from databus import Flow, Kafka, MysqlBinlog
from databus.runtime.window_limits import WindowLimits
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration, pytest.mark.spark]

BATCHES = 40
"""Far more than it takes: a run that waits for silence moves nothing but others' changes as often as it may."""


@pytest.fixture
def _others(world: World, database: str) -> Iterator[None]:
    done = threading.Event()

    def write() -> None:
        with world.sql(database) as connection, connection.cursor() as cursor:
            while not done.wait(0.005):
                cursor.execute("INSERT INTO theirs () VALUES ()")

    with world.sql(database) as connection, connection.cursor() as cursor:
        for table in ("mine", "theirs"):
            cursor.execute(f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY)")
    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.usefixtures("_others")
def test_a_run_ends_although_others_go_on_writing(world: World, database: str) -> None:
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = (cursor.fetchone() or ())[:2]
        cursor.execute("INSERT INTO mine () VALUES (), (), ()")
    flow = Flow(
        name=f"{database}_mine",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.mine",), start=f"{file}:{position}"),
        sinks=(Kafka(conn_id="kafka_east", topic=f"{database}_mine"),),
    )
    first = world.run(flow, max_batches=BATCHES)
    assert (first.tables, first.batches < BATCHES) == ({f"{database}.mine": 3}, True)
    again = world.run(flow, max_batches=BATCHES)
    assert (again.tables, again.batches < BATCHES) == ({}, True)
    assert WindowLimits.of_a_run(60, "economy").until_caught_up
