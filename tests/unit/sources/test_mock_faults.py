"""Scripted faults of a mock source: each is met where the script says, as often as it says, by any run of the flow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from databus.core.batching import Batching
from databus.core.errors import ConfigError, OffsetPurgedError, SourceUnavailableError
from databus.core.findings import Level
from databus.core.flow_context import FlowContext
from databus.core.positions.offsets import Offset, OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.sources.mock.fault import MockFault
from databus.sources.mock.faults import Faults
from databus.sources.mock.log import log_of
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock
from databus.testing.contract.source import EVERYTHING, SourceContract, rows_of
from tests.unit.sources.test_mock import MockSubject


class BehindGap(MockSubject):
    @property
    def begin(self) -> Offset:
        return SequenceOffset(5)


class TestContractBehindGap(SourceContract):
    @pytest.fixture
    def subject(self) -> MockSubject:
        gone = MockFault(what="purged", at_row=0, rows=30)
        return BehindGap(Mock(rows=203, tables=("shop.a", "shop.b"), rows_per_transaction=7, faults=(gone,)))


def context(folder: Path, staged: str = "") -> FlowContext:
    return FlowContext("orders", Settings("here", str(folder), ""), staged=staged)


def source_of(folder: Path, *faults: MockFault, staged: str = "", **options: Any) -> MockSource:
    return MockSource(Mock(**{"rows": 100} | options, faults=faults), context(folder, staged))


def planned(source: MockSource, after: int = 0, limit: Batching = EVERYTHING) -> Any:
    plan = source.plan(SequenceOffset(after), limit)
    assert plan is not None
    return plan


def test_a_read_fails_as_often_as_the_script_says(tmp_path: Path) -> None:
    fault = MockFault(what="read_fails", at_row=45, times=2)
    whole = rows_of(MockSource(Mock(rows=100)), planned(MockSource(Mock(rows=100))))
    for attempt in (1, 2):
        source = source_of(tmp_path, fault)  # of another process
        with pytest.raises(SourceUnavailableError, match=f"row 45 .attempt {attempt} of 2") as caught:
            rows_of(source, planned(source))
        assert caught.value.retryable
        assert caught.value.hint
    assert rows_of(source_of(tmp_path, fault), planned(source)) == whole
    other = source_of(tmp_path / "elsewhere", fault)
    with pytest.raises(SourceUnavailableError, match="attempt 1 of 2"):
        rows_of(other, planned(other))


def test_a_range_without_the_row_is_read_and_a_look_uses_no_attempt_up(tmp_path: Path) -> None:
    fault = MockFault(what="read_fails", at_row=45)
    for after in (0, 5):  # rows 1 to 40, and from 51 on
        source = source_of(tmp_path, fault)
        assert rows_of(source, planned(source, after, Batching(max_rows=40)))
    for _ in range(2):
        looking = source_of(tmp_path, fault, staged="orders.look")
        with pytest.raises(SourceUnavailableError, match="attempt 1 of 1"):
            rows_of(looking, planned(looking))


def test_the_fault_is_met_by_the_piece_that_has_its_row(tmp_path: Path) -> None:
    source = source_of(tmp_path, MockFault(what="read_fails", at_row=45))
    pieces = source.splits(planned(source), 5)
    assert [len(piece.faults) for piece in pieces] == [0, 0, 1, 0, 0]


def test_a_read_hangs_for_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("databus.sources.mock.split.time.sleep", slept.append)
    fault = MockFault(what="read_hangs", at_row=45, times=1, lasts=timedelta(seconds=90))
    for _ in range(2):
        source = source_of(tmp_path, fault)
        (piece,) = source.splits(planned(source), 1)
        assert sum(batch.num_rows for batch in piece.read_text({})) == 100
    assert slept == [90.0]


def test_a_source_is_away_from_the_first_run_that_comes_there_until_its_time_is_over(tmp_path: Path) -> None:
    log = log_of(Mock(rows=100, faults=(MockFault(what="away", at_row=45, lasts=timedelta(minutes=2)),)))
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    one, other = (Faults(log, context(tmp_path), lambda: now[0]) for _ in range(2))
    look = Faults(log, context(tmp_path, "orders.look"), lambda: now[0])
    assert (one.cut(0, 10), one.cut(4, 10)) == (4, 10)
    look.meet(4)  # nobody has come there yet
    other.check(4)
    one.meet(3)
    now[0] += timedelta(minutes=1)
    for each in (one.meet, one.check, other.meet, look.check):
        with pytest.raises(SourceUnavailableError, match=r"away from row 45 on.* 00:03:00 UTC"):
            each(4)
    now[0] += timedelta(minutes=2)
    for each in (one.meet, one.check, other.meet, look.check):
        each(4)


def test_what_looks_at_the_source_uses_no_absence_up_and_writes_nothing(tmp_path: Path) -> None:
    source = source_of(tmp_path, MockFault(what="away", at_row=45, lasts=timedelta(days=9)))
    assert [finding.level for finding in source.preflight(SequenceOffset(4))] == [Level.OK]
    assert source.lag(SequenceOffset(4)).bytes > 0
    source.offset_at(datetime(2026, 1, 1, tzinfo=UTC))
    assert not list(tmp_path.iterdir())
    with pytest.raises(SourceUnavailableError):
        source.plan(SequenceOffset(4), EVERYTHING)


def test_an_absence_ends_a_batch_before_its_row_and_shows_in_lag(tmp_path: Path) -> None:
    source = source_of(tmp_path, MockFault(what="away", at_row=45, lasts=timedelta(days=9)))
    assert planned(source).range.end == SequenceOffset(4)
    assert planned(source).more
    with pytest.raises(SourceUnavailableError):
        source.plan(SequenceOffset(4), EVERYTHING)
    with pytest.raises(SourceUnavailableError):
        source.lag(SequenceOffset(4))
    (finding,) = source.preflight(SequenceOffset(4))
    assert finding.code == SourceUnavailableError.code


def test_a_gap_names_what_is_missing_until_a_person_passes_over_it(tmp_path: Path) -> None:
    source = source_of(tmp_path, MockFault(what="purged", at_row=45, rows=20))
    assert planned(source).range.end == SequenceOffset(4)
    for _ in range(2):
        with pytest.raises(OffsetPurgedError, match="from 4 to 6 is gone, 20 rows from row 45") as caught:
            source.plan(SequenceOffset(4), EVERYTHING)
        assert caught.value.missing == OffsetRange(SequenceOffset(4), SequenceOffset(6))
        assert "skip orders --past-gap" in caught.value.hint
    with pytest.raises(OffsetPurgedError):
        source.lag(SequenceOffset(5))
    with pytest.raises(OffsetPurgedError):
        source.reopen(OffsetRange(SequenceOffset(3), SequenceOffset(6)))
    assert planned(source, 6).rows == 40
    assert source.earliest_offset() == SequenceOffset(0)
    from_the_start = source_of(tmp_path, MockFault(what="purged", at_row=0, rows=20))
    assert from_the_start.start_offset() == SequenceOffset(2)


@pytest.mark.parametrize("at_row", [0, 45])
def test_a_gap_of_a_log_that_grows_is_met_once_its_end_is_there(
    tmp_path: Path, at_row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr("databus.sources.mock.source.time.time", lambda: now[0])
    source = source_of(
        tmp_path,
        MockFault(what="purged", at_row=at_row, rows=30),
        rows_per_second=10,
        since=datetime.fromtimestamp(now[0], UTC),
    )
    begin, at_once = SequenceOffset(at_row // 10), Batching(max_wait=timedelta(milliseconds=1))
    now[0] += 1 + at_row / 10
    head = source.latest_offset()
    assert isinstance(head, SequenceOffset)
    assert begin.sequence < head.sequence < begin.sequence + 3
    for start in (begin, head):
        assert source.plan(start, at_once) is None
        assert [finding.level for finding in source.preflight(start)] == [Level.OK]
        assert source.lag(start).bytes == 1000 * (head.sequence - start.sequence)
    assert source.start_offset() == SequenceOffset(0)
    now[0] += 3
    with pytest.raises(OffsetPurgedError) as caught:
        source.plan(begin, at_once)
    assert caught.value.missing is not None
    behind = caught.value.missing.end
    assert behind == SequenceOffset(begin.sequence + 3)
    assert source.lag(behind).bytes >= 0
    assert source.preflight(behind)[0].level is Level.OK
    assert source.start_offset() == (behind if at_row == 0 else SequenceOffset(0))
    now[0] += 2
    assert planned(source, behind.sequence).range.start == behind


def test_a_gap_at_the_end_of_a_log_that_ends_is_one(tmp_path: Path) -> None:
    source = source_of(tmp_path, MockFault(what="purged", at_row=80, rows=500))
    with pytest.raises(OffsetPurgedError) as caught:
        source.plan(SequenceOffset(8), EVERYTHING)
    assert caught.value.missing == OffsetRange(SequenceOffset(8), SequenceOffset(10))
    assert source.plan(SequenceOffset(10), EVERYTHING) is None


def test_a_statement_at_a_fault_is_behind_it(tmp_path: Path) -> None:
    statements = ((20, "ALTER TABLE shop.orders DROP weight"),)
    source = source_of(tmp_path, MockFault(what="purged", at_row=20, rows=10), statements=statements)
    assert planned(source).range.end == SequenceOffset(2)
    with pytest.raises(OffsetPurgedError, match="from 2 to 4"):
        source.plan(SequenceOffset(2), EVERYTHING)
    assert planned(source, 4).statements == 0


def test_a_memory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    source = source_of(tmp_path, MockFault(what="read_fails", at_row=45))
    kept = tmp_path / "mock-faults" / "here" / "orders.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{")
    with pytest.raises(SourceUnavailableError, match=r"orders\.json, which keeps the faults") as caught:
        source.splits(planned(source), 1)
    assert "delete the file" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"what": "dies"}, "what="),
        ({"what": "away", "times": 2}, "times says nothing of 'away'"),
        ({"what": "purged", "lasts": timedelta(seconds=1)}, "lasts says nothing"),
        ({"what": "read_fails", "rows": 2}, "rows says nothing"),
        ({"what": "away", "lasts": 5}, "timedelta"),
    ],
)
def test_bad_faults_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MockFault(at_row=1, **options)


def test_faults_come_back_from_what_is_stored() -> None:
    faults = (
        MockFault(what="read_fails", at_row=1, times=3),
        MockFault(what="read_hangs", at_row=2, lasts=timedelta(seconds=2.5)),
        MockFault(what="away", at_row=3, lasts=timedelta(minutes=1)),
        MockFault(what="purged", at_row=4, rows=7),
    )
    spec = Mock(rows=10, faults=faults)
    stored = {name: value for name, value in spec.to_json().items() if name != "kind"}
    again = Mock.from_stored(stored)
    assert again.faults == faults
    assert again.to_json() == spec.to_json()
