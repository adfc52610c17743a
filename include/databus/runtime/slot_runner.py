"""Slot runner: who runs a batch's writers, one call for all slots of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from databus.core.batches.receipts import WriteReceipt
    from databus.core.protocols.sink import SlotWriter
    from databus.core.state.plan import SourcePlan
    from databus.runtime.direct.row_counts import TaskCounts
    from databus.runtime.direct.task import DirectTask


class SlotRunner(Protocol):
    """Runner of the writers of a flow's batches: a Spark job per batch (`SparkJobs`), or the live job (`LiveSlots`).

    Guarantee: plan, writer, receipts and markers are the same with each, so a batch that one began is finished by
    another.
    """

    def run(self, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, TaskCounts]]:
        """Write all slots of a sink; return each slot's receipt with what its task read.

        Raises:
            DatabusError: what reading or writing raised.
        """
        ...

    def run_empty(self, writer: SlotWriter, planned: SourcePlan, slots: int) -> list[WriteReceipt]:
        """Commit a marker for each slot of a batch without rows.

        Raises:
            DatabusError: what writing raised.
        """
        ...

    def make_room(self, why: str) -> None:
        """Release Spark task slots that are held between batches: the next batch needs them."""
        ...

    def batch_over(self) -> None:
        """Release what is held for one batch only, such as a CPU turn; also after a batch that failed."""
        ...
