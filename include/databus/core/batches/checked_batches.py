"""Batches of which a check holds rows, as the quarantine tells of them."""

from __future__ import annotations

from dataclasses import dataclass

from databus.core.positions.offsets import OffsetRange

BatchPlan = tuple[int, str]
"""Number of a batch and hash of its plan, "" where that was not kept: a flow that is begun anew, after its checkpoint
was lost, gives numbers again."""


@dataclass(frozen=True)
class CheckedBatch:
    """A batch of which a check holds rows.

    Attributes:
        plan: its number and the hash of its plan.
        range: what its report tells, None without.
        paged: whether the flow's ledger has a page of its commit; that of an earlier life has not.
    """

    plan: BatchPlan
    range: OffsetRange | None
    paged: bool
