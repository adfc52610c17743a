"""Amendments in ZooKeeper: each is one multi that checks the epoch, and leaves an entry in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from databus.checkpoints.batches import MOST_ROUNDS
from databus.checkpoints.beside_holder import ZooKeeperBesideHolder
from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import Node
from databus.checkpoints.connection.transaction import Operation, check, create, delete, set_data
from databus.checkpoints.lagging_sinks import joining
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.reconciling import ZooKeeperCatchingUp
from databus.checkpoints.rules import amendments as amended
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.checkpoints.rules.accepted import accepted_checkpoint, accepted_plan
from databus.checkpoints.rules.lagging_sinks import Joining
from databus.checkpoints.rules.mending import begun_repair, gap_of
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.positions.gaps import Gap
from databus.core.state.amendments import AcceptedOutputs, Amendment, Pause
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease

if TYPE_CHECKING:
    from databus.core.state.checkpoint import HistoryEntry


class ZooKeeperAmendments(ZooKeeperCatchingUp, ZooKeeperBesideHolder):
    """Amendments of the ZooKeeper store; see `databus.core.state.checkpoint_store.Amendments`."""

    def paused(self, flow: str) -> Pause | None:
        """Return who paused the flow, None while it may run.

        After a claim made through this store ZooKeeper is asked once, and again when it says that this changed.
        """
        awaited = self._pauses.get(flow)
        return None if awaited is not None and not awaited.there() else self._pause_read(flow)

    def pause(self, flow: str, who: str, why: str) -> Pause:
        """Pause a flow, also while it runs; returns the pause that was there already, if there was one.

        Raises:
            CheckpointConflictError: the flow has no checkpoint yet.
        """
        wanted = Pause(who, why, self._clock.now())
        paths = self._layout.flow(flow)

        def step(state: FlowState) -> tuple[list[Operation], HistoryEntry | None]:
            found = self._pause_read(flow)
            if found is not None:
                return [], None
            entry = self._said(state, "pause", wanted)
            return [create(paths.paused, encode(wanted.to_json()))], entry

        self._beside_the_holder(flow, step, f"the pause of flow {flow}")
        return self._pause_read(flow) or wanted

    def resume(self, flow: str, who: str, why: str) -> Pause | None:
        """End a pause and return it; None when the flow was not paused."""
        paths, said = self._layout.flow(flow), Pause(who, why, self._clock.now())
        former: list[Pause] = []

        def step(state: FlowState) -> tuple[list[Operation], HistoryEntry | None]:
            node = self._nodes.read(paths, paths.paused, sync=True)[0]
            found = _pause(node, flow)
            if node is None or found is None:
                return [], None
            former[:] = [found]
            return [delete(paths.paused, node.version)], self._said(state, "resume", said)

        self._beside_the_holder(flow, step, f"the end of the pause of flow {flow}")
        return former[0] if former else None

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps, oldest first; none for a flow that never had one."""
        paths = self._layout.flow(flow)
        nodes = self._nodes.children(paths, paths.gaps)
        return tuple(decode_as(node.data, f"gaps of flow {flow}", Gap.from_json) for node in nodes if node)

    def note_gap(self, flow: str, lease: Lease, gap: Gap) -> Gap:
        """Name a gap before which the flow stops, undecided; the same gap again is the same entry.

        Raises:
            StaleEpochError: another run claimed the flow since.
        """
        paths = self._layout.flow(flow)
        self._session.ensure(paths.gaps)
        lost: list[Exception] = []
        for state in self._looks(flow):
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            named, operation = self._gap_write(flow, gap)
            if operation is None:
                return named
            cause = self._send(flow, [check(paths.epoch, state.epoch_version), operation], f"a gap of flow {flow}")
            if cause is None:
                return named
            lost.append(cause)
        raise self._gave_up(f"flow {flow}: naming a gap", lost, outrun=len(lost) >= MOST_ROUNDS) from lost[-1]

    def amend(self, flow: str, lease: Lease, amendment: Amendment) -> Checkpoint:
        """Move the checkpoint by hand in one atomic step; what this epoch has amended already stays as it is.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the amendment does not fit what is stored, or the flow has not run yet.
            CheckpointUnavailableError: no answer: the next `load` shows whether it was applied.
        """
        paths = self._layout.flow(flow)
        if amendment.gap is not None:
            self._session.ensure(paths.gaps)
        lost: list[Exception] = []
        for state in self._looks(flow):
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            previous, node = amended.require_started(flow, state.checkpoint), state.checkpoint_node
            if amended.is_amended(previous, amendment, lease.epoch):
                return previous
            sinks = {sink: self._nodes.state(flow, paths.of_sink(sink), sync=True) for sink in self._behind(paths)}
            stands = previous, state.plan
            behind = [n for n, own in sinks.items() if not amended.is_caught_up((own.checkpoint, own.plan), stands)]
            amended.check_amendment(flow, amendment, *stands, behind)
            if node is None:
                raise CheckpointConflictError(f"flow {flow}: no checkpoint is stored")
            by = Joining(lease.epoch, amendment.who, self._clock.now())
            joins: list[Operation] = []
            number, at = state.history_number, {sink: own.checkpoint for sink, own in sinks.items()}
            for sink, previous in amended.taken_along(flow, previous, at, by):  # noqa: B020 - as it grows
                number += 1
                joins += joining(sinks[sink], paths, (sink, number), previous)
            checkpoint = amended.amended_checkpoint(previous, amendment, lease.epoch, by.now)
            number += 1
            entry = entries.amendment_entry(number, previous, checkpoint, amendment)
            passed = gap_of(amendment)
            named, gap = self._gap_write(flow, passed) if passed else (None, None)
            begun = self._repair_writes(state, amendment, named)
            operations = [
                check(paths.epoch, state.epoch_version),
                *joins,
                *state.writes(paths, state.stored(checkpoint, number)),
                *([delete(paths.plan, state.plan_node.version)] if state.plan_node else []),
                create(paths.history_entry(number), encode(entry.to_json())),
                *([gap] if gap else []),
                *begun,
                *self._trim(flow, number, lost[-1] if lost else None),
            ]
            cause = self._send(flow, operations, f"the {amendment.action} of flow {flow}")
            if cause is None:
                return checkpoint
            lost.append(cause)
        raise self._gave_up(f"flow {flow}: the {amendment.action}", lost, outrun=len(lost) >= MOST_ROUNDS) from lost[-1]

    def amend_sink(self, flow: str, lease: Lease, sink: str, amendment: Amendment) -> Checkpoint:
        """Move a sink that is behind forward by hand in one atomic step (see `Amendments.amend_sink`).

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the amendment does not fit what is stored, or the sink is not behind.
            CheckpointUnavailableError: no answer: the sink's next `load` shows whether it was applied.
        """
        paths = self._layout.flow(flow)
        own = paths.of_sink(sink)
        if amendment.gap is not None:
            self._session.ensure(paths.gaps)
        lost: list[Exception] = []
        for state in self._looks(flow):
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            alone = self._nodes.state(flow, own, sync=True)
            previous = amended.require_behind(flow, sink, alone.checkpoint)
            if amended.is_amended(previous, amendment, lease.epoch):
                return previous
            flow_at = amended.require_started(flow, state.checkpoint)
            amended.check_sink_amendment(flow, sink, amendment, (previous, alone.plan), flow_at)
            checkpoint = amended.amended_checkpoint(previous, amendment, lease.epoch, self._clock.now())
            number = alone.history_number + 1
            entry = entries.amendment_entry(number, previous, checkpoint, amendment)
            gap = self._gap_write(flow, amendment.gap)[1] if amendment.gap else None
            operations = [
                check(paths.epoch, state.epoch_version),
                *alone.writes(own, alone.stored(checkpoint, number)),
                *([delete(own.plan, alone.plan_node.version)] if alone.plan_node else []),
                create(own.history_entry(number), encode(entry.to_json())),
                *([gap] if gap else []),
            ]
            self._left.clear()
            what = f"the {amendment.action} of sink {sink} of flow {flow}"
            cause = self._nodes.send(paths, operations, what)
            if cause is None:
                return checkpoint
            lost.append(cause)
        raise self._gave_up(f"flow {flow}: the {amendment.action} of sink {sink}", lost) from lost[-1]

    def accept_outputs(self, flow: str, lease: Lease, accepted: AcceptedOutputs) -> Checkpoint:
        """Know outputs as they are now, in checkpoint and plan in flight (see `Amendments.accept_outputs`).

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointUnavailableError: no answer: the same again shows whether it was applied.
        """
        paths, now = self._paths(flow), self._clock.now()
        lost: list[Exception] = []
        for state in self._looks(flow):
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            previous, node = amended.require_started(flow, state.checkpoint), state.checkpoint_node
            checkpoint = accepted_checkpoint(previous, accepted, lease.epoch)
            plan = accepted_plan(state.plan, accepted) if state.plan is not None else None
            if node is None or (checkpoint == replace(previous, epoch=checkpoint.epoch) and plan == state.plan):
                return previous
            number = state.history_number + 1
            entry = entries.accept_entry(number, checkpoint, plan, accepted, now)
            operations = [
                check(paths.epoch, state.epoch_version),
                *state.writes(paths, state.stored(checkpoint, number)),
                create(paths.history_entry(number), encode(entry.to_json())),
                *self._trim(flow, number, lost[-1] if lost else None),
            ]
            if plan is not None and state.plan_node is not None:
                operations.append(set_data(paths.plan, encode(plan.to_json()), state.plan_node.version))
            cause = self._send(flow, operations, f"the outputs of flow {flow}")
            if cause is None:
                return checkpoint
            lost.append(cause)
        raise self._gave_up(f"flow {flow}: accepting its outputs", lost, outrun=len(lost) >= MOST_ROUNDS) from lost[-1]

    def _pause_read(self, flow: str) -> Pause | None:
        paths = self._layout.flow(flow)
        return _pause(self._nodes.read(paths, paths.paused, sync=True)[0], flow)

    def _repair_writes(self, state: FlowState, amendment: Amendment, gap: Gap | None) -> list[Operation]:
        """Return what begins the snapshot that mends what an amendment passes over; one that is unfinished ends."""
        if amendment.repair is None or gap is None:
            return []
        state = self._with_gaps(self._with_snapshot(state))
        paths = self._layout.flow(state.flow)
        begun = begun_repair(state.flow, state.snapshot, amendment.repair, gap.number)
        content, node = encode(begun.to_json()), state.snapshot_node
        write = set_data(paths.snapshot, content, node.version) if node else create(paths.snapshot, content)
        others = replace(begun, mends=tuple(number for number in begun.mends if number != gap.number))
        return [write, *state.mending_writes(paths, others)]

    def _gap_write(self, flow: str, gap: Gap) -> tuple[Gap, Operation | None]:
        """Return the gap with its number, and what writes it; None when it stands there as it is."""
        paths = self._layout.flow(flow)
        nodes = self._nodes.children(paths, paths.gaps)
        found = [(node, decode_as(node.data, f"gaps of flow {flow}", Gap.from_json)) for node in nodes if node]
        named, known = amended.numbered(gap, [other for _, other in found])
        if not known:
            return named, create(paths.gap(named.number), encode(named.to_json()))
        node, other = next(pair for pair in found if pair[1].number == named.number)
        if other.decision == named.decision and other.end.to_json() == named.end.to_json():
            return other, None
        return named, set_data(paths.gap(named.number), encode(named.to_json()), node.version)


def _pause(node: Node | None, flow: str) -> Pause | None:
    return decode_as(node.data, f"pause of flow {flow}", Pause.from_json) if node else None
