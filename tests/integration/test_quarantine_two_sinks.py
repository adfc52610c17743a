"""A row that two sinks refuse is sent to both once they are mended, also where an older databus left a replay of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from databus import Elasticsearch
from databus.core.errors import SinkError
from databus.demo.consumers import index_documents
from databus.ops.quarantine import replay as quarantine_replay
from databus.records.quarantine.held_row import HeldRow, HeldState
from databus.records.quarantine.rows import HeldRows
from tests.integration.conftest import World
from tests.integration.test_quarantine import NOTE, Desk, killed

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]


class TwoIndexes(Desk):
    """A flow to two indexes, both of which refuse what is no number."""

    def __init__(self, world: World, database: str):
        super().__init__(world, database)
        self.indexes = {name: f"{self.index}-{name}" for name in ("first", "second")}
        sinks = tuple(
            Elasticsearch(name=n, conn_id="opensearch_default", index=i, mapping=NOTE, on_reject="quarantine")
            for n, i in self.indexes.items()
        )
        self.flow = self.flow.model_copy(update={"sinks": sinks, "checks": ()})

    def mend(self) -> None:
        address = self.world.sandbox.address("opensearch")
        mended = {"properties": {"note": {"type": "integer", "ignore_malformed": True}}}
        for index in self.indexes.values():
            httpx.put(f"http://{address}/{index}/_mapping", json=mended, timeout=60).raise_for_status()

    def found(self) -> dict[str, set[str]]:
        address = self.world.sandbox.address("opensearch")
        return {name: set(index_documents(address, index)) for name, index in self.indexes.items()}


def as_before(rows: Sequence[HeldRow]) -> list[tuple[int, list[HeldRow]]]:
    """Cut rows into replays as `021bfd3` did: all of a batch together."""
    return [(rows[0].batch, list(rows))]


@pytest.mark.parametrize("before", [False, True], ids=["", "begun by an older databus"])
def test_a_row_that_two_sinks_refused_comes_to_both(
    world: World, database: str, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    desk = TwoIndexes(world, database)
    desk.execute("INSERT INTO orders VALUES (1, '1', 'a@b'), (2, 'two', 'a@b')")
    world.run(desk.flow)
    row = json.dumps({"id": 2}, separators=(",", ":"))
    assert set(desk.held()) == {(row, "first"), (row, "second")}
    desk.mend()
    if before:
        settle: Any = HeldRows.settle

        def settled_all(self: HeldRows, number: int, origin: int, states: Any, said: Any) -> None:
            settle(self, number, origin, dict.fromkeys(states, HeldState.REPLAYED), said)
            killed()

        with monkeypatch.context() as older:
            older.setattr(quarantine_replay, "in_replays", as_before)
            older.setattr(HeldRows, "settle", settled_all)
            with pytest.raises(SinkError, match="killed here"):
                desk.replay()
        assert sorted(map(len, desk.found().values())) == [1, 2]
        assert desk.held() == {}  # it told both as replayed
    results = desk.replay()
    assert [(result.number, result.replayed, result.held, result.discarded) for result in results] == [
        (1, 1, 0, 0),
        (2, 1, 0, 0),
    ]
    assert desk.found() == {"first": {"1", "2"}, "second": {"1", "2"}}
    assert {key: one.state for key, one in desk.held(None).items()} == {
        (row, "first"): HeldState.REPLAYED,
        (row, "second"): HeldState.REPLAYED,
    }
    assert desk.replay() == []
