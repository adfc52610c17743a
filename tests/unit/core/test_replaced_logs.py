"""A log that replaced another: its places lie behind all of the former one's, and nothing mixes the two."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.checkpoints.rules.amendments import amended_checkpoint, check_amendment
from databus.core.batches.counts import TableCounts
from databus.core.errors import CheckpointConflictError
from databus.core.positions.gaps import SKIPPED, Gap
from databus.core.positions.offset_ranges import counted_as, unreached
from databus.core.positions.offsets import BINLOG_OFFSET, BinlogOffset, OffsetRange, Ordering, offset_from_json
from databus.core.positions.replaced_logs import REPLACED, is_of_former_log
from databus.core.state.amendments import Amendment
from databus.core.state.backfill import Aim, Mode, backfill_id
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.ledger import SpanState
from databus.core.state.ledger_chain import build
from databus.rows.versions import source_version

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FORMER = BinlogOffset("bin.000042", 9000, f"{U}:1-900", server=U, created_s=1_700_000_000)
BEGIN = BinlogOffset("bin.000001", 4, "", server=U, created_s=1_700_009_999).on_new_log(FORMER)


@pytest.mark.parametrize(
    "place",
    [
        BEGIN,
        replace(BEGIN, pos=700, gtids=f"{U}:1-3"),  # GTIDs begin anew, too
        replace(BEGIN, file="bin.000042", pos=9000, gtids=f"{U}:1-900"),
        replace(BEGIN, file="bin.000099", gtids=f"{U}:1-2000"),
    ],
)
def test_it_lies_behind_the_former_log_whatever_files_and_gtids_say(place: BinlogOffset) -> None:
    assert (place.timeline, place.generation) == (1, 1)
    assert place.compare(FORMER) is Ordering.AFTER
    assert FORMER.compare(place) is Ordering.BEFORE
    assert not OffsetRange(FORMER, place).empty
    assert is_of_former_log(FORMER, place)
    assert not is_of_former_log(place, FORMER)
    assert unreached(place, FORMER) is None
    newest = source_version(FORMER.timeline, 99, 1 << 33)
    assert source_version(place.timeline, place.file_number, place.pos) > newest


def test_the_log_as_it_is_now_is_compared_in_the_generation_of_the_flow() -> None:
    head = BinlogOffset("bin.000001", 500, f"{U}:1-2", server=U)
    stands = replace(BEGIN, pos=300, gtids=f"{U}:1")
    assert counted_as(head, stands).compare(stands) is Ordering.AFTER
    assert stands.compare(counted_as(head, stands)) is Ordering.BEFORE
    assert head.counted_as(stands).generation == 1


def test_without_gtids_the_head_is_ordered_with_a_place_behind_it() -> None:
    """A window ends once it has passed the head that it began with, also where GTIDs tell nothing."""
    stands, head = replace(BEGIN, file="bin.000003", pos=500), BinlogOffset("bin.000003", 400, "", server=U)
    assert stands.compare(counted_as(head, stands)) is Ordering.AFTER
    other = replace(head, server="another")
    assert counted_as(other, stands) == replace(other, generation=1)  # by GTID only


def test_a_backfill_of_the_new_log_is_another_than_one_of_the_former_between_the_same_places() -> None:
    ends = BinlogOffset("bin.000001", 4, "", server=U), BinlogOffset("bin.000002", 4, "", server=U)
    ids = {
        backfill_id(Aim(Mode.MISSING, ""), OffsetRange(*(replace(end, generation=n) for end in ends))) for n in range(3)
    }
    assert len(ids) == 3


def test_an_older_databus_refuses_it_and_other_places_are_stored_as_before() -> None:
    stored = BEGIN.to_json()
    assert (stored["v"], stored["generation"]) == (BINLOG_OFFSET.latest, 1)
    assert offset_from_json(stored) == BEGIN
    assert FORMER.to_json()["v"] == 2
    assert "generation" not in FORMER.to_json()


def test_a_move_onto_it_is_a_forward_move_that_names_its_gap() -> None:
    stands = Checkpoint(FORMER, 7, Epoch(3), "run", "", {}, NOON, NOON, replay_until=FORMER)
    gap = Gap(0, FORMER, BEGIN, REPLACED, SKIPPED, "ada", "reset", NOON)
    made = Amendment("skip", "ada", "reset", BEGIN, gap=gap)
    check_amendment("f", made, stands, None, ())
    after = amended_checkpoint(stands, made, Epoch(4), NOON)
    assert (after.offset, after.batch, after.replay_until) == (BEGIN, 7, None)
    with pytest.raises(CheckpointConflictError, match="no gap names"):
        check_amendment("f", replace(made, gap=None), stands, None, ())
    with pytest.raises(CheckpointConflictError, match="timeline 0"):
        check_amendment("f", Amendment("rewind", "ada", "back", FORMER), after, None, ())


def entry(
    number: int, action: str, previous: BinlogOffset | None, offset: BinlogOffset, batch: int, rows: int = 0
) -> HistoryEntry:
    counts = {"shop.t": TableCounts(rows, 0, 0, rows)} if rows else {}
    receipt = {"sink": "es", "batch": batch, "written": rows, "rows": {"shop.t": rows}}
    receipts = (receipt,) if rows else ()
    return HistoryEntry(number, action, "run", "", previous, offset, batch, Epoch(1), counts, receipts, NOON, bytes=50)


def test_the_ledger_keeps_the_spans_of_both_logs_apart() -> None:
    first = replace(FORMER, pos=100, gtids=f"{U}:1-100")
    one, two = (replace(BEGIN, pos=p, gtids=f"{U}:1-{n}") for p, n in ((157 + 300, 3), (157 + 600, 6)))
    entries = [
        entry(1, "start", None, first, 0),
        entry(2, "commit", first, FORMER, 1, rows=60),
        entry(3, "skip", FORMER, BEGIN, 1),
        entry(4, "commit", BEGIN, one, 2, rows=3),
        entry(5, "commit", one, two, 3, rows=4),
    ]
    gap = Gap(1, FORMER, BEGIN, REPLACED, SKIPPED, "ada", "reset", NOON)
    ledger = build("f", entries, (gap,))
    assert ledger.problems == ()
    moved = SpanState.DISPATCHED
    assert [(s.state, s.batch, s.cause) for s in ledger.spans] == [
        (moved, 1, ""), (SpanState.GAP, 1, REPLACED), (moved, 2, ""), (moved, 3, ""),
    ]  # fmt: skip
    # A rewind in the new log takes back what lies in the new log alone, though its GTIDs are few.
    rewound = build("f", [*entries, entry(6, "rewind", two, one, 3)], (gap,))
    assert rewound.problems == ()
    assert ([s.batch for s in rewound.spans], rewound.replayed) == ([1, 1, 2], 4)
