"""What killed runs left in the segment store goes with the next claim; plans in flight keep theirs."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import databus.runtime.batch as batch_module
from databus import Batching, Flow, Kafka, MysqlBinlog
from databus.binlog.segments.store import LEFT_AGE_S
from databus.core.state.backfill import Aim, Mode
from databus.sources.mysql.source import MysqlBinlogSource
from tests.integration.backfills import past_services, run_range
from tests.integration.conftest import World
from tests.integration.one_process import run_locally

pytestmark = pytest.mark.integration


class KilledError(Exception):
    """The run is cut off."""


def _killed(*_: Any, **__: Any) -> Any:
    raise KilledError


def _age(home: Path) -> None:
    old = time.time() - LEFT_AGE_S - 60
    for path in (*home.rglob("*"), home):
        os.utime(path, (old, old))


def _dumps_seen(planned: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note at each batch from now on whether the dump of a planned range is still the one that is there now."""
    index, seen = planned / "index.json", list[bool]()
    made, move = index.stat().st_ino, batch_module._move_direct

    def looks(*args: Any, **named: Any) -> Any:
        seen.append(index.stat().st_ino == made)
        return move(*args, **named)

    monkeypatch.setattr(batch_module, "_move_direct", looks)
    return seen


def orders(world: World, database: str, name: str, **options: Any) -> tuple[Flow, str, int]:
    """Return a flow over a table with two rows, and the place before the table."""
    with world.sql(database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO orders VALUES (1), (2)")
    flow = Flow(
        name=f"{database}_{name}",
        source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{database}.*",), start=f"{file}:{position}"),
        sinks=(Kafka(conn_id="kafka_east", topic=f"{database}_{name}"),),
        batching=Batching(max_wait=timedelta(seconds=0.2)),
        **options,
    )
    return flow, file, position


def test_leftovers_go_and_the_plan_in_flight_stays(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, file, position = orders(world, database, "sweep")

    with monkeypatch.context() as patched:
        patched.setattr(batch_module, "_move_direct", _killed)
        with pytest.raises(KilledError):
            world.run(flow)
    (planned,) = Path(world.settings.segment_store, flow.name).glob("*/*-*")
    home = planned.parent
    (home / ".staging-of-a-kill").mkdir()
    (home / ".staging-of-a-kill" / "rows").write_bytes(b"rows")
    (home / f"{file}.4-{file}.{position}").mkdir()
    _age(home)
    seen = _dumps_seen(planned, monkeypatch)
    result = world.run(flow)
    assert seen == [True]  # the planned range was there still, not dumped again
    assert result.tables[f"{database}.orders"] == 2
    assert list(home.glob("*-*")) == []


def test_leftovers_of_backfills_and_rehearsals_go_and_an_unfinished_one_keeps_its_plan(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # its store knows one flow: pieces are asked about beside it
    flow, file, position = orders(world, database, "beside", on_zookeeper_loss="continue")
    run_locally(world, flow)
    place = world.checkpoint(flow).offset
    wanted = (f"{file}:{position}", str(place))
    with monkeypatch.context() as patched:  # killed between commit and release
        patched.setattr(MysqlBinlogSource, "release", lambda *_: None)
        done = run_range(world, flow, *wanted)
    cut = Aim(Mode.REPLAY, ".cut")
    with monkeypatch.context() as patched:
        patched.setattr(batch_module, "_move_direct", _killed)
        with pytest.raises(KilledError):
            run_range(world, flow, *wanted, cut)
    with past_services(world, flow) as services:
        (begun,) = (b for b in services.backfills.backfills(flow.name) if b.aim == cut)  # type: ignore[union-attr]
    store = Path(world.settings.segment_store)
    (planned,) = (store / begun.piece_name(0)).glob("*/*-*")
    (planned.parent / ".staging-of-a-kill").mkdir()
    (store / f"{flow.name}.rehearsal" / "server" / "a-b").mkdir(parents=True)
    left = {path.name for path in store.glob(f"{flow.name}.*")}
    assert left == {done.pieces[0].name, begun.piece_name(0), f"{flow.name}.rehearsal"}
    run_locally(world, flow)
    assert {path.name for path in store.glob(f"{flow.name}.*")} == left  # somebody may be at it still
    for path in store.glob(f"{flow.name}.*"):
        _age(path)
    run_locally(world, flow)
    assert {path.name for path in store.glob(f"{flow.name}.*")} == {begun.piece_name(0)}
    assert [path.name for path in planned.parent.iterdir() if path.name != "prepared"] == [planned.name]
    seen = _dumps_seen(planned, monkeypatch)
    assert run_range(world, flow, *wanted, cut).rows.dispatched == 2
    assert seen == [True]
