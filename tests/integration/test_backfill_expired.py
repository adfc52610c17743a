"""A backfill that stood still until Kafka had dropped its markers for age."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from databus.core.errors import BackfillIncompleteError, MarkerDivergedError, SinkError
from databus.ops.backfill.status import status
from databus.runtime import batch as batch_module
from databus.runtime import plan as plan_module
from tests.integration.backfills import BackfillShop, Later, drained_at_the_first_commit
from tests.integration.conftest import World
from tests.integration.kafka_target import forget_markers
from tests.integration.test_quarantine import killed

pytestmark = [pytest.mark.integration]


def _stopped_in_its_first_batch(world: World, monkeypatch: pytest.MonkeyPatch, where: str) -> BackfillShop:
    """Return a shop whose backfill was killed in its first batch a week ago; Kafka has dropped its markers."""
    shop = BackfillShop.of(world, f"bf_first_{where}")
    shop.commit_at(0, 10)
    shop.commit_at(1)
    shop.live()
    with monkeypatch.context() as cut:
        cut.setattr(batch_module, where, killed)
        with pytest.raises(SinkError, match="killed here"):
            shop.backfill(shop.at(0), shop.at(1))
    with shop.services() as services:
        (stopped,) = status(shop.shop.flow, services)
    assert stopped.pieces[0].in_flight
    if where == "commit":
        forget_markers(world.sandbox.address("kafka"), stopped.backfill.piece_name(0), "kafka")
    later = Later().now() + timedelta(days=8)
    monkeypatch.setattr(Later, "now", lambda _: later)
    return shop


def test_one_killed_in_its_first_batch_asks_before_it_repeats_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch expects no markers: that they are gone looks like nothing written."""
    shop = _stopped_in_its_first_batch(world, monkeypatch, "commit")
    once = Counter(dict.fromkeys(shop.by_minute()[0], 1))
    assert shop.ids(".replay") == once
    with pytest.raises(MarkerDivergedError, match="nothing shows whether they have rows of it") as asked:
        shop.backfill(shop.at(0), shop.at(1))
    assert f"{shop.name}.replay" in asked.value.hint
    assert shop.ids(".replay") == once
    assert shop.backfill(shop.at(0), shop.at(1), consents=True).done
    assert shop.ids(".replay") == once + once


def test_one_killed_before_it_wrote_anything_goes_on_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = _stopped_in_its_first_batch(world, monkeypatch, "_move")
    assert shop.backfill(shop.at(0), shop.at(1)).done
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 1))


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
            older.setattr(plan_module, "recall_piece", lambda *_, **__: None)
            with pytest.raises(MarkerDivergedError, match="found no marker"):
                shop.backfill(shop.at(0), shop.at(1))
        monkeypatch.setattr(Later, "now", lambda _: now + timedelta(days=9))
    shop.backfill(shop.at(0), shop.at(1))
    assert shop.ids(".replay") == Counter(dict.fromkeys(shop.by_minute()[0], 1))
