"""Expectations judged as rows pass, in both lanes, against Great Expectations itself over the rows that came out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databus import Expectations, Flow, Memory, Mock, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import ConfigError, QualityGateError
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.ops.runs.expectations import judge_of
from databus.records.quality.great_expectations_context import great_expectations
from databus.records.quality.result import QualityResult, evaluate_run
from databus.records.recorder import SqlRecorder
from databus.records.reports import Reports
from databus.runtime.batch import run_batch
from databus.runtime.context import RunIdentity, Services, open_session
from databus.sinks.memory import clear, records
from databus.testing.memory_store import MemoryCheckpoints

pytestmark = pytest.mark.spark

KINDS = {"customer_id": "bigint", "status": "varchar", "weight": "double"}
SOURCE = Mock(tables=("shop.orders",), rows=300, rows_per_transaction=40, columns=KINDS, null_ratio=0.2, seed=11)


def suite(gx: Any) -> list[Any]:
    e = gx.expectations
    return [
        e.ExpectColumnValuesToNotBeNull(column="status", mostly=0.5),
        e.ExpectColumnValuesToNotBeNull(column="weight"),
        e.ExpectColumnValuesToBeNull(column="weight", mostly=0.1),
        e.ExpectColumnValuesToBeBetween(column="customer_id", min_value=0, max_value=500, mostly=0.4),
        e.ExpectColumnValuesToBeBetween(column="weight", min_value=0, strict_min=True),
        e.ExpectColumnValuesToBeInSet(column="status", value_set=["a", "x"], mostly=0.9),
        e.ExpectColumnValuesToNotBeInSet(column="customer_id", value_set=[1, 2, 3]),
        e.ExpectColumnValueLengthsToBeBetween(column="status", min_value=3, max_value=6, mostly=0.2),
        e.ExpectColumnValuesToMatchRegex(column="status", regex="^[a-m]", mostly=0.3),
        e.ExpectColumnValuesToNotMatchRegexList(column="status", regex_list=["z", r"\d"]),
        e.ExpectColumnProportionOfNonNullValuesToBeBetween(column="status", min_value=0.5, max_value=0.9),
    ]


@pytest.fixture(scope="module")
def gx() -> Any:
    return great_expectations()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[SqlRecorder]:
    clear("expectations")
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as opened:
        yield opened
    clear("expectations")


def run(spark: Any, flow: Flow, recorder: SqlRecorder) -> tuple[list[dict[str, Any]], QualityResult]:
    """Run a flow to its end as one run of several batches; return the images delivered, and the run's quality."""
    clear("expectations")
    checkpoints, clock = MemoryCheckpoints(), SystemClock()
    services = Services(Settings("test", "", ""), EnvironmentConnections({}), checkpoints, None, recorder, clock)
    with open_session(flow, services, spark, RunIdentity("run", "", __version__)) as session:
        lease = checkpoints.claim(flow.name, "run", 0)
        checkpoint = checkpoints.start(flow.name, lease, session.source.start_offset(), "run")
        while run_batch(session, lease, checkpoint) is not None:
            checkpoint = checkpoints.load(flow.name)  # type: ignore[assignment]
        lease.release()
    found = [json.loads(record["value"]) for record in records("expectations")]
    images = [value["after"] for value in found if value["op"] in ("c", "u", "r")]
    return images, evaluate_run(recorder.store, flow.name, "run", clock.now(), judge_of(flow, services))


def flow_of(name: str, expectations: Any, **options: Any) -> Flow:
    return Flow(name=name, source=SOURCE, sinks=(Memory(store="expectations"),), expectations=expectations, **options)


@pytest.mark.parametrize("lane", ["auto", "spark"])
def test_the_figures_are_great_expectations_own(spark: Any, gx: Any, recorder: SqlRecorder, lane: str) -> None:
    import pandas as pd

    images, quality = run(spark, flow_of("figures", suite(gx), lane=lane), recorder)
    assert len(Reports(recorder.store).batches("figures", "run")) >= 1
    frame = pd.DataFrame(images, columns=["id", *KINDS])
    batch = (
        gx.get_context(mode="ephemeral")
        .data_sources.add_pandas(lane)
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("all")
        .get_batch({"dataframe": frame})
    )
    assert len(quality.judged) == len(suite(gx))
    for mine, expectation in zip(quality.judged, suite(gx), strict=True):
        theirs = batch.validate(expectation)
        assert mine.success == theirs.success, mine.line()
        for name in ("element_count", "unexpected_count", "observed_value"):
            assert mine.result.get(name) == pytest.approx(theirs.result.get(name)), (name, mine.line())
        if "missing_count" in mine.result:
            assert mine.result["missing_count"] == theirs.result["missing_count"], mine.line()
        if "unexpected_percent" in mine.result:
            assert mine.result["unexpected_percent"] == pytest.approx(theirs.result["unexpected_percent"] or 0)
    assert {mine.success for mine in quality.judged} == {True, False}
    assert (quality.success, quality.worst) == (False, "warn")
    stored = Reports(recorder.store).quality("figures", "run")
    assert stored is not None
    assert stored["results"][1]["expectation_config"]["kwargs"] == {"column": "weight"}
    assert stored["statistics"]["evaluated_expectations"] == len(stored["results"])


def test_rows_are_held_back_or_stop_the_batch(spark: Any, recorder: SqlRecorder) -> None:
    not_null = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "status"}}
    images, quality = run(spark, flow_of("held", Expectations(not_null, action="quarantine")), recorder)

    (judged,) = quality.judged
    assert all(image["status"] is not None for image in images)
    held = Reports(recorder.store).quarantined("held")
    assert {row.cause for row in held} == {"expect_column_values_to_not_be_null(status)"}
    assert judged.violations == len(held) > 0
    assert quality.worst == "quarantine"
    with pytest.raises(QualityGateError, match=r"expect_column_values_to_not_be_null\(status\) on shop.orders"):
        run(spark, flow_of("stopped", Expectations(not_null, action="fail")), recorder)
    assert records("expectations") == []


def test_a_share_is_judged_when_the_run_is_over(spark: Any, recorder: SqlRecorder) -> None:
    most = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "status", "mostly": 0.99}}
    rows = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1, "max_value": 10}}
    images, quality = run(spark, flow_of("share", [Expectations(most, action="fail"), rows]), recorder)

    assert len(images) > 100
    assert [judged.success for judged in quality.judged] == [False, False]
    assert quality.judged[1].result["observed_value"] >= 300
    assert quality.worst == "fail"


OTHERS = [
    {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
    {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "customer_id", "min_value": 10**9}},
    {"type": "expect_column_to_exist", "kwargs": {"column": "buyer"}},
    {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "id", "column_B": "id"}},
    {"type": "expect_column_sun_to_be_between", "kwargs": {"column": "id"}},
]


def test_others_are_judged_by_the_rows_read_again(spark: Any, recorder: SqlRecorder) -> None:
    """All rows up to the limit; of a sample single rows only, and what needs all is refused by name."""
    import pandas as pd

    flow = flow_of("others", OTHERS)
    images, quality = run(spark, flow, recorder)
    unique, mean, exists, pair, unknown = quality.judged

    rows = pd.DataFrame(images)
    assert unique.result["element_count"] == len(images)
    assert unique.success == rows["id"].is_unique
    assert mean.result["observed_value"] == pytest.approx(rows["customer_id"].mean())
    assert [j.success for j in (mean, exists, pair)] == [False, False, True]
    assert "has no expect_column_sun_to_be_between" in unknown.error
    assert {j.how for j in quality.judged} == {"rows of the run"}

    services = Services(
        Settings("test", "", ""), EnvironmentConnections({}), MemoryCheckpoints(), None, recorder, SystemClock()
    )
    sampled = evaluate_run(recorder.store, flow.name, "run", SystemClock().now(), judge_of(flow, services, 100)).judged
    assert [bool(j.error) for j in sampled] == [True, True, True, False, True]
    assert "only a sample of" in sampled[0].error
    assert 0 < sampled[3].result["element_count"] <= 100


def test_an_aggregate_holds_no_row_back(spark: Any, recorder: SqlRecorder) -> None:
    unique = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}}
    with pytest.raises(ConfigError) as raised:
        run(spark, flow_of("unique", Expectations(unique, action="quarantine")), recorder)
    assert raised.value.code == "expectation_not_by_row"
    assert "expect_column_values_to_be_unique(id)" in raised.value.message
