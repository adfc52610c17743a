"""Lagging sinks in ZooKeeper: detach and join as one multi each (ADR 16)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Self

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.transaction import Operation, RefusedError, check, create, delete
from databus.checkpoints.flows import ZooKeeperFlows
from databus.checkpoints.nodes.flow_state import FlowState
from databus.checkpoints.paths import FlowPaths
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import lagging_sinks as transitions
from databus.checkpoints.rules.plans import check_epoch
from databus.core.errors.checkpoint import CheckpointConflictError, CheckpointUnavailableError
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease

_ROUNDS = 4

Round = tuple[Checkpoint, Sequence[Operation]]
"""The checkpoint that a round leads to, and what has to be written for it; nothing when it is there already."""


class ZooKeeperLaggingSinks(ZooKeeperFlows):
    """Lagging sinks of the ZooKeeper store; see `databus.core.state.checkpoint_store.LaggingSinks`."""

    def of_sink(self, sink: str) -> Self:
        """Return a view in which checkpoint, plan and history are those of a sink that is behind."""
        view = copy.copy(self)
        view._sink = sink  # noqa: SLF001 - a view of our own
        return view

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the names of the sinks that have a checkpoint of their own, sorted."""
        return self._behind(self._layout.flow(flow))

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of the flow's checkpoints and plans, those of sinks behind included."""
        paths = self._layout.flow(flow)
        places = [paths, *(paths.of_sink(name) for name in self._behind(paths))]
        states = [self._nodes.state("", place, sync=True) for place in places]
        return max(
            (kept.batch for state in states for kept in (state.checkpoint, state.plan) if kept is not None), default=0
        )

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Create the sink's checkpoint where the flow's stands, and its plan when the one in flight names the sink.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the flow has no checkpoint, or the sink is behind elsewhere.
        """
        self._left.clear()
        paths = self._layout.flow(flow)
        own = paths.of_sink(sink)
        self._session.ensure(own.history)

        def look(flows: FlowState, sinks: FlowState) -> Round:
            checkpoint, plan = transitions.detached(flow, sink, flows.checkpoint, flows.plan, lease.epoch)
            if sinks.checkpoint is not None:
                transitions.check_detached(flow, sink, checkpoint, sinks.checkpoint)
                return sinks.checkpoint, ()
            number = self._next_number(own)
            entry = entries.entry(number, "detach", why, None, checkpoint)
            operations = [check(paths.checkpoint, _version(flows, "checkpoint"))]
            if flows.plan_node is not None:
                operations.append(check(paths.plan, flows.plan_node.version))
            operations += sinks.writes(own, sinks.stored(checkpoint, number))
            if plan is not None:
                operations.append(create(own.plan, encode(plan.to_json())))
            operations.append(create(own.history_entry(number), encode(entry.to_json())))
            return checkpoint, operations

        return self._lagging_rounds(paths, flow, lease, own, look, f"the detachment of sink {sink}")

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Move the sink's slots into the flow's checkpoint and delete the sink's own.

        Raises:
            StaleEpochError: another run claimed the flow since.
            CheckpointConflictError: the two do not stand at one place, or a plan is in flight.
        """
        self._left.clear()
        paths = self._layout.flow(flow)
        own = paths.of_sink(sink)
        wanted: list[Checkpoint] = []

        def look(flows: FlowState, sinks: FlowState) -> Round:
            if sinks.checkpoint is None and wanted and flows.checkpoint == wanted[-1]:
                return wanted[-1], ()
            stands = (flows.checkpoint, flows.plan), (sinks.checkpoint, sinks.plan)
            joined = transitions.joined(flow, sink, *stands, transitions.Joining(lease.epoch, who, self._clock.now()))
            wanted.append(joined)
            number = flows.history_number + 1
            writes = flows.writes(paths, flows.stored(joined, number))
            return joined, [*writes, *joining(sinks, paths, (sink, number), joined)]

        return self._lagging_rounds(paths, flow, lease, own, look, f"the joining of sink {sink}")

    def _lagging_rounds(
        self,
        paths: FlowPaths,
        flow: str,
        lease: Lease,
        own: FlowPaths,
        look: Callable[[FlowState, FlowState], Round],
        what: str,
    ) -> Checkpoint:
        cause: Exception | None = None
        for attempt in range(_ROUNDS):
            sinks = self._nodes.state(flow, own, sync=attempt > 0)
            flows = self._nodes.state(flow, paths, sync=attempt > 0)
            check_epoch(flow, lease.epoch, flows.epoch)
            checkpoint, operations = look(flows, sinks)
            if not operations:
                return checkpoint
            operations = [check(paths.epoch, flows.epoch_version), *operations]
            cause = self._nodes.send(paths, operations, f"flow {flow}: {what}")
            if cause is None:
                return checkpoint
        if isinstance(cause, RefusedError):
            raise CheckpointConflictError(
                f"flow {flow}: {what} was refused {_ROUNDS} times, the last time at {cause}",
                hint=f"Look at the nodes below {paths.root}: something other than databus has changed them.",
            ) from cause
        raise CheckpointUnavailableError(
            f"flow {flow}: {what} was cut off {_ROUNDS} times without being applied",
            hint=f"Check the network to {self._options.hosts}.",
        ) from cause

    def _next_number(self, own: FlowPaths) -> int:
        return 1 + max((int(name) for name in self._session.children(own.history)), default=0)


def _version(state: FlowState, what: str) -> int:
    node = state.checkpoint_node
    if node is None:
        raise AssertionError(f"{what} was found a line before")
    return node.version


def joining(sinks: FlowState, paths: FlowPaths, said: tuple[str, int], joined: Checkpoint) -> list[Operation]:
    """Return what lets a sink go with its flow again, beside the write of the flow's checkpoint.

    Args:
        sinks: what the sink has of its own; its plan in flight, if any, is one that the flow closes.
        paths: the flow's paths.
        said: the sink, and the number of the entry of the flow's history.
        joined: the flow's checkpoint with the sink.
    """
    sink, number = said
    own, own_number, why = paths.of_sink(sink), sinks.history_number + 1, f"sink {sink} caught up"
    entry, own_entry = (entries.entry(n, "join", why, joined.offset, joined) for n in (number, own_number))
    return [
        create(paths.history_entry(number), encode(entry.to_json())),
        *sinks.deletes(own),
        *([delete(own.plan, sinks.plan_node.version)] if sinks.plan_node else []),
        create(own.history_entry(own_number), encode(own_entry.to_json())),
    ]
