"""Backfills on real servers: what a consumer sees, what the live flow's nodes hold, what the ledger proves."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from databus.airflow.backfill import BackfillOperator, backfill_params
from databus.core.backfill import Aim, Mode
from databus.core.errors import (
    BackfillFutureError,
    BackfillIncompleteError,
    BackfillOpenError,
    BackfillRangeError,
    CheckpointConflictError,
    SinkUnavailableError,
)
from databus.ops import mediation
from databus.ops.backfill import Wanted, preview, take_up
from databus.ops.backfill_status import status
from databus.ops.mediation import Said
from databus.ops.services import open_services
from databus.ops.targets import Target
from databus.runtime.drain import Drain
from tests.integration.backfills import BackfillShop, Later, at_once, cut_off_twice
from tests.integration.commands import Commands
from tests.integration.conftest import World
from tests.integration.one_process import OneProcess

pytestmark = [pytest.mark.integration]

REPLAY = Aim(Mode.REPLAY, ".replay")
MISSING = Aim(Mode.MISSING)


def test_intervals_partition_the_changes_whatever_clocks_did(world: World) -> None:
    shop = BackfillShop.of(world, "bf_intervals")
    shop.commit_stepping_back(minutes=6, each=5, seed=3)
    shop.commit_at(7)
    shop.live(max_batches=2)
    shop.live()
    expected, before = shop.by_minute(), shop.live_nodes()
    assert len(expected) == 7
    seen: Counter[str] = Counter()
    order = list(range(7))
    random.Random(5).shuffle(order)
    for minute in order:
        state = shop.backfill(shop.at(minute), shop.at(minute + 1))
        now = shop.ids(".replay")
        assert set((now - seen).elements()) == expected.get(minute, set()), f"minute {minute}"
        assert state.done
        assert state.rows.dispatched == len(expected.get(minute, ()))
        seen = now
    assert set(seen.values()) == {1}
    assert set(seen) == set().union(*(ids for minute, ids in expected.items() if minute < 7))
    assert shop.live_nodes() == before
    assert shop.ids() == Counter(dict.fromkeys(set().union(*expected.values()), 1))


def test_a_range_once_also_when_it_is_run_again_or_twice_at_the_same_time(world: World) -> None:
    shop = BackfillShop.of(world, "bf_twice")
    shop.commit_at(0, 10)
    shop.commit_at(1, 10)
    shop.live()
    assert at_once(3, lambda: shop.backfill(shop.at(0), shop.at(1), lease_wait_s=60)) == []
    shop.backfill(shop.at(0), shop.at(1))
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 1))
    shop.backfill(shop.at(0), shop.at(1), Aim(Mode.REPLAY, ".replay", "again"))
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 2))


def test_cut_off_anywhere_it_goes_on_where_it_stands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = BackfillShop.of(world, "bf_cut")
    flow = shop.shop.flow
    shop.shop.flow = flow.model_copy(update={"batching": flow.batching.model_copy(update={"max_rows": 5})})
    shop.commit_at(0, 30)
    shop.commit_at(1)
    shop.live()
    drain = Drain()
    cut_off_twice(monkeypatch, drain)
    with pytest.raises(SinkUnavailableError):
        shop.backfill(shop.at(0), shop.at(1))
    with pytest.raises(BackfillIncompleteError, match="is not done"):
        shop.backfill(shop.at(0), shop.at(1), drain=drain)
    with shop.services() as services:
        (found,) = status(shop.shop.flow, services)
    assert not found.done
    assert shop.backfill(shop.at(0), shop.at(1)).pieces[0].batches > 3
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 1))


def test_missing_moves_what_was_skipped_to_the_live_topic_and_nothing_else(world: World) -> None:
    shop = BackfillShop.of(world, "bf_missing")
    shop.commit_at(0, 12)
    shop.live()
    shop.commit_at(1, 12)
    with open_services(shop.shop.flow, world.connections, world.settings) as services:
        mediation.execute(shop.shop.flow, services, "skip", Target(place="latest"), Said("ada", "in a hurry"))
    shop.commit_at(2, 12)
    shop.live()
    before, had = shop.live_nodes(), shop.ids()
    # Two intervals that overlap: what one takes up, the other leaves.
    first = shop.backfill(shop.at(0.5), shop.at(1.5), MISSING)
    second = shop.backfill(shop.at(0), shop.at(2), MISSING)
    again = shop.backfill(shop.at(0.5), shop.at(1.5), MISSING)
    assert (first.rows.read > 0, second.pieces, again.backfill) == (True, (), first.backfill)
    now = shop.ids()
    assert sum((now - had).values()) == first.rows.dispatched
    assert set(now.values()) == {1}

    assert sum(now.values()) == sum(shop.shop.writer.written.changes.values())
    assert shop.live_nodes() == before


def test_ranges_by_gtid_position_and_offset(world: World) -> None:
    shop = BackfillShop.of(world, "bf_places")
    places = []
    for minute in range(3):
        with shop.shop.connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            places.append(cursor.fetchone())
        shop.commit_at(minute, 4)
    shop.live()
    expected = shop.by_minute()
    by_position = [f"{row[0]}:{row[1]}" for row in places]
    by_gtid = [f"gtid:{row[4]}".replace("\n", "") for row in places]
    one = shop.backfill(by_position[0], by_position[1])
    two = shop.backfill(by_gtid[1], by_gtid[2])
    assert shop.ids(".replay") == Counter(dict.fromkeys(expected[0] | expected[1], 1))
    # The same range in other words is the same backfill.
    assert shop.backfill(by_gtid[0], by_gtid[1]).backfill == one.backfill
    assert shop.backfill(by_position[1], by_position[2]).backfill == two.backfill
    assert shop.ids(".replay") == Counter(dict.fromkeys(expected[0] | expected[1], 1))


def test_ranges_that_are_none_are_named(world: World) -> None:
    shop = BackfillShop.of(world, "bf_refused")
    with pytest.raises(CheckpointConflictError, match="has not run yet"):
        shop.backfill(shop.at(0), shop.at(1))
    shop.commit_at(0, 2)
    shop.live()
    now = datetime.now(UTC)
    with pytest.raises(BackfillRangeError, match="ends before it begins"):
        shop.backfill(shop.at(1), shop.at(0))
    with pytest.raises(BackfillRangeError, match="ends before it begins"):
        shop.backfill(shop.at(1), shop.at(1))
    with open_services(shop.shop.flow, world.connections, world.settings) as services:
        flow = shop.shop.flow

        def refuse(start: str, end: str, aim: Aim = REPLAY) -> None:
            preview(flow, services, Wanted(start, end, aim), "ada")

        with pytest.raises(BackfillFutureError, match="is in the future"):
            refuse(now.isoformat(), (now + timedelta(hours=1)).isoformat())
        shop.commit_at(1, 2)
        with pytest.raises(BackfillOpenError, match="the live flow stands at") as open_range:
            refuse("earliest", "latest", MISSING)
        assert open_range.value.retryable
        with pytest.raises(BackfillRangeError, match="a suffix or a name means nothing"):
            refuse("earliest", "latest", Aim(Mode.MISSING, ".replay"))


def test_in_order_waits_for_the_earlier_range(world: World) -> None:
    shop = BackfillShop.of(world, "bf_order")
    for minute in range(3):
        shop.commit_at(minute, 4)
    shop.live()
    with shop.services() as services:
        take_up(shop.shop.flow, services, Wanted(shop.at(0), shop.at(1), REPLAY), "airflow")
    with pytest.raises(BackfillOpenError, match="waits for"):
        shop.backfill(shop.at(1), shop.at(2), in_order=True)
    shop.backfill(shop.at(0), shop.at(1), in_order=True)
    shop.backfill(shop.at(1), shop.at(2), in_order=True)
    expected = shop.by_minute()
    arrived = list(shop.ids(".replay"))
    assert set(arrived[: len(expected[0])]) == expected[0]
    assert set(arrived[len(expected[0]) :]) == expected[1]


def test_the_task_moves_its_data_interval_or_the_range_it_was_triggered_with(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = BackfillShop.of(world, "bf_task")
    for minute in range(3):
        shop.commit_at(minute, 4)
    shop.live()
    Commands(world, tmp_path, monkeypatch)  # connections and settings in the environment, as a worker has them
    monkeypatch.setattr("databus.ops.services.SystemClock", Later)
    task = BackfillOperator(task_id="backfill", flow=shop.shop.flow)
    monkeypatch.setattr(task, "_spark", lambda *_: OneProcess)

    def run(run_type: str, **conf: Any) -> dict[str, Any]:
        params = {name: param.value for name, param in backfill_params().items()}
        context = {
            "ti": SimpleNamespace(log_url=""),
            "run_id": f"{run_type}__1",
            "dag_run": SimpleNamespace(run_type=SimpleNamespace(value=run_type)),
            "params": {**params, "mode": "replay", **conf},
            "data_interval_start": shop.base,
            "data_interval_end": shop.base + timedelta(minutes=1),
        }
        return task.execute(context)

    expected = shop.by_minute()
    with pytest.raises(AirflowSkipException, match="scheduled runs move nothing"):
        run("scheduled", mode="missing")
    for _ in range(2):  # cleared, it runs again
        assert run("backfill")["done"]
        assert shop.ids(".replay") == Counter(dict.fromkeys(expected[0], 1))
    assert run("manual", **{"from": shop.at(1), "to": shop.at(2)})["done"]
    assert shop.ids(".replay") == Counter(dict.fromkeys(expected[0] | expected[1], 1))
    with pytest.raises(AirflowFailException, match="backfill_range"):
        run("manual", **{"from": shop.at(2), "to": shop.at(1)})
    with pytest.raises(AirflowFailException, match="needs both from and to"):
        run("manual")
