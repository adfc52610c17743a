"""Raw records: from the source's client to the sink's as they are, each slot reading its own partitions alone.

The direct lane reads everything in each slot's task and picks rows; a mirror's slot owns whole partitions, so that its
task asks for nothing else. What shows that the slots together read the whole range is then not that all saw the same
rows, but that the offsets they passed add up to the plan's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.batch import ReconciliationError
from databus.core.errors.config import ConfigError
from databus.core.protocols.optional_sink import DirectEncoder, RawRecordEncoder
from databus.core.protocols.splits import DirectSplit, RawRecordSplit
from databus.core.state.plan import SourcePlan
from databus.runtime.direct.read_ahead import collector_at_rest
from databus.runtime.direct.row_counts import RowCounter, TaskCounts
from databus.runtime.direct.task import DirectTask
from databus.runtime.dispatch import Dispatched

if TYPE_CHECKING:
    from databus.rows.raw_records import RawRecords


@dataclass(frozen=True)
class RawRecordTask(DirectTask):
    """Task of one slot with raw records: of `RawRecordSplit`s, for a `RawRecordEncoder`."""

    def write(self, slot: int) -> tuple[WriteReceipt, TaskCounts]:
        """Read the slot's partitions, write their records, and return the receipt with what was read.

        Raises:
            DatabusError: what reading or writing raised.
        """
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine)
        with collector_at_rest(), closing(self._raw_records(slot, counter)) as records:
            # The first records are there before the writer opens a transaction, whose time is limited.
            first = list(islice(records, 1))
            receipt = self.writer.write(chain(first, records), slot)
        return receipt, counter.observed

    def encode(self, slot: int) -> int:
        """Read everything of a slot and write nothing; return the records."""
        counter = RowCounter(self.flow, self.planned, self.takers, self.mine)
        return sum(records.num_rows for records in self._raw_records(slot, counter))

    def _raw_records(self, slot: int, counter: RowCounter) -> Generator[RawRecords]:
        if self.marks is not None:
            raise ConfigError(
                f"flow {self.flow.name}: row checks cannot look into raw records",
                hint="Leave the checks out, or use a flow of KafkaTopics and Kafka without raw=True.",
            )
        if self.program is not None or self.columns:
            raise ConfigError(
                f"flow {self.flow.name}: transforms cannot change raw records",
                hint="Leave the transforms out, or use a flow of KafkaTopics and Kafka without raw=True.",
            )
        encoder = cast("RawRecordEncoder", self.encoder)
        owns = partial(_owns, encoder, slot)
        for split in cast("Sequence[RawRecordSplit]", self.splits):
            with closing(split.read_raw(owns)) as found:
                for records, left_out in found:
                    taken = counter.count_raw(records.schema, records.num_rows, left_out)
                    if taken and records.num_rows:
                        counter.observed.given += records.num_rows
                        yield encoder.encode_raw(records)
            counter.observed.offsets += split.offsets(owns)


def task_type(splits: Sequence[DirectSplit], encoder: DirectEncoder) -> type[DirectTask]:
    """Return the task for what a source reads and a sink takes."""
    raw = any(isinstance(split, RawRecordSplit) for split in splits)
    return RawRecordTask if raw and isinstance(encoder, RawRecordEncoder) else DirectTask


def gathered_shares(sink: str, planned: SourcePlan, answers: Sequence[tuple[WriteReceipt, TaskCounts]]) -> Dispatched:
    """Add up what the slots read, each its own part.

    Raises:
        ReconciliationError: together they did not read the range.
    """
    passed = sum(seen.offsets for _, seen in answers)
    if passed != planned.rows:
        raise ReconciliationError(f"sink {sink}: its slots read {passed} offsets of {planned.rows}")
    read: Counter[str] = Counter()
    mine: Counter[str] = Counter()
    for _, seen in answers:
        read.update(seen.read)
        mine.update(seen.mine)
    receipts = tuple(sorted((receipt for receipt, _ in answers), key=lambda receipt: receipt.slot))
    return Dispatched(receipts, read, dict(mine))


def _owns(encoder: RawRecordEncoder, slot: int, number: int) -> bool:
    return encoder.slot_of(number) == slot
