"""A backfill that stood still until Kafka had dropped its markers for age."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from databus.core.errors import BackfillIncompleteError, MarkerDivergedError
from databus.ops.backfill_status import status
from databus.runtime import plan as plan_module
from tests.integration.backfills import BackfillShop, Later, drained_at_the_first_commit
from tests.integration.conftest import World
from tests.integration.kafka_target import forget_markers

pytestmark = [pytest.mark.integration]


@pytest.mark.parametrize("before", [False, True], ids=["", "stuck with an older databus"])
def test_one_that_was_drained_until_its_markers_expired_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """Nobody can rewind a piece."""
    shop = BackfillShop.of(world, f"bf_expired{before:d}")
    flow = shop.shop.flow
    shop.shop.flow = flow.model_copy(update={"batching": flow.batching.model_copy(update={"max_rows": 5})})
    shop.commit_at(0, 30)
    shop.commit_at(1)
    shop.live()
    with pytest.raises(BackfillIncompleteError, match="is not done"):
        shop.backfill(shop.at(0), shop.at(1), drain=drained_at_the_first_commit(monkeypatch))
    with shop.services() as services:
        (drained,) = status(shop.shop.flow, services)
    forget_markers(world.sandbox.address("kafka"), drained.backfill.piece_name(0), "kafka")
    now = Later().now()
    monkeypatch.setattr(Later, "now", lambda _: now + timedelta(days=8))
    if before:
        with monkeypatch.context() as older:
            older.setattr(plan_module, "recall_piece", lambda *_: None)
            with pytest.raises(MarkerDivergedError, match="found no marker"):
                shop.backfill(shop.at(0), shop.at(1))
        monkeypatch.setattr(Later, "now", lambda _: now + timedelta(days=9))
    shop.backfill(shop.at(0), shop.at(1))
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 1))
