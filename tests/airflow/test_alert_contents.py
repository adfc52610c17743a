"""Every kind of alert names flow, range, run, the run's address and a runbook: those that it is about."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from databus import AlertWhen
from databus.airflow.reporting.alert_events import event_of, over
from databus.core.alerts.alert import Alert, AlertEvent, AlertKind, ChannelSpec
from databus.core.alerts.flow_status import FlowFigures, RejectedRows
from databus.core.connections import ConnectionSource
from databus.core.positions.gaps import OPEN, Gap
from databus.core.positions.lag import Headroom
from databus.core.positions.offsets import SequenceOffset
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.observe.alerts.hysteresis import NotificationTiming
from databus.observe.alerts.outbox import MemoryBook, Outbox
from databus.observe.alerts.rules import Observation, judge
from databus.ops.health.airflow import AirflowHealth
from databus.ops.health.alerts import _placed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
# r4 holds the lease and moves (40, 50]; r3 has moved (30, 40] and is over, r2 was audited last, r1 ran into a gap.
ILL = FlowFigures(
    "orders", NOON, committed="40", head="90", lag_seconds=400.0, lag_bytes=500, lag_rows=50, behind=("search",),
    headroom=Headroom(10.0, 10, "bin.1", 100_000, low=True), quarantine_new=1, quarantine_rows=7,
    gaps=(Gap(3, SequenceOffset(5), SequenceOffset(9), "purged", OPEN, "r1", "", NOON, "http://airflow/r1"),),
    last_run_at=NOON - timedelta(hours=1), window_seconds=900.0, plan_range="(40, 50]",
    run_id="r4", run_url="http://airflow/r4", committed_run="r3", committed_url="http://airflow/r3",
    quality_run="r2", quality_url="http://airflow/r2", quality_range="(20, 30]", quality_passed=False,
    rejected={"search": RejectedRows(2, 59, "r3", "http://airflow/r3", "(34, 38]")},
    quality_violations=4, quarantine_run="r3", quarantine_url="http://airflow/r3", quarantine_range="(32, 36]",
    missing_tables=("shop.orders",), unreachable={"records": "no route"},
)  # fmt: skip
MOVED = {"r2": "(20, 30]", "r3": "(30, 40]"}

ABOUT: dict[str, tuple[str, str, str]] = {
    "lag": ("r4", "http://airflow/r4", "(40, 90]"),
    "gap/3": ("r1", "http://airflow/r1", "(5, 9]"),
    "headroom": ("r3", "http://airflow/r3", "(40, 90]"),
    "quality": ("r2", "http://airflow/r2", "(20, 30]"),
    "quarantine": ("r3", "http://airflow/r3", "(32, 36]"),
    "rejected/search": ("r3", "http://airflow/r3", "(34, 38]"),
    "failure/audit": ("r2", "http://airflow/dags/orders/runs/r2", "(20, 30]"),
    "failure/transfer": ("r4", "http://airflow/dags/orders/runs/r4", "(40, 50]"),
    "deadline/r5": ("r5", "http://localhost:8080/dags/orders/runs/r5", "(40, 50]"),
    "deadline/lease": ("r4", "http://airflow/r4", "(40, 50]"),
    "no_run": ("r4", "http://airflow/r4", "(40, 90]"),
    "sink_behind/search": ("r4", "http://airflow/r4", "(40, 90]"),
    "missing_tables/shop.orders": ("r4", "http://airflow/r4", "(40, 90]"),
    "unreachable/records": ("r4", "http://airflow/r4", "(40, 90]"),
    "airflow/scheduler": ("", "", ""),  # of no flow, so of no run and no range
}
"""Alert → the run, address and range that it is about: docs/alerts.md, "What an alert says"."""


class Heard(ChannelSpec):
    kind: ClassVar[str] = "heard"
    fields_in_name: ClassVar[tuple[str, ...]] = ()
    alerts: Any = None

    def send(self, alert: Alert, connections: ConnectionSource) -> None:
        self.alerts.append(alert)


def of_task(task: str, run_id: str) -> dict[str, Any]:
    address = f"http://airflow/dags/orders/runs/{run_id}/tasks/{task}?try_number=2"
    instance = SimpleNamespace(task_id=task, try_number=2, log_url=address, dag_id="orders")
    return {"ti": instance, "run_id": run_id, "exception": ValueError("no")}


def events() -> Iterable[Observation]:
    yield event_of(AlertKind.FAILURE, of_task("audit", "r2"))
    yield event_of(AlertKind.FAILURE, of_task("transfer", "r4"))
    late = {"dag_run": {"dag_run_id": "r5", "dag_id": "orders"}, "deadline": {"deadline_time": NOON}}
    yield event_of(AlertKind.DEADLINE, late)


def told(book: MemoryBook, flow: str, observations: Iterable[Observation], known: Any = ()) -> dict[str, Alert]:
    alerts: list[Alert] = []
    settings = Settings("test", "", "", runbooks_url="docs/runbooks")
    outbox = Outbox(flow, book, (Heard(name="a", alerts=alerts),), None, SystemClock(), settings)  # type: ignore[arg-type]
    outbox.consider(observations, known, lambda _kind: NotificationTiming())
    return {f"{alert.kind}/{alert.subject}".rstrip("/"): alert for alert in alerts}


def everything(book: MemoryBook) -> dict[str, Alert]:
    seen = judge(ILL, AlertWhen(run_time=timedelta(minutes=10)))
    placed = [_placed(event, ILL, lambda run_id: MOVED.get(run_id, "")) for event in events()]
    health = AirflowHealth.observation("scheduler", "is unhealthy")
    return {**told(book, "orders", [*seen, *placed]), **told(book, "", [health])}


@pytest.fixture(scope="module")
def raised() -> dict[str, Alert]:
    return everything(MemoryBook())


def test_no_kind_is_left_out(raised: dict[str, Alert]) -> None:
    assert set(raised) == set(ABOUT)
    assert {key.partition("/")[0] for key in ABOUT} == set(AlertKind)


@pytest.mark.parametrize("key", ABOUT)
def test_an_alert_names_what_it_is_about(raised: dict[str, Alert], key: str) -> None:
    alert = raised[key]
    assert (alert.run_id, alert.run_url, alert.range) == ABOUT[key]
    assert alert.flow == ("" if key.startswith("airflow/") else "orders")
    assert (RUNBOOKS / Path(alert.runbook).name).is_file()
    if alert.kind not in {AlertKind.UNREACHABLE, AlertKind.AIRFLOW}:
        assert any(value not in (None, "") for value in alert.figures.values())


@pytest.mark.parametrize("key", ["gap/3", "sink_behind/search", "rejected/search", "unreachable/records"])
def test_what_nobody_sees_any_more_ends_with_what_it_was_raised_for(key: str) -> None:
    book = MemoryBook()
    everything(book)
    ended = told(book, "orders", [], {AlertKind(key.partition("/")[0])})[key]
    assert (ended.event, ended.run_id, ended.run_url, ended.range) == (AlertEvent.RECOVERED, *ABOUT[key])


@pytest.mark.parametrize("key", ["failure/audit", "failure/transfer", "deadline/r5"])
def test_what_a_run_says_is_over_names_that_run(key: str) -> None:
    book = MemoryBook()
    everything(book)
    kind, _, subject = key.partition("/")
    ended = told(book, "orders", [over(AlertKind(kind), subject, of_task("audit", "r6"))])[key]
    assert (ended.event, ended.run_id, ended.range) == (AlertEvent.RECOVERED, "r6", ABOUT[key][2])
    assert ended.run_url == "http://airflow/dags/orders/runs/r6"


def test_a_run_that_has_yet_to_begin_is_late_for_what_was_not_moved() -> None:
    """Nobody holds the lease, nothing is in flight: what the late run is to move is what is not committed."""
    idle = FlowFigures("orders", NOON, committed="40", head="90", run_id="r3")
    (late,) = [event for event in events() if event.kind is AlertKind.DEADLINE]
    assert _placed(late, idle, lambda _: "").range == "(40, 90]"
    assert _placed(late, idle, {"r5": "(30, 40]"}.get).range == "(30, 40]"  # type: ignore[arg-type]
