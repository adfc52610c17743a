"""Backfills on real servers: what a consumer sees, what the live flow's nodes hold, what the ledger proves."""

from __future__ import annotations

import random
import shlex
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from databus.checkpoints.connection.session import start_client
from databus.core.errors import (
    BackfillFutureError,
    BackfillIncompleteError,
    BackfillOpenError,
    BackfillRangeError,
    BackfillWaitsError,
    CheckpointConflictError,
    SinkUnavailableError,
)
from databus.core.flow import Flow
from databus.core.state.backfill import Aim, Mode
from databus.ops.backfill import status as backfill_status
from databus.ops.backfill.run import BackfillRequest, preview, take_up
from databus.ops.backfill.status import status
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.ledger.show import LedgerState, read_ledger
from databus.ops.services import open_services
from databus.runtime.context import Services
from databus.runtime.drain import Drain
from tests.integration.backfill_task import TaskRuns
from tests.integration.backfills import BackfillShop, at_once, cut_off_twice
from tests.integration.conftest import World

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
        mediation.execute(shop.shop.flow, services, "skip", Target(place="latest"), Attribution("ada", "in a hurry"))
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


def test_what_another_backfill_took_up_and_did_not_move_is_still_missing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = BackfillShop.of(world, "bf_taken")
    flow = shop.shop.flow
    shop.shop.flow = flow.model_copy(update={"batching": flow.batching.model_copy(update={"max_rows": 5})})
    shop.commit_at(0, 4)
    shop.live()
    with shop.shop.connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone()
    shop.commit_at(1, 30)
    shop.commit_at(2, 8)
    with open_services(shop.shop.flow, world.connections, world.settings) as services:
        mediation.execute(shop.shop.flow, services, "skip", Target(place="latest"), Attribution("ada", "in a hurry"))
    shop.commit_at(3, 4)
    shop.live()
    had = shop.ids()
    began, ended = f"{file}:{position}", shop.at(2)
    drain = Drain()
    cut_off_twice(monkeypatch, drain)
    with pytest.raises(SinkUnavailableError):
        shop.backfill(began, ended, MISSING)
    with pytest.raises(BackfillIncompleteError, match="is not done"):
        shop.backfill(began, ended, MISSING, drain=drain)
    with shop.services() as services:
        (cut,) = status(shop.shop.flow, services)
    assert cut.pieces[0].stands is not None

    # A range that lies beside it goes on; one that holds what it has left is refused, and says what is to be run.
    assert shop.backfill(shop.at(0), shop.at(0.5), MISSING).pieces == ()
    with pytest.raises(BackfillOpenError, match=f"taken up by backfill {cut.backfill.id} .*from {began} to") as refused:
        shop.backfill(shop.at(0), shop.at(3), MISSING)
    with shop.services() as services:
        with pytest.raises(BackfillOpenError, match=cut.backfill.id):
            preview(shop.shop.flow, services, BackfillRequest(shop.at(0), shop.at(3), MISSING), "ada")
        assert len(status(shop.shop.flow, services)) == 2
    task = TaskRuns(shop, tmp_path, monkeypatch)
    with pytest.raises(AirflowSkipException, match=f"backfill {cut.backfill.id}.* is not done") as skipped:
        task.run("scheduled", minutes=3, mode="missing")
    assert "nothing is missing" not in str(skipped.value)
    command = shlex.split(refused.value.hint.split("`")[1])
    first = shop.backfill(command[command.index("--from") + 1], command[command.index("--to") + 1], MISSING)
    assert (first.done, first.backfill) == (True, cut.backfill)
    with pytest.raises(AirflowSkipException) as skipped:
        task.run("scheduled", minutes=3, mode="missing")
    wide = shop.backfill(shop.at(0), shop.at(3), MISSING)
    assert f"{wide.pieces[0].range} is missing" in str(skipped.value)
    now = shop.ids()
    assert set(now.values()) == {1}
    assert sum(now.values()) == sum(shop.shop.writer.written.changes.values())
    assert 0 < wide.rows.dispatched == sum((now - had).values()) - first.rows.dispatched
    with pytest.raises(AirflowSkipException, match="nothing is missing"):
        task.run("scheduled", minutes=3, mode="missing")


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
            preview(flow, services, BackfillRequest(start, end, aim), "ada")

        with pytest.raises(BackfillFutureError, match="is in the future"):
            refuse(now.isoformat(), (now + timedelta(hours=1)).isoformat())
        shop.commit_at(1, 2)
        with pytest.raises(BackfillOpenError, match="the live flow stands at") as open_range:
            refuse("earliest", "latest", MISSING)
        assert open_range.value.retryable
        named = open_range.value.hint.partition("--to ")[2].split()[0]
        assert str(preview(flow, services, BackfillRequest("earliest", named, MISSING), "ada").range.end) == named
        with pytest.raises(BackfillRangeError, match="a suffix or a name means nothing"):
            refuse("earliest", "latest", Aim(Mode.MISSING, ".replay"))


def test_in_order_waits_for_the_earlier_range(world: World) -> None:
    shop = BackfillShop.of(world, "bf_order")
    for minute in range(3):
        shop.commit_at(minute, 4)
    shop.live()
    with shop.services() as services:
        earlier = take_up(shop.shop.flow, services, BackfillRequest(shop.at(0), shop.at(1), REPLAY), "airflow")

        def refused(held: str | None = None) -> type[Exception]:
            """Try the later range while somebody holds a lease."""
            lease = services.store.claim(held, "somebody", 0) if held else None
            with pytest.raises(BackfillOpenError) as found:
                shop.backfill(shop.at(1), shop.at(2), in_order=True, lease_wait_s=0)
            if lease:
                lease.release()
            return found.type

        assert refused(f"{shop.name}.backfill-order") is BackfillWaitsError
        assert refused(earlier.piece_name(0)) is BackfillWaitsError
        assert refused() is BackfillOpenError  # nobody is at it: a person is to say what becomes of it
    shop.backfill(shop.at(0), shop.at(1), in_order=True)
    shop.backfill(shop.at(1), shop.at(2), in_order=True)
    expected = shop.by_minute()
    arrived = list(shop.ids(".replay"))
    assert set(arrived[: len(expected[0])]) == expected[0]
    assert set(arrived[len(expected[0]) :]) == expected[1]


def test_in_order_reads_no_ledger_of_ranges_that_are_known_to_be_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = BackfillShop.of(world, "bf_known")
    for minute in range(4):
        shop.commit_at(minute, 2)
    shop.live()
    done = [shop.backfill(shop.at(minute), shop.at(minute + 1), in_order=True).backfill for minute in range(2)]
    read: list[str] = []

    def reading(flow: Flow, services: Services) -> LedgerState:
        read.append(flow.name)
        return read_ledger(flow, services)

    monkeypatch.setattr(backfill_status, "read_ledger", reading)

    def moved(minute: int, aim: Aim = REPLAY) -> set[str]:
        """Return which ledgers a range in order reads beside its own."""
        read.clear()
        state = shop.backfill(shop.at(minute), shop.at(minute + 1), aim, in_order=True)
        assert state.done
        return set(read) - {piece.name for piece in state.pieces}

    assert moved(2) == set()
    # One that a former databus moved is looked at once.
    with shop.services() as services:
        assert services.backfills.finished(shop.name) >= {one.id for one in done}
    client = start_client(world.connections.get("zookeeper_default"))
    try:
        client.delete(f"/databus/flows/{shop.name}/backfills_finished/{done[0].id}")
    finally:
        client.stop()
        client.close()
    assert moved(3) == {done[0].piece_name(0)}
    assert moved(3, Aim(Mode.REPLAY, ".replay")) == set()
    with shop.services() as services:
        # Moments are told by their neighbours; what is far away is not read.
        at = [shop.base + timedelta(minutes=minute) for minute in range(5)]
        assert [b.at for b in services.backfills.boundaries(shop.name)] == []
        assert [b.at for b in services.backfills.boundaries(shop.name, at[2])] == at[1:4]
        assert [b.at for b in services.backfills.boundaries(shop.name, at[0])] == at[:2]
        assert [b.at for b in services.backfills.boundaries(shop.name, at[4] + timedelta(hours=1))] == at[4:]
