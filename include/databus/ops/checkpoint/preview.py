"""Amendment preview: its effect, looked at before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from databus.checkpoints.rules.amendments import is_caught_up, require_all_joined
from databus.checkpoints.rules.lagging_sinks import Standing
from databus.core.amounts import counted
from databus.core.batches.receipts import outputs_told
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.errors.root import DatabusError
from databus.core.errors.source import OffsetPurgedError, SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offset_ranges import later, overlap
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.protocols.optional_sink import PinningSink
from databus.core.protocols.sink import Sink
from databus.core.protocols.source import Source
from databus.core.state.amendments import Action, SinkEffect
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.core.state.checkpoint_store import LaggingSinks
from databus.core.state.known_outputs import ChangedOutput
from databus.core.state.plan import Plan
from databus.core.state.snapshot import Snapshot
from databus.ops.checkpoint.repair import repair_facts, repair_of
from databus.ops.checkpoint.targets import ALL_HISTORY, Target, resolve
from databus.ops.services import Ends
from databus.runtime.context import Services

_NEW_LOG = (
    "what the former log held behind the flow's place is given up and named as a gap; this log is read from there on, "
    "under event ids of its own and with versions above all earlier ones. Compare the tables with the sinks afterwards"
)


@dataclass(frozen=True)
class PassedHistory:
    """Passed range between two places, as far as the history records.

    Attributes:
        batches: committed batches that lie in it, whole or in part.
        rows: rows they read, by table.
        outputs: sink → outputs they wrote to.
        written: sink → records they wrote.
        complete: whether the history records all of it.
        skipped: whether the flow was moved forward over a part of it.
    """

    batches: int
    rows: Mapping[str, int]
    outputs: Mapping[str, tuple[str, ...]]
    written: Mapping[str, int]
    complete: bool
    skipped: bool = False


@dataclass(frozen=True)
class CheckpointMove:
    """A move of a checkpoint that was looked at, not made.

    Attributes:
        flow: flow name.
        action: what is asked for.
        back: whether it goes back.
        start: where the flow stands.
        end: where it would stand.
        bytes: log bytes between the two, None when that cannot be determined.
        passed: what was committed between the two; of a move forward nothing.
        pending: the plan in flight, which is closed first.
        half_written: sinks that hold a part of it.
        effects: what each sink's readers would see.
        next_batch: number of the next batch.
        changed: sink → outputs that were deleted since they were written to; the move accepts them as they are now.
        new_log: whether it goes onto a log that replaced the flow's.
        snapshot: what it means for a snapshot that is unfinished; "" without one.
        repair: snapshot of all tables that begins with it and mends what it passes over; None where none was asked for.
    """

    flow: str
    action: Action
    back: bool
    start: Offset
    end: Offset
    bytes: int | None
    passed: PassedHistory
    pending: Plan | None
    half_written: tuple[str, ...]
    effects: tuple[SinkEffect, ...]
    next_batch: int
    changed: Mapping[str, tuple[ChangedOutput, ...]] = field(default_factory=dict)
    new_log: bool = False
    snapshot: str = ""
    repair: Snapshot | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON for people and programs."""
        return {
            "flow": self.flow,
            "action": self.action,
            "direction": "back" if self.back else "forward",
            "from": str(self.start),
            "to": str(self.end),
            "to_offset": self.end.to_json(),
            **({"new_log": _NEW_LOG} if self.new_log else {}),
            "bytes": self.bytes,
            "batches": self.passed.batches if self.back else None,
            "rows": dict(self.passed.rows) if self.back else None,
            "rows_complete": self.passed.complete if self.back else None,
            "plan_closed": f"batch {self.pending.batch} {self.pending.range}" if self.pending else None,
            "half_written": list(self.half_written),
            "next_batch": self.next_batch,
            "sinks": [effect.to_json() for effect in self.effects],
            "outputs_accepted": [f"{sink}: {output}" for sink, found in self.changed.items() for output in found],
            **({"snapshot": self.snapshot} if self.snapshot else {}),
            **({"repair": repair_facts(self.flow, self.repair)} if self.repair else {}),
        }


def look(
    flow: Flow, services: Services, ends: Ends, action: Action, target: Target, repair: bool = False
) -> CheckpointMove:
    """Resolve a target and say what going there does; changes nothing.

    Args:
        flow: the flow.
        services: the installation's services.
        ends: source and sinks, opened.
        action: what is asked for.
        target: where to go.
        repair: whether a snapshot of all tables is to mend what is passed over.

    Raises:
        CheckpointConflictError: the flow has not run yet, a sink stands behind the others, or the place does not lie in
            the action's direction.
        ConfigError, SourceError: the target is no place of the source's log, or the tables cannot be read for a repair.
    """
    checkpoint, pending = services.store.load(flow.name), services.store.pending_plan(flow.name)
    if checkpoint is None:
        raise CheckpointConflictError(
            f"flow {flow.name} has no checkpoint yet, so there is nothing to change",
            hint="Its first run begins where `start` of its source says.",
        )
    _require_all_joined(flow, services, action, target, (checkpoint, pending))
    end = resolve(flow, services, ends.source, checkpoint, target)
    order = end.compare(checkpoint.offset)
    back = order is Ordering.BEFORE
    fitting = {"rewind": (Ordering.BEFORE,), "skip": (Ordering.AFTER,)}.get(action, (Ordering.BEFORE, Ordering.AFTER))
    if order not in fitting:
        lies = "is where the flow stands" if order is Ordering.EQUAL else f"lies {order.value} {checkpoint.offset}"
        raise CheckpointConflictError(
            f"flow {flow.name}: cannot {action} to {end}, which {lies}",
            hint=f"rewind goes back, skip goes forward; see `databus checkpoint show {flow.name}`.",
        )
    passed = _NOTHING
    if back:
        passed = _passed(services.store.history(flow.name, ALL_HISTORY), checkpoint, end)
        own = {name: services.store.of_sink(name).history(flow.name, ALL_HISTORY) for name in ends.sinks}
        passed = _with_own_batches(passed, own, OffsetRange(end, checkpoint.offset))
    half = tuple(
        name for name, sink in ends.sinks.items() if pending and name in pending.sinks and sink.wrote_any_of(pending)
    )
    return CheckpointMove(
        flow=flow.name,
        action=action,
        back=back,
        start=checkpoint.offset,
        end=end,
        bytes=None if target.new_log else _bytes(ends.source, checkpoint.offset, end),
        passed=passed,
        pending=pending,
        half_written=half,
        effects=tuple(_effect(name, ends, passed, back=back) for name in ends.sinks),
        next_batch=1 + max(checkpoint.batch, pending.batch if pending else 0),
        changed=changed_of(ends.sinks, checkpoint, pending),
        new_log=target.new_log,
        snapshot=_of_snapshot(services.store.snapshot(flow.name), back=back, repair=repair),
        repair=repair_of(flow, services, ends.source) if repair else None,
    )


def _of_snapshot(snapshot: Snapshot | None, *, back: bool, repair: bool) -> str:
    """Say what a move means for a snapshot that is unfinished; it goes on from its cursor unless one for repair begins.

    Its chunks were read from views at or behind the places where the flow stood then. So a log that is replayed from
    an earlier place ends at the same rows; one that is passed over may hold changes of rows that were delivered before.
    """
    if snapshot is None or not snapshot.unfinished:
        return ""
    if repair:
        return f"snapshot {snapshot.number} is unfinished and ends: all tables are read anew"
    goes_on = f"snapshot {snapshot.number} is unfinished and goes on where it stands"
    if back:
        return f"{goes_on}: rows that it has delivered get older states again until the log is replayed"
    return (
        f"{goes_on}: rows that it has delivered lack the changes that are passed over; to read them again, give "
        "--repair, or cancel it and begin another"
    )


def lacking(flow: str, store: LaggingSinks, stands: Standing) -> list[str]:
    """Return the sinks that are behind and keep a flow from being moved: they do not stand where it stands."""
    behind = {name: store.of_sink(name) for name in store.sinks_behind(flow)}
    return [name for name, own in behind.items() if not is_caught_up((own.load(flow), own.pending_plan(flow)), stands)]


def _require_all_joined(flow: Flow, services: Services, action: Action, target: Target, stands: Standing) -> None:
    """Refuse to move a flow of which sinks stand behind, before markers are closed or anything is deleted for it."""
    behind = lacking(flow.name, services.store, stands)
    if behind and target.new_log:
        raise CheckpointConflictError(
            f"flow {flow.name}: cannot go onto a new log while sinks stand behind the others: {', '.join(behind)}",
            hint="Their rows were in the former log, which nothing can read any more. Nothing was moved or deleted. "
            f"`databus checkpoint skip {flow.name} --sink {behind[0]}` gives them up, then repeat this. "
            "See docs/runbooks/log-replaced.md.",
        )
    require_all_joined(flow.name, action, behind)


def changed_of(
    sinks: Mapping[str, Sink], checkpoint: Checkpoint, pending: Plan | None
) -> dict[str, tuple[ChangedOutput, ...]]:
    """Return sink → outputs that checkpoint or plan in flight know and that are gone or others now.

    Raises:
        SinkError: a sink cannot be asked.
    """
    changed: dict[str, tuple[ChangedOutput, ...]] = {}
    for name, sink in sinks.items():
        planned = pending.sinks[name].ids if pending is not None and name in pending.sinks else {}
        known = {**checkpoint.output_ids.get(name, {}), **planned}
        if known and isinstance(sink, PinningSink) and (found := tuple(sink.changed(known))):
            changed[name] = found
    return changed


def passed_over(history: Sequence[HistoryEntry], start: Offset, end: Offset) -> PassedHistory:
    """Sum up what was committed between `start` and an earlier `end`, along the way that led to `start`.

    Moves forward are part of that way. A batch that was gone back behind counts where such a move then passed it over.
    """
    batches, rows, written = 0, dict[str, int](), dict[str, int]()
    outputs: dict[str, dict[str, None]] = {}
    jumped: list[OffsetRange] = []
    place, known = start, True
    for entry in history:  # newest first
        on_way = not _reached(place, end) and entry.offset.compare(place) is Ordering.EQUAL
        if on_way and entry.action == "start":
            place = end  # nothing before it was ever moved
        before, committed = entry.previous, entry.action == "commit"
        if before is None or not (committed or entry.offset.compare(before) is Ordering.AFTER):
            continue
        if committed and (on_way or _in_any(jumped, OffsetRange(before, entry.offset))):
            batches += 1
            for table, counts in entry.counts.items():
                rows[table] = rows.get(table, 0) + counts.read
            for receipt in entry.receipts:
                sink = str(receipt["sink"])
                written[sink] = written.get(sink, 0) + int(receipt["written"])
                outputs.setdefault(sink, {}).update(outputs_told(receipt))
        elif on_way:
            jumped.append(OffsetRange(later(before, end), entry.offset))
            known = known and entry.action != "adopt"  # then the sinks hold its rows, and no entry counts them
        if on_way:
            place = before
    named = {sink: tuple(names) for sink, names in outputs.items()}
    return PassedHistory(batches, rows, named, written, known and _reached(place, end), skipped=bool(jumped))


def _reached(place: Offset, end: Offset) -> bool:
    return place.compare(end) in {Ordering.BEFORE, Ordering.EQUAL}


def _in_any(jumped: Sequence[OffsetRange], moved: OffsetRange) -> bool:
    try:
        return any(overlap(one, moved) for one in jumped)
    except SourceDivergedError:
        return True  # nothing shows that it does not


def _passed(history: Sequence[HistoryEntry], checkpoint: Checkpoint, end: Offset) -> PassedHistory:
    """Return what a move back passes; where the history lacks some of it, any known output may have got rows."""
    passed = passed_over(history, checkpoint.offset, end)
    if passed.complete:
        return passed
    outputs = {sink: dict.fromkeys(names) for sink, names in passed.outputs.items()}
    for entry in history:
        for receipt in entry.receipts:
            outputs.setdefault(str(receipt["sink"]), {}).update(outputs_told(receipt))
    for sink, ids in checkpoint.output_ids.items():
        outputs.setdefault(sink, {}).update(dict.fromkeys(ids))
    return replace(passed, outputs={sink: tuple(names) for sink, names in outputs.items()})


def _with_own_batches(
    passed: PassedHistory, own: Mapping[str, Sequence[HistoryEntry]], moved: OffsetRange
) -> PassedHistory:
    """Add what sinks got in batches of their own while they were behind: the flow's history does not count it."""
    written, outputs = dict(passed.written), {sink: dict.fromkeys(names) for sink, names in passed.outputs.items()}
    for sink, history in own.items():
        for entry in history:
            if entry.action != "commit" or entry.previous is None:
                continue
            if not _in_any([moved], OffsetRange(entry.previous, entry.offset)):
                continue
            for receipt in entry.receipts:
                written[sink] = written.get(sink, 0) + int(receipt["written"])
                outputs.setdefault(sink, {}).update(outputs_told(receipt))
    named = {sink: tuple(names) for sink, names in outputs.items()}
    return replace(passed, written=written, outputs=named)


_NOTHING = PassedHistory(0, {}, {}, {}, complete=True)


def _effect(name: str, ends: Ends, passed: PassedHistory, *, back: bool) -> SinkEffect:
    effect = ends.sinks[name].effect_of(passed.outputs.get(name, ()), back=back)
    if not back:
        return effect
    more = "" if passed.complete else " and more (the history does not record all of it)"
    count = f"up to {counted(passed.written.get(name, 0), 'record')}{more}"
    first = ", and what was skipped for the first time" if passed.skipped else ""
    return SinkEffect(name, f"{count} again{first}: {effect.effect}", effect.refused)


def _bytes(source: Source, start: Offset, end: Offset) -> int | None:
    try:
        behind, then = source.lag(start).bytes, source.lag(end).bytes
    except OffsetPurgedError:
        return None
    except DatabusError as error:
        if error.retryable:
            raise
        return None
    return None if behind is None or then is None else abs(then - behind)
