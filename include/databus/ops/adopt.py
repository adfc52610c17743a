"""Adopt: move a flow's checkpoint to where its sinks' markers stand, after ZooKeeper came back from an older copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from databus.core.checkpoint import Checkpoint, Epoch
from databus.core.errors import ConfigError, MarkerDivergedError
from databus.core.flow import Flow
from databus.core.marks import MarkedSink, SlotMark
from databus.core.offsets import Offset, Ordering
from databus.runtime.catch_up import marks_of, spool_of
from databus.runtime.context import FlowSession, RunIdentity, Services, open_session

Marks = Mapping[str, Sequence[SlotMark | None]]


@dataclass(frozen=True)
class Adoption:
    """Where a flow would go on from.

    Attributes:
        flow: flow name.
        before: the checkpoint as it stands, None for none.
        offset: where reading would begin, exclusive.
        batch: last batch number that would count as used.
        plan_hash: hash of that batch's plan, "" when the slots hold different ones.
        slots: sink → batch of each slot.
        repeated: slots that already hold rows behind `offset`, which would get these rows again; in words.
    """

    flow: str
    before: Checkpoint | None
    offset: Offset
    batch: int
    plan_hash: str
    slots: Mapping[str, tuple[int, ...]]
    repeated: tuple[str, ...]

    @property
    def needed(self) -> bool:
        """Whether the sinks are ahead of the checkpoint at all."""
        return self.before is None or self.before.batch < self.batch


def preview(flow: Flow, services: Services, identity: RunIdentity, *, allow_repeats: bool = False) -> Adoption:
    """Read the markers and say where the flow would go on from; changes nothing.

    Raises:
        MarkerDivergedError: the markers do not say one place.
        ConfigError: no sink of the flow keeps markers.
    """
    with open_session(flow, services, None, identity) as session:
        return _adoption(session, services.store.load(flow.name), allow_repeats=allow_repeats)


def execute(
    flow: Flow, services: Services, identity: RunIdentity, why: str, *, allow_repeats: bool = False
) -> Adoption:
    """Move the checkpoint, under the flow's lease, as an entry of its history; safe to repeat.

    Raises:
        LeaseBusyError: a run holds the flow.
        MarkerDivergedError, ConfigError: see `preview`.
    """
    with open_session(flow, services, None, identity) as session:
        lease = services.store.claim(flow.name, identity.run_id, 0)
        try:
            announced = _take_register(session, lease.epoch)
            found = _adoption(session, services.store.load(flow.name), allow_repeats=allow_repeats)
            if not found.needed and announced <= found.batch:
                return found
            before = found.before
            checkpoint = Checkpoint(
                offset=found.offset,
                batch=max(found.batch, announced),
                epoch=lease.epoch,
                run_id=identity.run_id,
                plan_hash=found.plan_hash if announced <= found.batch else "",
                counts={},
                watermark=before.watermark if before else None,
                updated_at=services.clock.now(),
                slots={**(before.slots if before else {}), **found.slots},
            )
            services.store.adopt(lease, flow.name, checkpoint, why)
            spool_of(session).clear()
            return found
        finally:
            lease.release()


def _take_register(session: FlowSession, epoch: Epoch) -> int:
    """Take the register, whatever epoch it holds; return the batch that was announced last, 0 for none."""
    if session.flow.on_zookeeper_loss == "stop" and spool_of(session).is_empty():
        return 0
    sink = next((s for s in session.sinks.values() if isinstance(s, MarkedSink)), None)
    if sink is None:
        return 0
    register = sink.register()
    try:
        said = register.take(epoch, force=True)
    finally:
        register.close()
    return said.batch if said else 0


def _adoption(session: FlowSession, before: Checkpoint | None, *, allow_repeats: bool) -> Adoption:
    flow, marks = session.flow.name, marks_of(session, before)
    if not marks:
        raise ConfigError(f"flow {flow}: no sink of it keeps markers", hint="There is nothing to adopt.")
    named = {f"{sink}[{slot}]": m for sink, found in marks.items() for slot, m in enumerate(found) if m is not None}
    if not named:
        raise MarkerDivergedError(f"flow {flow}: no slot of its sinks has a marker", hint="There is nothing to adopt.")
    for place, mark in named.items():
        _check_usable(flow, place, mark)
    top = max(named.values(), key=lambda mark: mark.batch)
    uneven = {
        place: mark for place, mark in named.items() if (mark.batch, mark.plan_hash) != (top.batch, top.plan_hash)
    }
    offset = _lowest(flow, named)
    if uneven and not allow_repeats:
        raise MarkerDivergedError(
            f"flow {flow}: its slots stand at different batches: {_listed(named)}",
            hint="The plan that would finish the batch is lost. --allow-repeats goes on from the lowest place: "
            "the slots that are ahead get the rows behind it again.",
        )
    repeated = tuple(f"{p}: {m}" for p, m in named.items() if m.end and m.end.compare(offset) is Ordering.AFTER)
    return Adoption(
        flow=flow,
        before=before,
        offset=offset,
        batch=top.batch,
        plan_hash="" if uneven else top.plan_hash,
        slots={sink: tuple(m.batch if m else 0 for m in found) for sink, found in marks.items()},
        repeated=repeated,
    )


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
