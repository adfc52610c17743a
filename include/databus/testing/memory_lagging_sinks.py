"""Lagging sinks in memory, by the same rules as in ZooKeeper."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

from databus.checkpoints.codec import encode
from databus.checkpoints.paths import Layout
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import lagging_sinks as splits
from databus.checkpoints.rules import plans as transitions
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.testing.memory_flows import MemoryFlows


class MemoryLaggingSinks(MemoryFlows):
    """Lagging sinks of the memory store; see `databus.core.state.checkpoint_store.LaggingSinks`."""

    def of_sink(self, sink: str) -> Self:
        """Return a view in which checkpoint, plan and history are those of a sink that is behind."""
        view = copy.copy(self)
        view._sink = sink  # noqa: SLF001 - a view of our own
        return view

    def sinks_behind(self, flow: str) -> Sequence[str]:
        """Return the names of the sinks that have a checkpoint of their own, sorted."""
        with self._server.changed:
            sinks = self._server.flow(flow).sinks
            return tuple(sorted(name for name, own in sinks.items() if own.checkpoint is not None))

    def highest_batch(self, flow: str) -> int:
        """Return the highest batch number of the flow's checkpoints and plans, those of sinks behind included."""
        with self._server.changed:
            views = [self.of_sink(name) for name in ("", *self._server.flow(flow).sinks)]
            kept = [item for view in views for item in (view._load(flow), view._plan(flow))]  # noqa: SLF001
        return max((item.batch for item in kept if item is not None), default=0)

    def detach(self, flow: str, lease: Lease, sink: str, why: str) -> Checkpoint:
        """Give a sink a checkpoint of its own and the plan in flight."""
        Layout().flow(flow).of_sink(sink)  # refuses what is no name
        with self._server.changed:
            state, view = self._server.flow(flow), self.of_sink(sink)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            checkpoint, plan = splits.detached(flow, sink, self._load(flow), self._plan(flow), lease.epoch)
            own, stored = view._at(flow), view._load(flow)  # noqa: SLF001
            if stored is not None:
                splits.check_detached(flow, sink, checkpoint, stored)
                return stored
            entry = entries.entry(own.history_number + 1, "detach", why, None, checkpoint)
            self._put(own, checkpoint, entry, f"the detachment of sink {sink}")
            own.plan = encode(plan.to_json()) if plan else None
            return checkpoint

    def join(self, flow: str, lease: Lease, sink: str, who: str) -> Checkpoint:
        """Let a sink that caught up go with the flow again."""
        with self._server.changed:
            state, view = self._server.flow(flow), self.of_sink(sink)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            own = view._at(flow)  # noqa: SLF001
            stands = (self._load(flow), self._plan(flow)), (view._load(flow), view._plan(flow))  # noqa: SLF001
            joined = splits.joined(flow, sink, *stands, splits.Joining(lease.epoch, who, self._clock.now()))
            why = f"sink {sink} caught up"
            entry = entries.entry(state.history_number + 1, "join", why, joined.offset, joined)
            self._put(state, joined, entry, f"the joining of sink {sink}")
            entry = entries.entry(own.history_number + 1, "join", why, joined.offset, joined)
            self._put(own, joined, entry, f"the joining of sink {sink}")
            own.checkpoint = None
            return joined
