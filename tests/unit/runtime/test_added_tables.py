"""Tables added to a flow, as a new claim sees them: what is written down, and what begins to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.positions.offsets import SequenceOffset
from databus.core.state.snapshot import BEGINS_WITH_ROWS, CaptureScope, TableProgress
from databus.runtime.pacing.snapshot_turns import SnapshotTurns
from databus.testing.memory_store import MemoryCheckpoints
from tests.unit.runtime.test_chunks_of_given_up_plans import Snapped, SnapshotOfMock

FLOW = "orders"
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
ONE, TWO = CaptureScope(("shop.a",)), CaptureScope(("shop.a", "shop.b"))


class Tables(SnapshotOfMock):
    """A source with tables a and b."""

    present: tuple[str, ...] = ("shop.a", "shop.b")
    captured = ONE

    def snapshot_tables(self, *_: Any) -> Sequence[TableProgress]:
        return [TableProgress(name, estimate=4) for name in self.present if name in self.captured.tables]

    def snapshot_tables_added(self, before: CaptureScope) -> Sequence[TableProgress]:
        return [table for table in self.snapshot_tables() if table.table not in before.tables]


@pytest.fixture
def store() -> Iterator[MemoryCheckpoints]:
    with_flow = MemoryCheckpoints()
    lease = with_flow.claim(FLOW, "run-0", wait_s=0)
    with_flow.start(FLOW, lease, SequenceOffset(0), "run-0", BEGINS_WITH_ROWS)
    lease.release()
    yield with_flow
    with_flow.close()


def claim(store: MemoryCheckpoints, scope: CaptureScope | None, *, initial: bool = True, batch: int = 7) -> list[str]:
    """Claim the flow, and return the tables of its snapshot."""
    source, lease = Tables(Snapped(rows=0)), store.claim(FLOW, "run", wait_s=0)
    if scope is not None:
        source.captured = scope
    stands = store.load(FLOW)
    assert stands is not None
    turns = SnapshotTurns(FLOW, initial=initial, scope=scope)
    turns.begin(store, lease, source, stands.__class__(**{**vars(stands), "batch": batch}), "run", NOON)
    lease.release()
    found = store.snapshot(FLOW)
    assert turns._known == found
    return [] if found is None else [f"{found.number} {found.cause}", *(table.table for table in found.tables)]


def test_a_new_flow_reads_all_and_the_table_that_is_added_then(store: MemoryCheckpoints) -> None:
    assert claim(store, ONE, batch=0) == ["1 initial", "shop.a"]
    assert store.capture_scope(FLOW) == ONE
    assert claim(store, ONE) == ["1 initial", "shop.a"]
    assert claim(store, TWO) == ["1 initial", "shop.a", "shop.b"]
    assert (store.capture_scope(FLOW), store.history(FLOW, 1)[0].why) == (TWO, "added to the flow: shop.b")
    assert claim(store, TWO) == ["1 initial", "shop.a", "shop.b"]


def test_a_flow_that_an_earlier_databus_ran_reads_nothing_until_a_table_is_added(store: MemoryCheckpoints) -> None:
    assert claim(store, ONE) == []
    assert store.capture_scope(FLOW) == ONE
    assert claim(store, TWO) == ["1 added", "shop.b"]


def test_a_flow_that_begins_with_no_rows_keeps_up_what_it_captures(store: MemoryCheckpoints) -> None:
    assert claim(store, ONE, initial=False, batch=0) == []
    assert claim(store, TWO, initial=False) == []
    assert store.capture_scope(FLOW) == TWO
    assert claim(store, TWO) == []


def test_a_table_that_comes_later_needs_no_reading(store: MemoryCheckpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tables, "present", ())
    assert claim(store, TWO, batch=0) == []
    monkeypatch.setattr(Tables, "present", ("shop.a", "shop.b"))
    assert claim(store, TWO) == []


def test_a_new_flow_whose_tables_come_before_its_first_batch_begins_with_them(
    store: MemoryCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tables, "present", ())
    assert claim(store, ONE, batch=0) == []
    monkeypatch.setattr(Tables, "present", ("shop.a",))
    assert claim(store, ONE, batch=0) == ["1 initial", "shop.a"]


def test_a_source_that_says_no_scope_writes_none_down(store: MemoryCheckpoints) -> None:
    assert claim(store, None, batch=0) == ["1 initial", "shop.a"]
    assert store.capture_scope(FLOW) is None
