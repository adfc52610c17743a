"""Batches in two lanes: whatever tables go through Spark, the sinks get the rows, in the order, that one lane gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from databus import AcceptedValues, DropColumns, Filter, Flow, InRange, Mask, NotNull, RenameColumns, Route
from databus.core.batches.receipts import WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.flow_specs import CheckSpec, TransformSpec
from databus.core.state.plan import SourcePlan
from databus.expressions.errors import SparkNeededError
from databus.runtime import batch as stages
from databus.runtime.direct.both_lanes import shared_task, with_heads
from databus.runtime.direct.lane import dispatch_direct
from databus.runtime.direct.row_counts import TaskCounts
from databus.runtime.direct.spark_tables import SparkTables, spark_tables
from databus.runtime.direct.task import DirectTask
from databus.sinks.memory import Memory, clear
from databus.sources.mock.spec import Mock
from tests.spark.test_direct_lane import Recorder, comparable, moved, quarantined

pytestmark = pytest.mark.spark

TABLES = ("shop.orders", "shop.people", "shop.parts")
COLUMNS = {"customer_id": "bigint", "status": "varchar", "amount": "decimal(12,2)", "weight": "double"}
NEVER_COMPILED = "xpath_boolean('<a><b>1</b></a>', 'a/b')"
"""A condition that holds of every row, and that Spark alone evaluates."""

Lanes = frozenset[str] | None


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Lanes]]:
    """Note which tables of each attempt go through Spark; memory sinks are empty before and after."""
    seen: list[Lanes] = []

    def noted(flow: Flow, planned: SourcePlan, known: SparkTables) -> Lanes:
        seen.append(spark_tables(flow, planned, known))
        return seen[-1]

    monkeypatch.setattr(stages, "spark_tables", noted)
    clear("people")
    yield seen
    for store in ("lanes", "people"):
        clear(store)


def flow_of(*transforms: TransformSpec, checks: tuple[CheckSpec, ...] = (), **source: Any) -> Flow:
    rows = {"rows": 300, "rows_per_transaction": 7, "seed": 5, **source}
    return Flow(
        name="lanes",
        source=Mock(tables=TABLES, columns=COLUMNS, **rows),
        transforms=transforms,
        checks=checks,
        sinks=(Memory(store="lanes"), Memory(name="people", store="people", routes=("shop.people",))),
    )


def outcome(records: list[dict[str, Any]], reports: list[BatchReport]) -> tuple[Any, ...]:
    """Return all that a batch leaves behind, but for what differs between two runs."""
    held = sorted(quarantined(row)[:-1] for row in Recorder.last.held)
    texts = sorted((quarantined(row) for row in Recorder.last.held), key=lambda row: row[0])
    return (
        list(map(comparable, records)),
        [report.tables for report in reports],
        [sorted(map(str, report.checks)) for report in reports],
        [[receipt.to_json() for receipt in report.receipts] for report in reports],
        held,
        texts,
    )


def test_one_table_that_does_not_compile_takes_spark_alone(spark: Any, taken: list[Lanes]) -> None:
    condition = f"{NEVER_COMPILED} AND status <> 'paid'"
    flow = flow_of(Filter(condition, tables=("shop.people",)), Mask("status", keep_last=1, tables=("shop.orders",)))
    records, reports = moved(spark, flow)
    both = outcome(records, reports)
    assert taken == [frozenset({"shop.people"})]
    assert [report.through_spark for report in reports] == [("shop.people",)]
    records, reports = moved(spark, flow.model_copy(update={"lane": "spark"}))
    assert both == outcome(records, reports)
    assert [report.through_spark for report in reports] == [tuple(sorted(TABLES))]
    assert taken[1:] == [None]
    plain = Filter("status <> 'paid'", tables=("shop.people",))
    assert both == outcome(*moved(spark, flow.model_copy(update={"transforms": (plain, *flow.transforms[1:])})))
    assert taken[2:] == [frozenset()]
    (counts,) = both[1]
    assert all(each.dispatched for each in counts.values())
    assert counts["shop.people"].filtered


def test_any_choice_of_tables_gives_the_same(spark: Any, monkeypatch: pytest.MonkeyPatch, taken: list[Lanes]) -> None:
    """Random transforms, checks and shapes of transactions; each table alone in Spark's lane, and each pair."""
    seed = random.SystemRandom().getrandbits(32)
    chance = random.Random(seed)
    transforms = (
        Filter("customer_id % 3 <> 0 OR _op = 'd'", tables=(chance.choice(TABLES),)),
        DropColumns("amount", tables=(chance.choice(TABLES),)),
        RenameColumns({"customer_id": "buyer"}),
        Mask("status", keep_last=2, tables=(chance.choice(TABLES),)),
        Route({"shop.orders": "shop.people"}),
    )
    checks = (
        NotNull("weight"),
        InRange("buyer", minimum=100, tables=(chance.choice(TABLES),)),
        AcceptedValues("status", ("x", "paid"), severity="warn"),
    )
    shape = {"rows_per_transaction": chance.choice([1, 5, 40, 300]), "null_ratio": 0.1, "seed": chance.randrange(99)}
    flow = flow_of(*chance.sample(transforms[:2], 2), *transforms[2:], checks=checks, **shape)
    direct = outcome(*moved(spark, flow))
    assert taken[0] == frozenset()
    for apart in chance.sample([frozenset(t) for t in (TABLES[:1], TABLES[1:2], TABLES[1:], TABLES[::2])], 2):
        monkeypatch.setattr(stages, "spark_tables", lambda *_, apart=apart: apart)
        assert outcome(*moved(spark, flow)) == direct, seed
    assert all(direct[-2:]), seed


def test_a_table_that_needs_spark_is_remembered(
    spark: Any, monkeypatch: pytest.MonkeyPatch, taken: list[Lanes]
) -> None:
    """Of three batches the first is tried twice, and the other tables stay direct."""
    flow = flow_of(Filter("status <> 'paid'"), rows=30, rows_per_transaction=10)
    flow = flow.model_copy(update={"batching": flow.batching.model_copy(update={"max_rows": 10})})
    expected = outcome(*moved(spark, flow))
    taken.clear()

    def refusing(_task: DirectTask, _slot: int) -> tuple[WriteReceipt, TaskCounts]:
        error = SparkNeededError("a value")
        error.table = "shop.people"
        raise error

    monkeypatch.setattr(DirectTask, "write", refusing)
    monkeypatch.setattr(stages, "dispatch_direct", in_this_process(dispatch_direct))
    assert outcome(*moved(spark, flow)) == expected
    assert taken == [frozenset(), *[frozenset({"shop.people"})] * 3]


def in_this_process(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """Run the direct tasks of a batch here, where they can be made to fail."""

    def dispatched(session: Any, *args: Any) -> Any:
        class Here:
            def run(self, task: DirectTask, slots: int) -> list[Any]:
                return [task.write(slot) for slot in range(slots)]

        session.slot_runner, before = Here(), session.slot_runner
        try:
            return dispatch(session, *args)
        finally:
            session.slot_runner = before

    return dispatched


def test_every_slot_has_a_task(spark: Any) -> None:
    """Spark's rows are of slot 1 alone; slots 0 and 2 have a task all the same, and each knows its number."""

    class Told:
        def write_among(self, slot: int, beside: Any) -> tuple[int, list[int]]:
            return slot, [place for batch in beside for place in batch["place"].to_pylist()]

    schema = "slot int, value binary, log string, place bigint, ordinal bigint, part smallint, image variant"
    rows = [(1, b"x", "log.10", n, 0, 0) for n in range(9, 0, -1)] + [(1, b"x", "log.9", 77, 0, 0)]
    encoded = spark.createDataFrame(rows, schema.rpartition(",")[0]).withColumn("image", f.parse_json(f.lit("[1]")))
    assert encoded.schema.simpleString().count("variant") == 1
    placed = with_heads(spark, encoded, 3)
    answers = placed.mapInArrow(pickled(shared_task(Told())), "answer binary").collect()  # type: ignore[arg-type]
    assert sorted(bytes(row["answer"]).decode() for row in answers) == [
        "((0, []), 0)", f"((1, {[77, *range(1, 10)]}), 10)", "((2, []), 0)",
    ]  # fmt: skip


def pickled(task: Callable[..., Any]) -> Callable[..., Any]:
    def run(batches: Any) -> Iterator[pa.RecordBatch]:
        import pickle

        for answer in task(batches):
            slot, places, given = pickle.loads(answer["answer"][0].as_py())
            told = str(((slot, places), given)).encode()
            yield pa.RecordBatch.from_pydict({"answer": pa.array([told], pa.binary())})

    return run
