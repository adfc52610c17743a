from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from databus import Flow, Mock, Noop
from databus.checks.freshness import Freshness
from databus.checks.volume import Volume
from databus.core.positions.offsets import BinlogOffset, OffsetRange
from databus.core.state.plan import SourcePlan
from databus.core.tables.unlogged import UnloggedChange
from databus.runtime.check import enforce, evaluate_batch_checks

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def planned(*, rows: int = 0, age_s: float | None = None) -> SourcePlan:
    start, end = (BinlogOffset("binlog.000001", pos) for pos in (4, 104))
    watermark = None if age_s is None else NOW - timedelta(seconds=age_s)
    return SourcePlan(OffsetRange(start, end), (), rows, 100, watermark=watermark)


@pytest.mark.parametrize(
    ("check", "rows", "violations"),
    [
        (Volume(minimum_rows=1), 0, 1),
        (Volume(minimum_rows=1), 1, 0),
        (Volume(maximum_rows=10), 10, 0),
        (Volume(maximum_rows=10, severity="fail"), 11, 1),
        (Volume(minimum_rows=5, maximum_rows=10), 7, 0),
    ],
)
def test_volume(check: Volume, rows: int, violations: int) -> None:
    result = check.evaluate(planned(rows=rows), NOW)

    assert (result.violations, result.evaluated, result.observed) == (violations, 1, f"{rows} rows")
    assert (result.check, result.kind, result.table, result.column) == (check.check_name, "volume", "*", None)
    assert result.severity == check.severity


@pytest.mark.parametrize(
    ("age_s", "expected"), [(300, (1, 0, "300.000 s")), (300.5, (1, 1, "300.500 s")), (None, (0, 0, "no commit time"))]
)
def test_freshness(age_s: float | None, expected: tuple[int, int, str]) -> None:
    result = Freshness(timedelta(seconds=300)).evaluate(planned(age_s=age_s), NOW)

    assert (result.evaluated, result.violations, result.observed) == expected


def test_no_row_violates_a_check_of_the_batch() -> None:
    assert Freshness(timedelta(seconds=300)).violation(object()) is None
    assert Freshness(timedelta(seconds=300)).severity == "warn"


def test_statements_that_change_rows_without_row_events_are_a_warning_per_table() -> None:
    def change(pos: int, *tables: str) -> UnloggedChange:
        return UnloggedChange(tables, f"ALTER TABLE t DROP PARTITION p{pos}", "binlog.000001", pos, pos + 1)

    changes = (change(4, "shop.t"), *(change(pos, "shop.t", "shop.archive") for pos in (5, 6, 7)))
    flow = Flow(name="shop", source=Mock(rows=1), sinks=(Noop(),))
    batch = replace(planned(), unlogged=changes)
    of_t, of_archive = evaluate_batch_checks(flow, batch, NOW)
    assert (of_t.check, of_t.table, of_t.severity, of_t.violations) == ("partition_ddl(shop.t)", "shop.t", "warn", 4)
    assert "ALTER TABLE t DROP PARTITION p4 (binlog.000001:4); " in of_t.observed
    assert of_t.observed.endswith("(binlog.000001:6) and 1 more")
    assert (of_archive.table, of_archive.violations) == ("shop.archive", 3)
    enforce(flow, (of_t, of_archive))
    assert evaluate_batch_checks(flow, planned(), NOW) == ()
