"""What became of a plan: all that its commit writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.checkpoint import Checkpoint
from databus.core.counts import TableCounts
from databus.core.plan import Plan
from databus.core.stored_form import Form

PLAN_OUTCOME = Form("outcome of a plan", "plan checkpoint receipts counts")


@dataclass(frozen=True)
class PlanOutcome:
    """A plan that every sink has confirmed.

    Attributes:
        plan: the plan.
        checkpoint: where the flow stands after it.
        receipts: of all sinks, in JSON.
        counts: per table.
    """

    plan: Plan
    checkpoint: Checkpoint
    receipts: Sequence[Mapping[str, Any]]
    counts: Mapping[str, TableCounts]

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return PLAN_OUTCOME.write(
            {
                "plan": self.plan.to_json(),
                "checkpoint": self.checkpoint.to_json(),
                "receipts": [dict(r) for r in self.receipts],
                "counts": {table: c.to_json() for table, c in sorted(self.counts.items())},
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlanOutcome:
        """Read what `to_json` wrote."""
        data = PLAN_OUTCOME.read(data)
        return cls(
            Plan.from_json(data["plan"]),
            Checkpoint.from_json(data["checkpoint"]),
            tuple(data["receipts"]),
            {table: TableCounts.from_json(c) for table, c in data["counts"].items()},
        )
