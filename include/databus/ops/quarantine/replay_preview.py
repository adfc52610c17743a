"""Refusals of a replay, told before it is begun."""

from __future__ import annotations

from collections.abc import Sequence

from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.ops.quarantine.replay_entries import in_replays
from databus.ops.quarantine.replay_range import BatchRanges
from databus.ops.quarantine.replay_refusals import SINK_BEHIND, ReplayRefusal, concerns_its_rows_alone, require_passed
from databus.ops.quarantine.show import held_rows
from databus.records.quarantine import HeldRow
from databus.runtime.context import Services


def refusals(flow: Flow, services: Services, held: Sequence[HeldRow]) -> list[ReplayRefusal]:
    """Return the rows that a replay would refuse because a sink is behind.

    Whether the log still has the ranges of the others, and whether these are known, the replay alone tells.

    Args:
        flow: the flow.
        services: the installation.
        held: the rows that are meant.
    """
    found = []
    with held_rows(flow, services) as rows:
        ranges = BatchRanges(flow.name, services.store, rows, [spec.sink_name for spec in flow.sinks])
        for origin, batch in in_replays(held):
            try:
                require_passed(flow, services.store, ranges.of(origin), batch)
            except DatabusError as error:
                if not concerns_its_rows_alone(error):
                    raise
                if error.code == SINK_BEHIND:
                    found.append(ReplayRefusal(origin, len(batch), error))
    return found
