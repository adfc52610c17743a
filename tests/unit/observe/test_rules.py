"""What a flow's figures say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from databus import AlertWhen
from databus.core.alerts.alert import AlertKind
from databus.core.alerts.flow_status import FlowFigures, RejectedRows
from databus.core.positions.gaps import OPEN, Gap
from databus.core.positions.lag import Headroom
from databus.core.positions.offsets import SequenceOffset
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.rules import Observation, judge

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GAP = Gap(3, SequenceOffset(5), SequenceOffset(9), "purged", OPEN, "run 7", "", NOON)
WELL = FlowFigures(
    "orders", NOON, committed="5", head="5", lag_seconds=0.0, lag_bytes=0, lag_rows=0, quarantine_rows=7,
    headroom=Headroom(90_000.0, 10, "bin.1", 100_000), gaps=(), quarantine_new=0, last_run_at=NOON, behind=(),
    quality_run="r1", quality_passed=True, quality_violations=0, run_id="r1", run_url="https://r/1",
)  # fmt: skip


def said(when: AlertWhen | None = None, **changes: Any) -> dict[str, Observation]:
    return {o.key: o for o in judge(replace(WELL, **changes), when or AlertWhen())}


def test_a_flow_that_is_well_is_clear_of_everything() -> None:
    assert {o.verdict for o in said().values()} == {RuleVerdict.CLEAR}


@pytest.mark.parametrize(
    ("key", "when", "changes"),
    [
        ("lag", {}, {"lag_seconds": 301.0}),
        ("lag", {"lag_rows": 1000}, {"lag_rows": 1001}),
        ("lag", {"lag_bytes": 1000, "lag": None}, {"lag_bytes": 1001}),
        ("gap/3", {}, {"gaps": (GAP,)}),
        ("headroom", {}, {"headroom": Headroom(10.0, 10, "bin.1", 100_000, low=True)}),
        ("headroom", {"headroom": timedelta(seconds=95_000)}, {}),
        ("quality", {}, {"quality_passed": False, "quality_violations": 4}),
        ("quarantine", {}, {"quarantine_new": 1}),
        ("quarantine", {"quarantine_rows": 5}, {"quarantine_new": 6}),
        ("rejected/search", {}, {"rejected": {"search": RejectedRows(1, 3), "kafka": RejectedRows(0, 7)}}),
        ("rejected/search", {"rejected_rows": 5}, {"rejected": {"search": RejectedRows(6, 6)}}),
        ("no_run", {}, {"last_run_at": NOON - timedelta(minutes=11)}),
        ("deadline/lease", {"run_time": timedelta(minutes=2)}, {"window_seconds": 121.0}),
        ("sink_behind/search", {}, {"behind": ("search",)}),
        ("missing_tables/shop.a", {}, {"missing_tables": ("shop.a",)}),
        ("unreachable/source", {}, {"unreachable": {"source": "no route"}, "lag_seconds": None}),
    ],
)
def test_each_rule_raises_and_can_be_turned_off(key: str, when: dict[str, Any], changes: dict[str, Any]) -> None:
    over = {k for k, o in said(AlertWhen(**when), **changes).items() if o.verdict is RuleVerdict.OVER}
    assert over == {key}
    kind = AlertKind(key.partition("/")[0])
    assert not any(o.kind is kind for o in said(AlertWhen(**when, off=(kind,)), **changes).values())


def test_what_is_not_known_is_not_judged() -> None:
    nothing = judge(FlowFigures("orders", NOON), AlertWhen())
    assert {o.verdict for o in nothing} == {RuleVerdict.UNKNOWN}


def test_rows_that_a_sink_refused_are_told_of_that_sink_with_what_it_lacks_in_all() -> None:
    seen = said(rejected={"search": RejectedRows(2, 59, "r3", "https://r/3", "(3, 4]")})
    told = seen["rejected/search"]
    assert told.summary == "sink search refused 2 rows in 60 minutes; it lacks 59 in all, which are in quarantine"
    assert (told.range, told.run_id, told.run_url) == ("(3, 4]", "r3", "https://r/3")
    assert told.figures == {"rejected_new_rows": 2, "rejected_rows": 59}
    assert seen["quarantine"].verdict is RuleVerdict.CLEAR


def test_of_a_database_that_goes_twenty_tables_are_told_one_by_one() -> None:
    names = tuple(f"shop.t{n:03}" for n in range(100))
    told = [o for o in said(missing_tables=names).values() if o.kind is AlertKind.MISSING_TABLES]
    assert [o.subject for o in told] == [*names[:20], "others"]
    assert told[0].summary == "nothing more comes of shop.t000: it is not there (any more)"
    assert told[-1].summary == "nothing more comes of 80 others, from shop.t020 to shop.t099"
    assert told[-1].figures == {"missing_tables": 100, "lag_seconds": 0.0}


def test_a_paused_flow_may_rest_and_a_dead_store_is_no_missing_run() -> None:
    long_ago = NOON - timedelta(days=1)
    assert said(last_run_at=long_ago, paused="paused by ann")["no_run"].verdict is RuleVerdict.CLEAR
    assert "no_run" not in said(last_run_at=long_ago, unreachable={"checkpoint store": "gone"})


def test_lag_names_range_run_and_figures() -> None:
    lag = said(head="9", lag_seconds=400.0, lag_rows=12)["lag"]
    assert (lag.range, lag.run_id, lag.run_url) == ("(5, 9]", "r1", "https://r/1")
    assert lag.summary == "lag 400 of 300 s"
    assert lag.figures == {"lag_seconds": 400.0, "lag_bytes": 0, "lag_rows": 12}
