"""Outputs that a person accepts as they are now, in a checkpoint and in the plan in flight. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import Plan


def accepted_checkpoint(stored: Checkpoint, accepted: AcceptedOutputs, epoch: Epoch) -> Checkpoint:
    """Return the checkpoint that knows these outputs as they are now; the flow stands where it stood."""
    ids = {sink: _now(known, accepted.outputs.get(sink, {})) for sink, known in stored.output_ids.items()}
    names = {sink: _kept(known, accepted.outputs.get(sink, {})) for sink, known in stored.output_names.items()}
    return replace(stored, epoch=epoch, output_ids=ids, output_names=names)


def accepted_plan(plan: Plan, accepted: AcceptedOutputs) -> Plan:
    """Return the plan that expects these outputs as they are now; its hash, which markers hold, is the same."""
    sinks = dict(plan.sinks)
    for sink, now in accepted.outputs.items():
        if pinned := sinks.get(sink):
            sinks[sink] = replace(pinned, ids=_now(pinned.ids, now), names=_kept(pinned.names, now))
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


def _kept(names: Mapping[str, str], now: Mapping[str, str | None]) -> dict[str, str]:
    return {output: exact for output, exact in names.items() if now.get(output, "") is not None}
