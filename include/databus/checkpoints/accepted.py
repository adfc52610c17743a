"""Outputs that a person accepts as they are now, in a checkpoint and in the plan in flight. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from databus.core.amendments import AcceptedOutputs
from databus.core.checkpoint import Checkpoint, Epoch
from databus.core.plan import Plan


def accepted_checkpoint(stored: Checkpoint, accepted: AcceptedOutputs, epoch: Epoch) -> Checkpoint:
    """Return the checkpoint that knows these outputs as they are now; the flow stands where it stood."""
    ids = {sink: _now(known, accepted.outputs.get(sink, {})) for sink, known in stored.output_ids.items()}
    return replace(stored, epoch=epoch, output_ids=ids)


def accepted_plan(plan: Plan, accepted: AcceptedOutputs) -> Plan:
    """Return the plan that expects these outputs as they are now; its hash, which markers hold, is the same."""
    sinks = {
        sink: replace(pinned, ids=_now(pinned.ids, accepted.outputs.get(sink, {})))
        for sink, pinned in plan.sinks.items()
    }
    return replace(plan, sinks=sinks)


def without_outputs(stored: Checkpoint, gone: Mapping[str, Mapping[str, str | None]]) -> dict[str, Mapping[str, str]]:
    """Return what a checkpoint knows of outputs but of those (sink → output → anything) that a person gave up."""
    return {
        sink: {output: id_ for output, id_ in known.items() if output not in gone.get(sink, {})}
        for sink, known in stored.output_ids.items()
    }


def _now(known: Mapping[str, str], now: Mapping[str, str | None]) -> dict[str, str]:
    new = {output: now.get(output, id_) for output, id_ in known.items()}
    return {output: id_ for output, id_ in new.items() if id_ is not None}
