"""Snapshots as they are stored, in a node and in a plan, and rows of theirs that the log superseded in the counts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.batches.counts import TableCounts
from databus.core.errors import CheckpointFormatError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import Plan, SinkPlan
from databus.core.state.snapshot import ChunkFile, PlannedChunks, Snapshot, TableProgress
from databus.core.stored_form import canonical_json
from tests.unit.core.test_ledger import TABLE, Log

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
SNAPSHOT = Snapshot(
    3,
    "initial",
    NOON,
    (
        TableProgress("shop.orders", "done", ("7", "'x'"), 2, 20, 1, 25),
        TableProgress("shop.items", where="id > 7"),
    ),
)
CHUNKS = PlannedChunks(SNAPSHOT, (ChunkFile("chunk-3-1", "ab" * 32, "shop.orders", 10, 1),))
PLAN = Plan("test", "orders", 4, OffsetRange(SequenceOffset(1), SequenceOffset(2)), {"kafka": SinkPlan()}, "spec", NOON)


def through_json(value: Any) -> Any:
    return json.loads(canonical_json(value.to_json()))


@pytest.mark.parametrize(
    ("snapshot", "version"),
    [
        (SNAPSHOT, 1),
        (replace(SNAPSHOT, paused=True), 2),
        (replace(SNAPSHOT, finished_at=NOON), 2),
        (replace(SNAPSHOT, finished_at=NOON, cancelled=True), 2),
        (replace(SNAPSHOT, resumed_at=NOON, resumed_rows=7), 4),
    ],
)
def test_a_snapshot_comes_back_and_says_the_lowest_version_that_holds_it(snapshot: Snapshot, version: int) -> None:
    stored = through_json(snapshot)
    assert stored["v"] == version
    assert Snapshot.from_json(stored) == snapshot


def test_the_table_read_next_is_the_first_that_is_not_done() -> None:
    assert SNAPSHOT.current == SNAPSHOT.tables[1]
    assert SNAPSHOT.unfinished
    ended = replace(SNAPSHOT, tables=SNAPSHOT.tables[:1], finished_at=NOON)
    assert (ended.current, ended.unfinished) == (None, False)


def test_a_plan_without_chunks_is_stored_as_before_and_one_with_them_comes_back() -> None:
    assert "chunks" not in PLAN.to_json()
    assert (PLAN.to_json()["v"], PLAN.hash) == (1, "c51e64001141d3c6")
    with_chunks = replace(PLAN, chunks=CHUNKS)
    again = Plan.from_json(through_json(with_chunks))
    assert again == with_chunks
    assert again.hash == with_chunks.hash != PLAN.hash


def test_the_hash_of_a_plan_tells_chunks_apart_and_not_the_versions_of_their_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(CHUNKS, files=(replace(CHUNKS.files[0], sha256="cd" * 32),))
    assert replace(PLAN, chunks=other).hash != replace(PLAN, chunks=CHUNKS).hash
    before = replace(PLAN, chunks=CHUNKS).hash
    stored = CHUNKS.to_json()
    later = {**stored, "v": 9, "snapshot": {**stored["snapshot"], "v": 9}}
    monkeypatch.setattr(PlannedChunks, "to_json", lambda _: later)
    assert replace(PLAN, chunks=CHUNKS).hash == before


def test_counts_without_superseded_rows_are_stored_and_told_as_before() -> None:
    counts = TableCounts(12, 1, 1, 10)
    assert json.dumps(counts.to_json()) == '{"read": 12, "filtered": 1, "quarantined": 1, "dispatched": 10}'
    assert json.dumps(counts.figures) == json.dumps(counts.to_json())
    assert str(counts) == "read 12 = filtered 1 + quarantined 1 + dispatched 10"
    assert TableCounts.from_json(json.loads(json.dumps(counts.to_json()))) == counts


def test_counts_with_superseded_rows_say_so_and_come_back() -> None:
    counts = TableCounts(15, 1, 1, 10, 3, 9)
    assert counts.reconciled
    assert not replace(counts, superseded=2).reconciled
    assert str(counts) == "read 15 = filtered 1 + quarantined 1 + dispatched 10 + superseded 3"
    stored = {"read": 15, "filtered": 1, "quarantined": 1, "dispatched": 10, "superseded": 3, "snapshot": 9}
    assert counts.to_json() == {"v": 2, **stored}
    assert counts.figures == stored
    assert TableCounts.from_json(through_json(counts)) == counts
    of_chunks = TableCounts(5, 0, 0, 5, snapshot=5)
    assert TableCounts.from_json(through_json(of_chunks)) == of_chunks
    assert counts.plus(of_chunks) == TableCounts(20, 1, 1, 15, 3, 14)
    assert TableCounts.total([counts, of_chunks, of_chunks]) == TableCounts(25, 1, 1, 20, 3, 19)


@pytest.mark.parametrize("missing", ["read", "filtered", "quarantined", "dispatched"])
def test_stored_counts_without_a_figure_are_refused(missing: str) -> None:
    with pytest.raises(KeyError):
        TableCounts.from_json({k: v for k, v in TableCounts(1, 0, 0, 1).to_json().items() if k != missing})
    with pytest.raises(CheckpointFormatError, match="unknown fields: tomorrow"):
        TableCounts.from_json({**TableCounts().to_json(), "tomorrow": 1})


def test_a_ledger_adds_superseded_rows_up() -> None:
    log = Log(0)
    log.commit(10, dispatched=5, filtered=0, quarantined=0, burnt=0)
    entry = log.entries[-1]
    counts = {TABLE: replace(entry.counts[TABLE], read=7, superseded=2, snapshot=4)}
    log.entries[-1] = replace(entry, counts=counts)
    assert (log.ledger().problems, log.ledger().tables) == ((), counts)
    log.entries[-1] = replace(entry, counts={TABLE: replace(counts[TABLE], superseded=1)})
    (problem,) = log.ledger().problems
    assert "superseded 1" in problem.problem
