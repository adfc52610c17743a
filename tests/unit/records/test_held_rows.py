"""The quarantine's books: who is held, taken up, replayed, discarded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.report import CheckedBatch
from databus.records.activity import activity
from databus.records.quarantine import rows as held_rows
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
SAID = ("ada", "mended", NOON)
LATER = datetime(2999, 1, 1, tzinfo=UTC)


class ClockAt:
    """A clock that stands still."""

    def __init__(self, now: datetime):
        self._now = now

    def now(self) -> datetime:
        return self._now


def row(number: int, stage: str = "check", cause: str = "not_null(email)") -> RejectedRow:
    return RejectedRow(f"e{number}", "shop.orders", f'{{"id":{number}}}', cause, stage, f"b.000001:{number}", "{}")


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[HeldRows]:
    with SqlRecorder(RecordStore(f"sqlite:///{tmp_path / 'r.db'}")) as recorder:
        recorder.quarantine("orders", 5, [row(1), row(2), row(2, "index", "mapper_parsing_exception: 100%_x")])
        recorder.quarantine("orders", 3, [row(3)])
        recorder.quarantine("others", 3, [row(4)])
        yield HeldRows(recorder.store, "orders")


def held(rows: HeldRows, **wanted: object) -> list[tuple[str, str]]:
    return [found.identity for found in rows.select(Selection(**wanted))]  # type: ignore[arg-type]


def test_what_nobody_decided_is_held_oldest_batch_first(rows: HeldRows) -> None:
    assert held(rows) == [("e3", "check"), ("e1", "check"), ("e2", "check"), ("e2", "index")]
    assert rows.tally() == {"held": {"check": 3, "index": 1}}
    assert held(rows, stage="index") == [("e2", "index")]
    many = tuple(f"x{number}" for number in range(1_000))
    assert held(rows, event_ids=(*many, "e3")) == [("e3", "check")]
    assert rows.places() == {("check", "shop.orders"), ("index", "shop.orders")}
    assert held(rows, event_ids=("e2",)) == [("e2", "check"), ("e2", "index")]
    assert held(rows, cause="100%_x") == [("e2", "index")]
    assert held(rows, cause="1%x") == []
    assert held(rows, table="shop.nothing") == []
    assert held(rows, limit=1) == [("e3", "check")]


@pytest.mark.parametrize("most", [500, held_rows._CHUNK_IDS], ids=["few_at_a_time", "as_many_as_it_is"])
def test_rows_beyond_a_statements_parameters_are_found_each_once_and_in_order(
    rows: HeldRows, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A fifth more rows than one statement takes, and three times as many that are not there."""
    monkeypatch.setattr(held_rows, "_CHUNK_IDS", most)
    each = 6 * most // 10
    with SqlRecorder(rows._store) as recorder:
        for batch in (8, 7):
            recorder.quarantine("orders", batch, [row(batch * 10_000 + number) for number in range(each)])
    ids = tuple(f"e{batch * 10_000 + number}" for number in range(each) for batch in (8, 7))
    unknown = tuple(f"x{number}" for number in range(5 * most // 2))
    found = held(rows, event_ids=(*ids, *unknown, "e1", *ids[: most // 5]))
    assert len(found) == len(set(found)) == 2 * each + 1
    assert (found[0], found[1], found[each + 1]) == (("e1", "check"), ("e70000", "check"), ("e80000", "check"))
    assert len(held(rows)) == 2 * each + 4
    assert list(map(len, rows.pages(Selection()))) == [most, 2 * each + 4 - most]
    assert held(rows, event_ids=ids, limit=2) == [("e70000", "check"), ("e70001", "check")]
    assert rows.known_events((*ids, *unknown)) == set(ids)
    assert (rows.any_of(stage="index"), rows.any_of(stage="none"), rows.any_of(table="shop.orders")) == (
        True,
        False,
        True,
    )


def test_a_replay_takes_rows_up_and_settles_them(rows: HeldRows) -> None:
    first, second = rows.select(Selection(event_ids=("e2",)))
    rows.take_up([first], 1, 5, SAID)
    rows.take_up([second], 1, 5, SAID)  # the number again: the try before wrote no plan
    assert [r.identity for r in rows.of_replay(1)] == [second.identity]
    assert (rows.of_replay(1)[0].state, rows.of_replay(1)[0].origin) == (HeldState.HELD, 5)
    for _ in range(2):
        rows.settle(1, 5, {second.identity: HeldState.REPLAYED}, SAID)
    (done,) = rows.select(Selection(HeldState.REPLAYED))
    assert (done.identity, done.replay, done.who, done.why, done.at) == (second.identity, 1, "ada", "mended", NOON)
    assert rows.tally() == {"held": {"check": 3}, "replayed": {"index": 1}}
    assert [r.identity for r in rows.of_replay(1)] == [second.identity]


@pytest.mark.parametrize("became", [HeldState.REPLAYED, HeldState.DISCARDED])
def test_a_row_that_another_batch_holds_back_after_its_replay_is_held_anew(rows: HeldRows, became: HeldState) -> None:
    """The flow was rewound, or the index made anew: the row is lacking again, and tells so as one held just now."""
    taken = rows.select(Selection(event_ids=("e2",)))
    rows.take_up(taken, 1, 5, SAID)
    rows.settle(1, 5, {found.identity: became for found in taken}, SAID)
    recorder = SqlRecorder(rows._store, ClockAt(LATER))
    recorder.quarantine("orders", 5, [row(2)])  # tried again, or of the replay itself: nothing new
    assert rows.tally() == {"held": {"check": 2}, str(became): {"check": 1, "index": 1}}
    for _ in range(2):
        recorder.quarantine("orders", 9, [row(2, "index", "mapping again"), row(7)])
    (again,) = rows.select(Selection(stage="index"))
    assert (again.identity, again.batch, again.cause) == (("e2", "index"), 9, "mapping again")
    assert rows.tally() == {"held": {"check": 3, "index": 1}, str(became): {"check": 1}}
    assert activity(rows._store, "orders", LATER).rejected["index"].new == 1
    assert [found.identity for found in rows.of_replay(1)] == [("e2", "check"), ("e2", "index")]


def test_rows_that_checks_held_are_found_by_batch_whatever_became_of_them(rows: HeldRows) -> None:
    """A sink that is behind leaves them out: what sinks refused, and other batches and flows held, is not meant."""
    taken = rows.select(Selection(event_ids=("e1",)))
    rows.take_up(taken, 1, 5, SAID)
    rows.settle(1, 5, {taken[0].identity: HeldState.REPLAYED}, SAID)
    rows.discard(rows.select(Selection(event_ids=("e3",))), SAID)
    recorder = SqlRecorder(rows._store)
    recorder.quarantine("orders", 12, [row(7, "index", "mapper")])
    three, five = (CheckedBatch((batch, ""), None, paged=False) for batch in (3, 5))
    assert recorder.checked_batches("orders", 0) == [three, five]
    assert recorder.checked_batches("orders", 3) == [five]
    assert recorder.held_by_checks("orders", [(5, ""), (12, "")]) == {"e1", "e2"}
    assert recorder.held_by_checks("orders", [(batch, "") for batch in range(2_000)]) == {"e1", "e2", "e3"}


def test_rows_that_checks_held_are_told_apart_by_the_plan_where_numbers_began_anew(rows: HeldRows) -> None:
    """A replay that holds a row back again leaves the plan that had held it; entries of earlier databus have none."""
    recorder = SqlRecorder(rows._store)
    recorder.quarantine("orders", 12, [row(7), row(8)], "former")
    recorder.quarantine("orders", 12, [row(9), row(1)], "now")
    recorder.quarantine("orders", 12, [row(8)])
    assert [batch.plan for batch in recorder.checked_batches("orders", 5)] == [(12, "former"), (12, "now")]
    assert recorder.held_by_checks("orders", [(12, "former")]) == {"e7", "e8"}
    assert recorder.held_by_checks("orders", [(12, "now"), (5, "")]) == {"e9", "e1", "e2"}


def test_what_a_person_discarded_stays_discarded_where_another_batch_holds_it_back(rows: HeldRows) -> None:
    rows.discard(rows.select(Selection(event_ids=("e1",))), SAID)
    SqlRecorder(rows._store).quarantine("orders", 9, [row(1)])
    (found,) = rows.select(Selection(HeldState.DISCARDED))
    assert (found.identity, found.batch) == (("e1", "check"), 9)


def test_discarded_rows_stay_listed(rows: HeldRows) -> None:
    rows.discard(rows.select(Selection(stage="check")), SAID)
    assert held(rows) == [("e2", "index")]
    assert len(held(rows, state=HeldState.DISCARDED)) == 3
    assert len(held(rows, state=None)) == 4


def test_the_range_of_a_batch_that_is_not_reported_is_unknown(rows: HeldRows) -> None:
    assert rows.batch_range(5) is None
