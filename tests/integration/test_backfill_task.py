"""The task of a backfill DAG on real servers: which range it moves, and how it waits for its turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from databus.ops.backfill.status import status
from tests.integration.backfill_task import TaskRuns
from tests.integration.backfills import BackfillShop
from tests.integration.conftest import World

pytestmark = [pytest.mark.integration]


def test_in_order_the_task_leaves_its_worker_while_an_earlier_run_is_not_over(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = BackfillShop.of(world, "bf_turn")
    for minute in range(2):
        shop.commit_at(minute, 4)
    shop.live()
    task = TaskRuns(shop, tmp_path, monkeypatch)
    task.earlier = {"running": "day 1"}
    with pytest.raises(TaskDeferred) as first:
        task.run("backfill")
    assert (first.value.method_name, first.value.kwargs) == ("resumed", {"queued_since": None})
    task.earlier = {"queued": "day 1"}
    with pytest.raises(TaskDeferred) as second:
        task.run("backfill", then=first.value)
    assert second.value.kwargs is not None
    since = second.value.kwargs["queued_since"]
    with pytest.raises(TaskDeferred) as third:
        task.run("backfill", then=second.value)
    assert third.value.kwargs == {"queued_since": since}  # two minutes are counted over all looks
    with shop.services() as services:
        assert status(shop.shop.flow, services) == []  # before its turn it asks for nothing
        task.earlier = {}
        monkeypatch.setattr("databus.airflow.backfills.operator._ORDER_WAIT_S", 0.0)
        lease = services.store.claim(f"{shop.name}.backfill-order", "somebody", 0)
        for run_type in ("backfill", "manual"):
            with pytest.raises(TaskDeferred) as held:
                task.run(run_type, **{"from": shop.at(0), "to": shop.at(1)})
        lease.release()
    assert task.run("backfill", then=held.value)["done"]
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 1))
    # Who wants no order asks for nobody; nor does a run that has no interval.
    task.earlier = {"running": "day 1"}
    assert task.run("backfill", order="parallel")["done"]
    assert task.run("manual", **{"from": shop.at(0), "to": shop.at(1)})["done"]


def test_the_task_moves_its_data_interval_or_the_range_it_was_triggered_with(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = BackfillShop.of(world, "bf_task")
    for minute in range(3):
        shop.commit_at(minute, 4)
    shop.live()
    run = TaskRuns(shop, tmp_path, monkeypatch).run

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
