"""Adopt: move a flow's checkpoint to where its sinks' markers stand, after ZooKeeper came back from an older copy.

A sink that is behind has a checkpoint of its own, which is moved to where its own markers stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from databus.checkpoints.rules.amendments import first_of
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import MarkerDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import unreached
from databus.core.positions.offsets import Offset, Ordering
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.known_outputs import still_first
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import SlotMark
from databus.ops.checkpoint.version import require_version
from databus.ops.services import Ends, opened_ends
from databus.runtime.context import RunIdentity, Services
from databus.runtime.takeover.takeover import marks_of
from databus.runtime.zookeeper_loss.policy import marked_sinks, register_of, spool_of


@dataclass(frozen=True)
class Adoption:
    """Adoption: where a flow, or a lagging sink of it, would resume.

    Attributes:
        flow: flow name.
        before: the checkpoint as it stands, None for none.
        offset: where reading would begin, exclusive.
        batch: last batch number that would count as used.
        plan_hash: hash of that batch's plan, "" when the slots hold different ones.
        slots: sink → batch of each slot.
        repeated: slots that already hold rows behind `offset`, which would get these rows again; in words.
        behind: sink that is behind → where it would go on from; sinks without markers are not among them.
    """

    flow: str
    before: Checkpoint | None
    offset: Offset
    batch: int
    plan_hash: str
    slots: Mapping[str, tuple[int, ...]]
    repeated: tuple[str, ...]
    behind: Mapping[str, Adoption] = field(default_factory=dict)

    @property
    def ahead(self) -> bool:
        """Return whether its markers are ahead of the checkpoint."""
        return self.before is None or self.before.batch < self.batch

    @property
    def needed(self) -> bool:
        """Return whether any sink is ahead of its checkpoint."""
        return self.ahead or any(adoption.ahead for adoption in self.behind.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        before = self.before
        return {
            "flow": self.flow,
            "from": f"batch {before.batch}, {before.offset}" if before else "nothing committed",
            "to": f"batch {self.batch}, {self.offset}",
            "sinks_behind": {name: f"batch {own.batch}, {own.offset}" for name, own in self.behind.items()} or None,
            "needed": self.needed,
            "repeated": [*self.repeated, *(text for own in self.behind.values() for text in own.repeated)] or None,
        }


def preview(flow: Flow, services: Services, *, allow_repeats: bool = False) -> Adoption:
    """Read the markers and say where the flow would go on from; changes nothing.

    Raises:
        MarkerDivergedError: the markers do not say one place.
        ConfigError: no sink of the flow keeps markers.
    """
    with opened_ends(flow, services) as ends:
        return _look(flow, services, ends, allow_repeats=allow_repeats)


def execute(
    flow: Flow, services: Services, identity: RunIdentity, why: str, *, allow_repeats: bool = False, seen: str = ""
) -> Adoption:
    """Move the checkpoints, under the flow's lease, as entries of their histories; safe to repeat.

    Args:
        flow: the flow.
        services: the installation.
        identity: who does it.
        why: reason.
        allow_repeats: whether slots that hold more may get rows again.
        seen: version of the checkpoint that the user looked at; "" where any will do.

    Raises:
        LeaseBusyError: a run holds the flow.
        CheckpointMovedError: the flow is not where the user saw it.
        RecordingError: the ledger does not know up to where it knows the history.
        MarkerDivergedError, ConfigError: see `preview`.
    """
    store = services.store
    with opened_ends(flow, services) as ends:
        lease = store.claim(flow.name, identity.run_id, 0)
        try:
            require_version(flow.name, store, seen)
            announced = _take_register(flow, services, ends, lease.epoch)
            found = _look(flow, services, ends, allow_repeats=allow_repeats)
            by = (lease.epoch, identity.run_id)
            pending = store.pending_plan(flow.name)
            if found.ahead or announced > found.batch:
                wanted = found if announced <= found.batch else replace(found, batch=announced, plan_hash="")
                paged = services.recorder.paged(flow.name)
                store.adopt(lease, flow.name, _checkpoint(wanted, services, by, pending), why, paged)
            for sink, own in found.behind.items():
                if own.ahead:
                    alone = store.of_sink(sink)
                    in_flight = alone.pending_plan(flow.name)
                    alone.adopt(lease, flow.name, _checkpoint(own, services, by, in_flight), why)
            if found.needed or announced > found.batch:
                spool_of(services.settings, flow.name).clear()
            return found
        finally:
            lease.release()


def _checkpoint(found: Adoption, services: Services, by: tuple[Epoch, str], pending: Plan | None) -> Checkpoint:
    epoch, run_id = by
    before = found.before
    left = pending.left_behind(found.slots) if pending else ()
    return Checkpoint(
        offset=found.offset,
        batch=found.batch,
        epoch=epoch,
        run_id=run_id,
        plan_hash=found.plan_hash,
        counts={},
        watermark=before.watermark if before else None,
        updated_at=services.clock.now(),
        slots={**(before.slots if before else {}), **found.slots},
        replay_until=unreached(found.offset, before.replay_until if before else None),
        closed_until=unreached(found.offset, before.closed_until if before else None, *left),
        output_ids=before.output_ids if before else {},
        output_names=before.output_names if before else {},
        first=still_first(before.first if before else {}, first_of(pending), {}),
        detached=before.detached if before else None,
    )


def _take_register(flow: Flow, services: Services, ends: Ends, epoch: Epoch) -> int:
    """Take the register, whatever epoch it holds; return the batch that was announced last, 0 for none."""
    if not marked_sinks(ends.sinks):
        return 0
    if flow.on_zookeeper_loss == "stop" and spool_of(services.settings, flow.name).is_empty():
        return 0
    register = register_of(flow.name, ends.sinks)
    try:
        said = register.take(epoch, force=True)
    finally:
        register.close()
    return said.batch if said else 0


def _look(flow: Flow, services: Services, ends: Ends, *, allow_repeats: bool) -> Adoption:
    store, marked = services.store, tuple(marked_sinks(ends.sinks))
    if not marked:
        raise ConfigError(f"flow {flow.name}: no sink of it keeps markers", hint="There is nothing to adopt.")
    behind = {name: store.of_sink(name).load(flow.name) for name in store.sinks_behind(flow.name) if name in marked}
    joined = tuple(name for name in marked if name not in behind)
    own = {name: _adoption(flow, ends, (name,), before, allow_repeats=allow_repeats) for name, before in behind.items()}
    before = store.load(flow.name)
    if joined:
        return replace(_adoption(flow, ends, joined, before, allow_repeats=allow_repeats), behind=own)
    if before is None:
        raise ConfigError(f"flow {flow.name} has no checkpoint", hint="There is nothing to adopt.")
    return Adoption(flow.name, before, before.offset, before.batch, before.plan_hash, {}, (), own)


def _adoption(
    flow: Flow, ends: Ends, names: Sequence[str], before: Checkpoint | None, *, allow_repeats: bool
) -> Adoption:
    marks = {name: marks_of(flow, ends.sinks, name, before) for name in names}
    named = {
        f"{sink}[{slot}]": m
        for sink, found in marks.items()
        for slot, m in enumerate(found)
        if m is not None and not _is_idle(m, before.slots.get(sink, ()) if before else (), slot)
    }
    if not named:
        raise MarkerDivergedError(
            f"flow {flow.name}: no slot of {', '.join(names)} has a marker", hint="There is nothing to adopt."
        )
    for place, mark in named.items():
        _check_usable(flow.name, place, mark)
    top = max(named.values(), key=lambda mark: mark.batch)
    offset = _lowest(flow.name, named)
    # Slots of a sink that has just caught up hold another batch than the others, which ends at the same place.
    apart = any(m.end is not None and m.end.compare(offset) is not Ordering.EQUAL for m in named.values())
    if apart and not allow_repeats:
        raise MarkerDivergedError(
            f"flow {flow.name}: its slots stand at different batches: {_listed(named)}",
            hint="The plan that would finish the batch is lost. --allow-repeats goes on from the lowest place: "
            "the slots that are ahead get the rows behind it again.",
        )
    repeated = tuple(f"{p}: {m}" for p, m in named.items() if m.end and m.end.compare(offset) is Ordering.AFTER)
    return Adoption(
        flow=flow.name,
        before=before,
        offset=offset,
        batch=top.batch,
        plan_hash="" if len({(m.batch, m.plan_hash) for m in named.values()}) > 1 else top.plan_hash,
        slots={sink: tuple(m.batch if m else 0 for m in found) for sink, found in marks.items()},
        repeated=repeated,
    )


def _is_idle(mark: SlotMark, known: Sequence[int], slot: int) -> bool:
    """Return whether a slot took no part in the last batch, and holds what it held: the flow has fewer slots now."""
    return slot < len(known) and mark.batch <= known[slot] < max(known)


def _check_usable(flow: str, place: str, mark: SlotMark) -> None:
    if not mark.whole:
        raise MarkerDivergedError(
            f"flow {flow}, {place}: {mark}: the slot holds a part of a batch whose plan is lost",
            hint="Bring the plan back: a newer copy of ZooKeeper or of the spool has it.",
        )
    if mark.end is None:
        raise MarkerDivergedError(
            f"flow {flow}, {place}: {mark}: its offset did not fit into the marker, or an older version wrote it",
            hint=f"The rows end at {mark.at or 'an unknown place'}: start a flow of another name from there.",
        )


def _lowest(flow: str, named: Mapping[str, SlotMark]) -> Offset:
    ends = [mark.end for mark in named.values() if mark.end is not None]
    lowest = ends[0]
    for end in ends[1:]:
        order = end.compare(lowest)
        if order is Ordering.DIVERGED:
            raise MarkerDivergedError(
                f"flow {flow}: its slots stand at places that cannot be ordered: {_listed(named)}"
            )
        lowest = end if order is Ordering.BEFORE else lowest
    return lowest


def _listed(named: Mapping[str, SlotMark]) -> str:
    return "; ".join(f"{place}: {mark}" for place, mark in named.items())
