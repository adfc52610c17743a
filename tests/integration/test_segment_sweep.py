"""What killed runs left in the segment store goes with the next claim; plans in flight keep theirs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import databus.runtime.batch as batch_module
from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.binlog.segment_store import LEFT_AGE_S
from tests.integration.conftest import World

pytestmark = pytest.mark.integration


class KilledError(Exception):
    """The run is cut off."""


def _age(home: Path) -> None:
    old = time.time() - LEFT_AGE_S - 60
    for path in (*home.rglob("*"), home):
        os.utime(path, (old, old))


def test_leftovers_go_and_the_plan_in_flight_stays(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO orders VALUES (1), (2)")
    flow = Flow(
        name=f"{database}_sweep",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), start=f"{file}:{position}"),
        sinks=(Kafka(conn_id="kafka_east", topic=f"{database}_sweep"),),
        batching=Batching(max_seconds=0.2),
    )

    def killed(*_: Any, **__: Any) -> Any:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(batch_module, "_move_direct", killed)
        with pytest.raises(KilledError):
            world.run(flow)
    (planned,) = Path(world.settings.segment_store, flow.name).glob("*/*-*")
    home = planned.parent
    (home / ".staging-of-a-kill").mkdir()
    (home / ".staging-of-a-kill" / "rows").write_bytes(b"rows")
    (home / f"{file}.4-{file}.{position}").mkdir()
    _age(home)
    read = planned.joinpath("index.json").stat().st_ino

    seen: list[bool] = []
    move = batch_module._move_direct

    def looks(*args: Any, **named: Any) -> Any:
        seen.append(planned.joinpath("index.json").stat().st_ino == read)
        return move(*args, **named)

    monkeypatch.setattr(batch_module, "_move_direct", looks)
    result = world.run(flow)
    assert seen == [True]  # the planned range was there still, not dumped again
    assert result.tables[f"{database}.orders"] == 2
    assert list(home.glob("*-*")) == []
