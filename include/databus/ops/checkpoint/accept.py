"""Accept outputs as they are now: a flow goes on after a topic that it wrote to was deleted on purpose."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.protocols.optional_sink import PinningSink
from databus.core.protocols.sink import Sink
from databus.core.state.amendments import AcceptedOutputs
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import CheckpointStore, Lease
from databus.core.state.known_outputs import ChangedOutput
from databus.core.state.plan import Plan
from databus.ops.checkpoint.amend import Attribution, claimed
from databus.ops.checkpoint.preview import changed_of
from databus.ops.checkpoint.version import require_version
from databus.ops.quarantine.show import replays_of
from databus.ops.services import Ends, opened_ends
from databus.runtime.context import Services
from databus.runtime.takeover.takeover import ClaimedFlow, take_over

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChangedSinkOutputs:
    """Outputs of one sink that are not those that were written to.

    Attributes:
        writer: name of what knows them: the flow, a backfill of it, its replays of quarantined rows.
        sink: sink name.
        outputs: which.
        behind: whether the sink is behind the flow, with a checkpoint of its own.
    """

    writer: str
    sink: str
    outputs: tuple[ChangedOutput, ...]
    behind: bool


def preview(flow: Flow, services: Services, forget: Sequence[str] = ()) -> list[ChangedSinkOutputs]:
    """Say which outputs would be accepted; changes nothing.

    Args:
        flow: the flow.
        services: the installation.
        forget: further outputs, of which all is to be forgotten: a table of another name may have them.

    Raises:
        ConfigError: one of these is not known.
        SinkUnavailableError: a sink does not answer.
    """
    with opened_ends(flow, services) as ends:
        found = [found for name in _writers(flow, services) for found, _ in _looked(name, services, ends, forget)]
    _require_known(flow, forget, found)
    return found


def execute(flow: Flow, services: Services, said: Attribution, forget: Sequence[str] = ()) -> list[ChangedSinkOutputs]:
    """Accept them, each under its writer's lease; safe to repeat.

    What a plan in flight needs and is not there is made: the plan goes on where it stands.

    Args:
        flow: the flow.
        services: the installation.
        said: who and why.
        forget: see `preview`.

    Raises:
        ConfigError: an output to forget is not known; nothing was changed.
        LeaseBusyError: a run holds the flow, or a backfill or replay of it.
        CheckpointMovedError: the flow is not where the user saw it.
        MarkersAheadError: sinks hold batches that ZooKeeper does not know.
        SinkError: a sink does not answer, or refuses a topic.
    """
    accepted: list[ChangedSinkOutputs] = []
    expected = preview(flow, services, forget)
    with opened_ends(flow, services) as ends:
        for name in dict.fromkeys(found.writer for found in expected):
            lease = claimed(name, flow, services, f"accept by {said.who}")
            try:
                if name == flow.name:
                    take_over(ClaimedFlow(flow, services.settings, services.store, ends.sinks, lease))
                    require_version(flow.name, services.store, said.seen)
                for found, place in _looked(name, services, ends, forget):
                    _accept(found, place, (lease, ends.sinks[found.sink]), said, forget)
                    accepted.append(found)
            finally:
                lease.release()
    return accepted


@dataclass(frozen=True)
class _OutputsPlace:
    """Output place: a store, or the view of a lagging sink, and the outputs it knows."""

    store: CheckpointStore
    checkpoint: Checkpoint
    plan: Plan | None


def _writers(flow: Flow, services: Services) -> list[str]:
    """Return the names of all that write to the flow's outputs and have a checkpoint."""
    backfills = services.backfills.backfills(flow.name) if services.backfills is not None else ()
    pieces = [backfill.piece_name(number) for backfill in backfills for number in range(len(backfill.pieces))]
    return [flow.name, replays_of(flow), *pieces]


def _require_known(flow: Flow, forget: Sequence[str], found: Sequence[ChangedSinkOutputs]) -> None:
    unknown = sorted({*forget} - {output.output for one in found for output in one.outputs})
    if unknown:
        raise ConfigError(
            f"flow {flow.name} knows no output {', '.join(unknown)}",
            hint=f"`databus checkpoint show {flow.name} -o json` names those that it has written to.",
        )


def _looked(
    name: str, services: Services, ends: Ends, forget: Sequence[str]
) -> Iterator[tuple[ChangedSinkOutputs, _OutputsPlace]]:
    behind = services.store.sinks_behind(name)
    views = {"": services.store, **{sink: services.store.of_sink(sink) for sink in behind}}
    for view, store in views.items():
        checkpoint = store.load(name)
        if checkpoint is None:
            continue
        place = _OutputsPlace(store, checkpoint, store.pending_plan(name))
        mine = {of: sink for of, sink in ends.sinks.items() if (of if of in behind else "") == view}
        changed = changed_of(mine, checkpoint, place.plan)
        for sink in mine:
            known = {**checkpoint.output_names.get(sink, {}), **checkpoint.output_ids.get(sink, {})}
            ids, gone = checkpoint.output_ids.get(sink, {}), {output.output for output in changed.get(sink, ())}
            stands = (ChangedOutput(o, ids.get(o, ""), ids.get(o, "")) for o in forget if o in known and o not in gone)
            if outputs := (*changed.get(sink, ()), *stands):
                yield ChangedSinkOutputs(name, sink, outputs, bool(view)), place


def _accept(
    found: ChangedSinkOutputs, place: _OutputsPlace, by: tuple[Lease, Sink], said: Attribution, forget: Sequence[str]
) -> None:
    lease, sink = by
    now = {output.output: output.found for output in found.outputs}
    plan = place.plan if place.plan and found.sink in place.plan.sinks else None
    planned = plan.sinks[found.sink].partitions if plan is not None else {}
    written = sink.written_of(plan) if plan is not None and isinstance(sink, PinningSink) else None
    needed = {output: planned[output] for output, id_ in now.items() if id_ is None and output in planned}
    if needed and isinstance(sink, PinningSink):
        now |= sink.make_again(needed)
    now |= dict.fromkeys(output for output in now if output in forget)
    gone = {output.output: now[output.output] for output in found.outputs if output.found != output.known}
    told = {} if written is None else {found.sink: written}
    accepted = AcceptedOutputs(said.who, said.why, {found.sink: now}, {found.sink: gone}, told)
    place.store.accept_outputs(found.writer, lease, accepted)
    for output in found.outputs:
        log.warning("flow %s, sink %s: %s: accepted by %s: %s", found.writer, found.sink, output, said.who, said.why)


def facts_of(found: Iterable[ChangedSinkOutputs]) -> list[dict[str, Any]]:
    """Return changed outputs as plain JSON, one after the other."""
    return [
        {"flow": one.writer, "sink": one.sink, **changed.to_json(), "behind": one.behind}
        for one in found
        for changed in one.outputs
    ]
