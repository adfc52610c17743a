"""What a run tells of its rows adds up, and is the same in the window's summary, audit, run's tab and ledger."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus import Flow, Mock, Noop
from databus.core.batches.counts import APPLIED, STATEMENTS, TableCounts
from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.events import RowState
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry
from databus.core.state.ledger_chain import build
from databus.core.state.plan import LostRange, Plan, SourcePlan
from databus.ops.ledger.show import LedgerState, summary
from databus.ops.runs.view import run_view
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.records.store import RecordStore
from databus.records.summary import summarize
from databus.runtime.counts import reconcile
from databus.runtime.window_result import WindowResult

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
SINKS = ("kafka", "search")
FLOW = Flow(name="orders", source=Mock(rows=1), sinks=(Noop(),))
NUMBERS = itertools.count(1)

FILTERED, HELD, BOTH = "filtered", "held", "both"
ENDS = [
    FILTERED,  # by a row filter, by a Filter that neither image satisfies, or an operation that no sink takes
    HELD,  # by a check
    BOTH,  # confirmed by both: also the delete of a row that leaves a Filter, and a row whose value goes by claim check
    *SINKS,  # one sink alone takes such operations
    "kafka refuses", "search refuses", "both refuse",
]  # fmt: skip


@dataclass(frozen=True)
class Moved:
    """A batch: table → how each of its rows ended; the number of TRUNCATEs and DDL statements; what it passed over."""

    rows: dict[str, list[str]]
    statements: int
    lost: str

    @property
    def counts(self) -> dict[str, TableCounts]:
        """What a pass counts before sinks refuse any."""
        found = {}
        for table, ends in self.rows.items():
            filtered, held = ends.count(FILTERED), ends.count(HELD)
            if ends:
                found[table] = TableCounts(len(ends), filtered, held, len(ends) - filtered - held)
        if self.statements:
            found[STATEMENTS] = TableCounts(self.statements, 0, 0, self.statements)
        return found

    def given(self, sink: str) -> dict[str, int]:
        takes = {BOTH, sink, "kafka refuses", "search refuses", "both refuse"}
        rows = {table: sum(end in takes for end in ends) for table, ends in self.rows.items()}
        return {**{table: count for table, count in rows.items() if count}, STATEMENTS: self.statements}

    def receipt(self, sink: str, batch: int) -> WriteReceipt:
        """What the sink confirms: search makes no documents of statements, and tells them apart."""
        refuses = {f"{sink} refuses", "both refuse"}
        refused = [
            RejectedRow(f"{batch}:{table}:{number}", table, None, "too large", sink, "1", "{}")
            for table, ends in self.rows.items()
            for number, end in enumerate(ends)
            if end in refuses
        ]
        rows = self.given(sink)
        for row in refused:
            rows[row.table] -= 1
        if self.statements:
            rows["shop.orders"] = rows.get("shop.orders", 0) + self.statements
        del rows[STATEMENTS]
        apart = {"": {APPLIED: self.statements}} if sink == "search" and self.statements else {}
        return WriteReceipt(sink, 0, batch, sum(rows.values()), rows, tuple(refused), apart)


ROWS = st.lists(st.sampled_from(ENDS), max_size=8)
OF_TABLES = st.fixed_dictionaries({"shop.items": ROWS, "shop.orders": ROWS})
LOST = st.sampled_from(("", "", "on_gap=earliest"))
BATCHES = st.lists(st.builds(Moved, OF_TABLES, st.integers(0, 2), LOST), max_size=4)


def report(moved: Moved, batch: int, run_id: str) -> BatchReport:
    """The batch as the runtime reports it, once it is reconciled."""
    receipts = {sink: (moved.given(sink), [moved.receipt(sink, batch)]) for sink in SINKS}
    read = sum(map(len, moved.rows.values()))
    planned = SourcePlan(OffsetRange(SequenceOffset(batch - 1), SequenceOffset(batch)), (), read, 100)
    final = reconcile(FLOW, planned, {"changes": read}, moved.counts, receipts)
    return BatchReport(
        plan=Plan("test", "orders", batch, planned.range, {}, "spec", NOON),
        epoch=Epoch(1),
        run_id=run_id,
        run_url="",
        tables=final,
        receipts=tuple(each for _, written in receipts.values() for each in written),
        checks=(),
        rejected=(),
        durations_ms={},
        bytes=100,
        watermark=None,
        committed_at=NOON,
        lost=LostRange(planned.range, moved.lost) if moved.lost else None,
    )


def window(reports: Sequence[BatchReport]) -> dict[str, Any]:
    result = WindowResult("orders", Checkpoint(SequenceOffset(0), 0, Epoch(1), "r", "", {}, None, NOON))
    for each in reports:
        result.add(each)
    assert str(result.counts) == str(TableCounts.total(c for r in reports for c in r.tables.values()))
    return result.summary()


def ledger(reports: Sequence[BatchReport]) -> dict[str, Any]:
    first = reports[0].plan.range.start if reports else SequenceOffset(0)
    entries = [HistoryEntry(1, "start", "r", "", None, first, 0, Epoch(1), {}, (), NOON)]
    entries += [
        HistoryEntry(
            number, "commit", "r", "", each.plan.range.start, each.plan.range.end, each.plan.batch, Epoch(1),
            each.tables, tuple(receipt.to_json() for receipt in each.receipts), NOON, bytes=100,
        )
        for number, each in enumerate(reports, 2)
    ]  # fmt: skip
    found = build("orders", entries)
    assert found.problems == ()
    return summary(LedgerState("orders", None, None, tuple(entries), (), (), tuple(entries), found))


@pytest.fixture(scope="module")
def records_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("records")
    return f"sqlite:///{folder / 'records.db'}"


@given(BATCHES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_tell_the_same_numbers_and_they_add_up(records_url: str, batches: list[Moved]) -> None:
    numbers = [next(NUMBERS) for _ in batches]
    run_id = f"run-{next(NUMBERS)}"
    reports = [report(moved, number, run_id) for moved, number in zip(batches, numbers, strict=True)]
    with SqlRecorder.open(records_url) as recorder:
        for each in reports:
            recorder.record(each)
    with RecordStore(records_url) as store:
        audited = summarize("orders", run_id, Reports(store).batches("orders", run_id))
    told, of_log = window(reports), ledger(reports)

    refusals = ("kafka refuses", "search refuses", "both refuse")
    ends = [end for moved in batches for rows in moved.rows.values() for end in rows]
    statements = sum(moved.statements for moved in batches)
    expected = TableCounts(
        read=len(ends) + statements,
        filtered=ends.count(FILTERED),
        quarantined=ends.count(HELD) + sum(map(ends.count, refusals)),
        dispatched=statements + sum(map(ends.count, (BOTH, *SINKS))),
    )
    assert expected.reconciled
    assert expected == audited.total
    assert {name: told["rows" if name == "read" else name] for name in expected.to_json()} == expected.to_json()
    assert of_log["rows"] == expected.to_json()
    assert told["sinks"] == of_log["sinks"] == {sink.sink: sink.counts.to_json() for sink in audited.sinks}
    assert told["state"] == audited.state
    assert (told["state"] == "lost") is any(moved.lost for moved in batches)
    assert (told["state"] == "ok") is not bool(expected.quarantined or any(moved.lost for moved in batches))
    assert audited.reconciled
    for sink in told["sinks"].values():
        assert sum(sink.values()) <= expected.read - expected.filtered - ends.count(HELD)
    viewed = run_view("orders", run_id, Settings("test", "", records_url))
    if reports:
        assert viewed is not None
        assert viewed["counts"] == {**expected.to_json(), "reconciled": True}
        assert viewed["state"] == told["state"]
        assert {table["table"]: table["read"] for table in viewed["inputs"]} == told["tables"]
        assert {sink.pop("sink"): sink for sink in viewed["sinks"]} == told["sinks"]


def test_the_sum_says_where_it_does_not_add_up() -> None:
    counts = TableCounts(12, 1, 1, 10)
    assert str(counts) == "read 12 = filtered 1 + quarantined 1 + dispatched 10"
    assert str(replace(counts, filtered=0)) == "read 12 ≠ filtered 0 + quarantined 1 + dispatched 10"
    assert set(counts.to_json()) == {"read", *map(str, RowState)}
