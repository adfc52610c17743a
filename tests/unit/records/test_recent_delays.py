"""Delays of the last hour: of each span the newest batch's, by two statements that an index answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from databus.core.batches.report import BatchReport
from databus.records.overview import HOUR, _delays, delays_view, recent_delays
from databus.records.recorder import SqlRecorder
from tests.contract.record_samples import report

NOW = datetime(2026, 11, 21, 12, 0, 40, tzinfo=UTC)
START = HOUR.start(NOW)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[SqlRecorder]:
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as opened:
        yield opened


def batch(number: int, at: datetime, delay_s: float | None, flow: str = "orders", dag: str = "nightly") -> BatchReport:
    watermark = None if delay_s is None else at - timedelta(seconds=delay_s)
    made = report(
        number, "r", flow=flow, committed_at=at, watermark=watermark, definition={"name": flow}, checks=(), rejected=()
    )
    return replace(made, run_url=f"http://airflow/dags/{dag}/runs/r")


def test_each_span_has_the_delay_of_its_newest_batch(recorder: SqlRecorder) -> None:
    made = random.Random(11)
    expected: list[float | None] = [None] * HOUR.count
    at, batches = START - timedelta(minutes=5), []
    while (at := at + timedelta(seconds=made.choice((1, 20, 200)))) < NOW:
        delay = made.choice((None, 0.25, 3.0, 90.0))
        batches.append(batch(len(batches) + 1, at, delay))
        if at >= START:
            expected[int((at - START) / HOUR.width)] = delay
    recorder.record(*batches, batch(1, NOW, -2.0, "early", "early"))
    start, found = recent_delays(recorder.store, {"nightly", "early"}, NOW)
    assert start == START
    assert {one.flow: (one.dag_id, one.delays[:-1]) for one in found} == {
        "orders": ("nightly", tuple(expected[:-1])),
        "early": ("early", (None,) * (HOUR.count - 1)),
    }
    assert {one.flow: one.delays[-1] for one in found} == {"orders": expected[-1], "early": 0.0}


def test_flows_of_other_dags_are_left_out(recorder: SqlRecorder) -> None:
    recorder.record(batch(1, NOW, 1.0), batch(1, NOW, 1.0, "hidden", "secret"))
    assert [one.flow for one in recent_delays(recorder.store, {"nightly"}, NOW)[1]] == ["orders"]
    assert recent_delays(recorder.store, set(), NOW)[1] == []
    view = delays_view(recorder.store, {"secret"})
    assert list(view["delays"]) == ["hidden"]
    assert len(view["delays"]["hidden"]) == HOUR.count


def test_two_statements_look_into_the_index_alone(recorder: SqlRecorder) -> None:
    recorder.record(*(batch(number, NOW - timedelta(minutes=number), 1.0) for number in range(1, 50)))
    asked: list[tuple[str, Any]] = []
    sa.event.listen(recorder.store.engine, "before_cursor_execute", lambda *event: asked.append((event[2], event[3])))
    recent_delays(recorder.store, {"nightly"}, NOW)
    assert len(asked) == 2
    with recorder.store.transaction() as connection:
        plan = [step[3] for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked[1][0]}", asked[1][1])]
    looked = [step for step in plan if "databus_batches" in step]
    assert looked
    assert all("SEARCH databus_batches USING COVERING INDEX ix_databus_batches_chart" in step for step in looked)


def test_postgresql_takes_the_statement_too(recorder: SqlRecorder) -> None:
    text = str(_delays(recorder.store, {"orders"}, START).compile(dialect=postgresql.dialect()))
    assert "WITH named AS" in text
