"""Spark jobs of the direct lane: one per batch and sink, a task per slot."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.root import DatabusError
from databus.core.protocols.sink import SlotWriter
from databus.core.state.plan import SourcePlan

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.runtime.direct.row_counts import TaskCounts
    from databus.runtime.direct.task import DirectTask


from databus.runtime.dispatch import write_empty_slots


class SparkJobs:
    """Runner of writers (`SlotRunner`) as a Spark job of their own; nothing is held between batches."""

    def __init__(self, spark: Any):
        self._spark = spark

    def run(self, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, TaskCounts]]:
        """Write all slots of a sink, each in a Spark task.

        Raises:
            DatabusError: what a slot's task raised.
        """
        numbers = self._spark.range(0, slots, 1, slots)
        rows = numbers.mapInArrow(spark_task(task), "answer binary").collect()
        answers = [pickle.loads(row["answer"]) for row in rows]  # noqa: S301 - our own tasks wrote them
        for answer in answers:
            if isinstance(answer, DatabusError):
                raise answer
        return answers

    def run_empty(self, writer: SlotWriter, planned: SourcePlan, slots: int) -> list[WriteReceipt]:  # noqa: ARG002
        """Commit a marker for each slot of a batch without rows, from this process."""
        return write_empty_slots(writer, slots, set())

    def make_room(self, why: str) -> None:
        """Do nothing: no Spark task outlives its batch."""

    def batch_over(self) -> None:
        """Do nothing: nothing is held for a batch."""


def spark_task(task: DirectTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function a Spark task runs: for each slot number it is given, one row with the pickled answer."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for slot in batch.column(0).to_pylist():
                answer: Any
                try:
                    answer = task.write(slot)
                except DatabusError as error:
                    answer = error
                yield pa.RecordBatch.from_pydict({"answer": pa.array([pickle.dumps(answer)], pa.binary())})

    return run
