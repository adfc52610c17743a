"""Batches in two lanes (ADR 70): Spark's rows of some tables join the others' direct rows in front of the writer."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import RejectedRow, WriteReceipt
from databus.core.errors.batch import ReconciliationError
from databus.core.errors.root import DatabusError
from databus.core.protocols.optional_sink import FormEncoder, ImageEncoder
from databus.core.state.plan import SourcePlan
from databus.core.tables.schemas import NO_SCHEMA
from databus.rows.former_columns import former_columns_named
from databus.rows.violation_bits import FLOW_OP
from databus.runtime.counts import aggregates, sink_aggregates, sink_counts, table_names
from databus.runtime.direct.lane import DirectTasks, gathered, held_by_sink
from databus.runtime.direct.task import DirectTask
from databus.runtime.dispatch import (
    MINE,
    Dispatched,
    log_order,
    observation,
    shares_of,
    with_own_rows,
    writing_order,
)
from databus.runtime.read import splits_of
from databus.runtime.sink_outage.outage import naming
from databus.runtime.sink_rows import CheckedRows, rows_of_sink
from databus.sources.split_rows import SplitOfTables, of_tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from databus.runtime.context import FlowSession
    from databus.runtime.direct.row_counts import TaskCounts
    from databus.runtime.plan import PlannedBatch


@dataclass(frozen=True)
class SharedBatch:
    """A batch that is read in two lanes.

    Attributes:
        apart: tables whose rows go through Spark.
        spark: splits with their rows.
        direct: splits with the other rows, statements among them.
    """

    apart: frozenset[str]
    spark: tuple[SplitOfTables, ...]
    direct: tuple[SplitOfTables, ...]

    @classmethod
    def of(cls, session: FlowSession, batch: PlannedBatch, apart: frozenset[str]) -> SharedBatch | None:
        """Return how a batch is shared out; None where its splits or a sink's encoder do not allow it."""
        planned: SourcePlan = batch.source
        if any(spec.needs_transactions() for spec in session.flow.sinks):
            return None  # their orders are counted over the rows of all tables
        for sink in session.sinks.values():
            encoder = sink.encoder(batch.plan)  # type: ignore[attr-defined] # all sinks of such a flow are direct
            if isinstance(encoder, ImageEncoder) or (isinstance(encoder, FormEncoder) and encoder.values is not None):
                return None
        numbers = frozenset(schema.schema_id for schema in planned.tables if schema.full_name in apart)
        others = frozenset(schema.schema_id for schema in planned.tables) - numbers | {NO_SCHEMA}
        splits = splits_of(session, planned)
        spark, direct = of_tables(splits, numbers), of_tables(splits, others)
        return None if spark is None or direct is None else cls(apart, spark, direct)


def dispatch_both(
    session: FlowSession,
    batch: PlannedBatch,
    shared: SharedBatch,
    checked: CheckedRows,
    passed: frozenset[str] | None = None,
) -> tuple[dict[str, Dispatched], tuple[RejectedRow, ...]]:
    """Write a batch, slot by slot its rows of both lanes as one stream in log order.

    Args:
        session: the flow, open.
        batch: the batch.
        shared: how it is shared out.
        checked: Spark's rows, checked.
        passed: see `dispatch_direct`.

    Returns:
        What each sink confirmed, and the rows that checks hold back of the direct ones.

    Raises:
        SparkNeededError: a value of a direct table is for Spark's lane, which may write the same plan.
        DatabusError: what reading or writing raised.
        ReconciliationError: the slots' tasks did not read the same rows, or their shares are not the whole.
    """
    tasks = DirectTasks.of(session, batch, passed, shared.direct, shared.apart)
    done: dict[str, Dispatched] = {}
    held: tuple[RejectedRow, ...] = ()
    for name in writing_order(session.flow, batch.plan, session.sinks):
        with naming(name):
            job = _SinkJob(session, batch, name, tasks.of_sink(name, keeps_held=not done))
            rows = rows_of_sink(session.flow, session.sink_spec(name), session.sinks[name], checked)
            answers, seen = job.run(rows)
            direct = gathered(name, [(receipt, counts) for receipt, counts, _ in answers])
            held += held_by_sink(name, [(receipt, counts) for receipt, counts, _ in answers], passed)
            spark = _of_spark(job, rows, direct, seen, [given for _, _, given in answers])
            done[name] = _together(direct, spark)
    return done, held


@dataclass(frozen=True)
class _SinkJob:
    """Spark job that writes one sink's share of a batch."""

    session: FlowSession
    batch: PlannedBatch
    name: str
    task: DirectTask

    def run(self, rows: DataFrame) -> tuple[list[_Answer], Counter[str]]:
        """Write all slots; return their answers, and what the pass over Spark's rows observed."""
        from pyspark.sql import Observation

        flow, plan, names = self.session.flow, self.batch.plan, table_names(self.batch.source)
        spec, sink = self.session.sink_spec(self.name), self.session.sinks[self.name]
        shares = shares_of(flow, (spec, sink))
        seen = Observation(f"{self.name}-{plan.batch}")
        op = FLOW_OP if spec.transforms else ""
        figures = (*aggregates(flow, names, op_column=op), *sink_aggregates(names, shares))
        with former_columns_named(f"sink {self.name}"):
            encoded = sink.encode(rows.observe(seen, *figures).where(shares[MINE]), plan)
        slots = plan.sinks[self.name].slots
        answers = answers_of(with_heads(self.session.spark, encoded, slots), self.task)
        for answer in answers:
            if isinstance(answer, DatabusError):
                raise answer
        if sorted(receipt.slot for receipt, _, _ in answers) != list(range(slots)):
            raise ReconciliationError(
                f"sink {self.name}: {len(answers)} tasks answered for slots "
                f"{sorted(receipt.slot for receipt, _, _ in answers)} of {slots}"
            )
        return answers, observation(seen, rows, figures)


_Answer = tuple[WriteReceipt, "TaskCounts", int]
"""Receipt of a slot, what its task read itself, how many rows Spark gave it."""


def answers_of(placed: DataFrame, task: DirectTask) -> list[Any]:
    """Run a task in each slot of placed rows; return what each answers, or the error that it raised."""
    rows = placed.mapInArrow(shared_task(task), "answer binary").collect()
    return [pickle.loads(row["answer"]) for row in rows]  # noqa: S301 - our own tasks wrote them


def with_heads(spark: Any, encoded: DataFrame, slots: int) -> DataFrame:
    """Return encoded rows by slot, in log order, each slot's behind a row without a place that names the slot.

    A task without rows could not say which slot it stands for, and the slot's direct rows would have no task.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import VariantType

    texts = {f.name: F.to_json(f.name).cast("binary") for f in encoded.schema if isinstance(f.dataType, VariantType)}
    plain = encoded.withColumns(texts) if texts else encoded
    heads = spark.range(0, slots, 1, 1).select(F.col("id").cast("int").alias("slot"))
    together = heads.unionByName(plain.withColumn("slot", F.col("slot").cast("int")), allowMissingColumns=True)
    return together.repartitionById(slots, F.coalesce("slot", F.lit(0))).sortWithinPartitions(*log_order())


def shared_task(task: DirectTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a Spark task: Spark's rows of a slot in, one row with the pickled answer out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        full = (batch for batch in batches if batch.num_rows)
        first = next(full, None)
        if first is None:
            return
        slot, given = first.column("slot")[0].as_py(), 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal given
            for batch in chain((first.slice(1),), full):
                given += batch.num_rows
                yield batch

        answer: Any
        try:
            receipt, counts = task.write_among(slot, rows())
            answer = receipt, counts, given
        except DatabusError as error:
            answer = error
        yield pa.RecordBatch.from_pydict({"answer": pa.array([pickle.dumps(answer)], pa.binary())})

    return run


def _of_spark(
    job: _SinkJob, rows: DataFrame, direct: Dispatched, seen: Counter[str], given: Sequence[int]
) -> Dispatched:
    """Return Spark's share of a sink's rows, with the receipts of both.

    Raises:
        ReconciliationError: the slots were not given the rows that Spark counted for the sink.
    """
    names, spec = table_names(job.batch.source), job.session.sink_spec(job.name)
    counted = sum(sink_counts(names, seen, MINE).values())
    if sum(given) != counted:
        raise ReconciliationError(f"sink {job.name}: its slots were given {sum(given)} rows of Spark's {counted}")
    return with_own_rows(job.session.flow, spec, Dispatched(direct.receipts, seen, {}), rows, names)


def _together(direct: Dispatched, spark: Dispatched) -> Dispatched:
    """Add what both lanes counted."""
    observed, whole = Counter(direct.observed), Counter(direct.given)
    observed.update(spark.observed)
    whole.update(spark.given)
    return Dispatched(spark.receipts, observed, dict(whole))
