"""Held rows whose log the server has purged: an unfinished replay of them is closed, and rows of later batches go."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from databus.core.errors import LeaseBusyError, OffsetPurgedError, ReplaysRefusedError
from databus.ops.quarantine import show as quarantine
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import Selection
from tests.integration.conftest import World
from tests.integration.killed_replay import replay_until
from tests.integration.test_quarantine import ADA, Desk

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]

THIRD, FIFTH = '{"id":3}', '{"id":5}'


def when_free(call: Callable[[], object]) -> None:
    """Call as soon as the lease of the dead process has ended."""
    deadline = time.monotonic() + 60
    while True:
        try:
            call()
            return
        except LeaseBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def purge_all_but_the_current_log(world: World) -> None:
    with world.sql() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        cursor.execute("PURGE BINARY LOGS TO %s", (cursor.fetchone()[0],))


@pytest.mark.parametrize("stage", ["planned", "written to the first of two sinks"])
def test_a_purged_log_blocks_no_replay(world: World, database: str, stage: str) -> None:
    desk = Desk(world, database)
    desk.execute("INSERT INTO orders VALUES (1, '1', 'a@b')", "INSERT INTO orders VALUES (3, '3', NULL)")
    world.run(desk.flow)
    desk.execute("FLUSH BINARY LOGS")
    world.run(desk.flow)  # an idle flow follows the rotation: the next batch lies in the new file alone
    desk.execute("INSERT INTO orders VALUES (5, '5', NULL)")
    world.run(desk.flow)
    held = desk.held()
    assert set(held) == {(THIRD, "check"), (FIFTH, "check")}
    third, fifth = held[THIRD, "check"], held[FIFTH, "check"]
    assert third.batch < fifth.batch

    desk.flow = desk.flow.model_copy(update={"checks": ()})
    replay_until(stage, world, desk.flow, third.event_id)
    purge_all_but_the_current_log(world)
    with pytest.raises(ReplaysRefusedError, match=rf"batch {third.batch} \(1 rows\)") as refused:
        when_free(desk.replay)
    closed, done = refused.value.done
    assert (closed.batch, closed.number, closed.held) == (third.batch, 1, 1)
    assert (done.batch, done.number, done.replayed, done.held) == (fifth.batch, 2, 1, 0)
    assert set(desk.documents()) == {"1", "5"}
    states = {key: row.state for key, row in desk.held(None).items()}
    assert states.pop((FIFTH, "check")) is HeldState.REPLAYED
    if stage == "planned":
        assert states == {(THIRD, "check"): HeldState.HELD}
    else:  # the topic has it; nothing tells of the index, which keeps no markers
        assert states == {(THIRD, "check"): HeldState.REPLAYED, (THIRD, "elasticsearch"): HeldState.HELD}
        cause = desk.held()[THIRD, "elasticsearch"].cause
        assert (
            cause == "not_null(email), replay 1 could not be finished: elasticsearch may hold it: it keeps no markers"
        )
    arrived = desk.arrived()
    assert arrived.count(third.event_id) == (0 if stage == "planned" else 1)
    assert (len(arrived), arrived.count(fifth.event_id)) == (len(set(arrived)), 1)

    with pytest.raises(OffsetPurgedError) as alone:
        desk.replay()
    assert "quarantine discard" in alone.value.hint
    with desk.services() as services:
        assert quarantine.discard(desk.flow, services, Selection(), ADA) == 1
    assert desk.replay() == []
