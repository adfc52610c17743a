"""Backfills in order: which earlier ranges one waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.core.errors import BackfillOpenError
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.settings import Settings
from databus.core.state.backfill import Backfill, Mode, aim_of
from databus.ops.backfill.run import _in_order
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from databus.testing.memory_store import MemoryCheckpoints

FLOW = Flow(name="shop", source=MysqlBinlog(conn_id="m", tables=("shop.t",)), sinks=(Noop(),))
AIM = aim_of(Mode.REPLAY, "_again", "", into_live=False)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def asked(generation: int, first: int, last: int) -> Backfill:
    start, end = (
        replace(BinlogOffset("b.000001", at, "", "mysql", "u"), generation=generation, timeline=generation)
        for at in (first, last)
    )
    moved = OffsetRange(start, end)
    return Backfill("shop", AIM, moved, (str(start), str(end)), (moved,), "airflow", AT)


def take_turn(folder: Path, mine: Backfill, *others: Backfill) -> None:
    """Let a range be moved in order, after all that were asked for."""
    known: Any = SimpleNamespace(
        finished=lambda _flow: frozenset(),
        backfills=lambda _flow, among: [one for one in (*others, mine) if among(one.id)],
        note_finished=lambda *_: None,
    )
    url = f"sqlite:///{folder / 'records.db'}"
    with SqlRecorder(RecordStore(url)):
        pass
    services: Any = SimpleNamespace(
        backfills=known, store=MemoryCheckpoints(), settings=Settings("t", str(folder), url)
    )
    run: Any = SimpleNamespace(lease_wait_s=0.0, order_wait_s=0.0, identity=SimpleNamespace(run_id="r"))
    with _in_order(FLOW, services, mine, run):
        pass


def test_a_range_of_a_log_that_was_replaced_is_not_waited_for(tmp_path: Path) -> None:
    """`checkpoint skip --new-log` leaves it undone, and nobody can move the rest of it."""
    take_turn(tmp_path, asked(1, 4, 500), asked(0, 4, 900))


@pytest.mark.parametrize("generation", [0, 1])
def test_an_earlier_range_of_the_same_log_is(tmp_path: Path, generation: int) -> None:
    with pytest.raises(BackfillOpenError, match="waits for"):
        take_turn(tmp_path, asked(generation, 500, 900), asked(generation, 4, 500))
