"""Snapshot progress: rows and tables of a stored snapshot, its rate and the time left, in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from databus.core.state.snapshot import Snapshot, TableProgress
from databus.core.state.snapshot_progress import SnapshotProgress, duration, progress_of

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SNAPSHOT = Snapshot(
    3,
    "initial",
    NOON,
    (
        TableProgress("shop.orders", "done", ("7",), 2, 2_990, 10, 5_000),
        TableProgress("shop.old", "gone", (), 1, 500, 0, 900),
        TableProgress("shop.items", "reading", ("9",), 1, 2_500, 0, 12_000),
        TableProgress("shop.visits", estimate=1_000),
        TableProgress("shop.empty", estimate=None),
    ),
)


def test_rows_that_are_left_are_those_of_tables_that_are_not_read_yet() -> None:
    seen = progress_of(SNAPSHOT, NOON + MINUTE)
    assert (seen.rows, seen.delivered, seen.superseded) == (6_000, 5_990, 10)
    assert seen.estimate == 3_000 + 500 + 12_000 + 1_000  # what was read counts where a table is over
    assert (seen.rows_left, seen.tables_left, seen.done, seen.gone) == (10_500, 3, 1, 1)
    assert (seen.table, seen.state) == ("shop.items", "reading")
    assert (seen.rows_per_second, seen.seconds_left) == (100.0, 105.0)
    assert seen.text == ("snapshot 3: 1 of 5 tables (1 gone), 6,000 of about 16,500 rows, 100 rows/s, about 105 s left")


def test_an_estimate_that_was_too_small_is_passed_over() -> None:
    one = replace(SNAPSHOT, tables=(TableProgress("shop.orders", "reading", ("7",), 2, 60, 0, 25),))
    seen = progress_of(one, NOON + MINUTE)
    assert (seen.estimate, seen.rows_left, seen.seconds_left) == (60, 0, 0.0)


def test_the_rate_counts_from_an_earlier_look_at_the_same_snapshot() -> None:
    before = progress_of(SNAPSHOT, NOON + 10 * MINUTE)
    items = replace(SNAPSHOT.tables[2], rows=2_800)
    later = replace(SNAPSHOT, tables=(*SNAPSHOT.tables[:2], items, *SNAPSHOT.tables[3:]))
    seen = progress_of(later, NOON + 10.5 * MINUTE, before)
    assert seen.rows_per_second == pytest.approx(10.0)
    assert seen.seconds_left == pytest.approx(1_020.0)
    assert "about 17 min left" in seen.text
    assert progress_of(SNAPSHOT, NOON + 11 * MINUTE, before).rows_per_second is None  # nothing came meanwhile
    assert progress_of(later, NOON + 10 * MINUTE, replace(before, number=2)).rows_per_second == pytest.approx(10.5)


def test_the_rate_leaves_a_pause_out() -> None:
    resumed = replace(SNAPSHOT, resumed_at=NOON + 60 * MINUTE, resumed_rows=5_400)
    seen = progress_of(resumed, NOON + 61 * MINUTE)
    assert (seen.rows_per_second, seen.seconds) == (10.0, 3_660.0)
    assert progress_of(replace(resumed, resumed_rows=6_000), NOON + 61 * MINUTE).rows_per_second is None
    assert Snapshot.from_json(json.loads(json.dumps(resumed.to_json()))) == resumed
    assert "resumed_at" not in SNAPSHOT.to_json()


@pytest.mark.parametrize(
    ("change", "state", "said"),
    [
        ({"paused": True}, "paused", "16,500 rows, paused"),
        ({"finished_at": NOON + MINUTE, "cancelled": True}, "cancelled", "16,500 rows, cancelled after 60 s"),
        ({"finished_at": NOON + 3 * MINUTE}, "finished", "16,500 rows, finished after 3 min"),
        ({"tables": SNAPSHOT.tables[3:]}, "waiting", "0 of about 1,000 rows, begun 4 h ago"),
    ],
)
def test_states(change: dict[str, object], state: str, said: str) -> None:
    seen = progress_of(replace(SNAPSHOT, **change), NOON + 240 * MINUTE)
    assert (seen.state, seen.seconds_left) == (state, None)
    assert seen.text.endswith(said)
    assert seen.ended == (state in ("finished", "cancelled"))
    if seen.ended:
        assert (seen.rows_left, seen.tables_left, seen.table) == (0, 0, "")


def test_json_holds_what_is_known() -> None:
    told = json.loads(json.dumps(progress_of(SNAPSHOT, NOON + MINUTE).to_json()))
    assert (told["rows_per_second"], told["seconds_left"], told["rows_left"]) == (100.0, 105, 10_500)
    assert told["text"] == progress_of(SNAPSHOT, NOON + MINUTE).text
    begun = progress_of(replace(SNAPSHOT, tables=SNAPSHOT.tables[3:]), NOON)
    assert not {"rows_per_second", "seconds_left", "waits"} & begun.to_json().keys()
    for seen in (begun, progress_of(SNAPSHOT, NOON + MINUTE, waits="Threads_running 40 > 25")):
        assert SnapshotProgress.from_json(seen.to_json()) == seen
    assert seen.text.endswith("of about 16,500 rows, waits: Threads_running 40 > 25")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (400_000, "5 days")]
)
def test_durations_are_rough(seconds: float, said: str) -> None:
    assert duration(seconds) == said
