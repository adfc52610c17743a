"""Outcome of a batch: everything its commit writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from databus.core.batches.counts import TableCounts
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan
from databus.core.stored_form import Form

PLAN_OUTCOME = Form("outcome of a plan", "plan checkpoint receipts counts", "outputs_of")
"""`outputs_of` is the digest of what the checkpoint before it knows of outputs, where this one knows the same: 67 bytes
for each topic that was ever written to are then left out."""


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

    def to_json(self, after: Checkpoint) -> dict[str, Any]:
        """Return versioned JSON, to be read by who knows the checkpoint before it."""
        same = any(after.outputs) and self.checkpoint.outputs == after.outputs
        checkpoint = replace(self.checkpoint, output_ids={}, output_names={}) if same else self.checkpoint
        return PLAN_OUTCOME.write(
            {
                "plan": self.plan.to_json(),
                "checkpoint": checkpoint.to_json(),
                "receipts": [dict(r) for r in self.receipts],
                "counts": {table: c.to_json() for table, c in sorted(self.counts.items())},
                **({"outputs_of": _digest(after)} if same else {}),
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any], after: Checkpoint) -> PlanOutcome:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or the checkpoint before it knows other outputs than it did then.
        """
        data = PLAN_OUTCOME.read(data)
        checkpoint = Checkpoint.from_json(data["checkpoint"])
        if "outputs_of" in data:
            if data["outputs_of"] != (found := _digest(after)):
                raise CheckpointFormatError(
                    f"stored {PLAN_OUTCOME.name}, batch {checkpoint.batch}: it goes on from outputs with the digest "
                    f"{data['outputs_of']}, and batch {after.batch} has {found}",
                    hint="The checkpoint was changed beside its flow, or brought back as of another time: bring both "
                    "back as of the same, or go on from the sinks' markers (databus checkpoint adopt).",
                )
            checkpoint = replace(checkpoint, output_ids=after.output_ids, output_names=after.output_names)
        return cls(
            Plan.from_json(data["plan"]),
            checkpoint,
            tuple(data["receipts"]),
            {table: TableCounts.from_json(c) for table, c in data["counts"].items()},
        )


def _digest(checkpoint: Checkpoint) -> str:
    return hashlib.sha256(json.dumps(checkpoint.outputs_json(), sort_keys=True).encode()).hexdigest()[:16]
