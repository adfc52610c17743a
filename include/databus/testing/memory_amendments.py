"""Amendments of the checkpoint store in memory, by the same rules as in ZooKeeper."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from databus.checkpoints.codec import check_size, decode_as, encode
from databus.checkpoints.rules import adoption
from databus.checkpoints.rules import amendments as amended
from databus.checkpoints.rules import history_entries as entries
from databus.checkpoints.rules import plans as transitions
from databus.checkpoints.rules.accepted import accepted_checkpoint, accepted_plan
from databus.checkpoints.rules.lagging_sinks import Joining
from databus.checkpoints.rules.mending import begun_repair, gap_of
from databus.core.positions.gaps import Gap
from databus.core.state.amendments import AcceptedOutputs, Amendment, Pause
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.core.state.snapshot import Snapshot
from databus.testing.memory_lagging_sinks import MemoryLaggingSinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from databus.testing.memory_flows import MemoryFlow


class MemoryAmendments(MemoryLaggingSinks):
    """Amendments of the memory store; see `databus.core.state.checkpoint_store.Amendments`."""

    def paused(self, flow: str) -> Pause | None:
        """Return who paused the flow, None while it may run."""
        with self._server.changed:
            data = self._server.flow(flow).paused
        return decode_as(data, f"pause of flow {flow}", Pause.from_json) if data else None

    def pause(self, flow: str, who: str, why: str) -> Pause:
        """Pause a flow, also while it runs; returns the pause that was there already, if there was one."""
        with self._server.changed:
            checkpoint = amended.require_started(flow, self._load(flow))
            former = self.paused(flow)
            if former is not None:
                return former
            made = Pause(who, why, self._clock.now())
            self._said(flow, checkpoint, "pause", made)
            self._server.flow(flow).paused = encode(made.to_json())
            return made

    def resume(self, flow: str, who: str, why: str) -> Pause | None:
        """End a pause and return it; None when the flow was not paused."""
        with self._server.changed:
            checkpoint = amended.require_started(flow, self._load(flow))
            former = self.paused(flow)
            if former is not None:
                self._said(flow, checkpoint, "resume", Pause(who, why, self._clock.now()))
                self._server.flow(flow).paused = None
            return former

    def gaps(self, flow: str) -> Sequence[Gap]:
        """Return the flow's named gaps, oldest first."""
        with self._server.changed:
            return tuple(self._gaps(flow))

    def note_gap(self, flow: str, lease: Lease, gap: Gap) -> Gap:
        """Name a gap before which the flow stops, undecided; the same gap again is the same entry."""
        with self._server.changed:
            transitions.check_epoch(flow, lease.epoch, self._server.flow(flow).epoch)
            return self._name(flow, gap)

    def amend(self, flow: str, lease: Lease, amendment: Amendment) -> Checkpoint:
        """Move the checkpoint by hand in one atomic step, or raise and change nothing."""
        with self._server.changed:
            state = self._server.flow(flow)
            transitions.check_epoch(flow, lease.epoch, state.epoch)
            previous = amended.require_started(flow, self._load(flow))
            if amended.is_amended(previous, amendment, lease.epoch):
                return previous
            views = {sink: self.of_sink(sink) for sink in self.sinks_behind(flow)}
            own = {sink: (view._load(flow), view._plan(flow)) for sink, view in views.items()}  # noqa: SLF001
            stands = previous, self._plan(flow)
            behind = [sink for sink, standing in own.items() if not amended.is_caught_up(standing, stands)]
            amended.check_amendment(flow, amendment, *stands, behind)
            by = Joining(lease.epoch, amendment.who, self._clock.now())
            at = {sink: standing[0] for sink, standing in own.items()}
            for sink, previous in amended.taken_along(flow, previous, at, by):  # noqa: B020 - as it grows
                alone = views[sink]._at(flow)  # noqa: SLF001
                for kept in (state, alone):
                    why = f"sink {sink} caught up"
                    entry = entries.entry(kept.history_number + 1, "join", why, previous.offset, previous)
                    self._put(kept, previous, entry, f"the joining of sink {sink}")
                alone.checkpoint = alone.plan = None
            checkpoint = amended.amended_checkpoint(previous, amendment, lease.epoch, by.now)
            return self._amended(flow, state, (previous, checkpoint), amendment)

    def amend_sink(self, flow: str, lease: Lease, sink: str, amendment: Amendment) -> Checkpoint:
        """Move a sink that is behind forward by hand in one atomic step, or raise and change nothing."""
        with self._server.changed:
            transitions.check_epoch(flow, lease.epoch, self._server.flow(flow).epoch)
            view = self.of_sink(sink)
            alone, pending = view._at(flow), view._plan(flow)  # noqa: SLF001
            previous = amended.require_behind(flow, sink, view._load(flow))  # noqa: SLF001
            if amended.is_amended(previous, amendment, lease.epoch):
                return previous
            flow_at = amended.require_started(flow, self._load(flow))
            amended.check_sink_amendment(flow, sink, amendment, (previous, pending), flow_at)
            checkpoint = amended.amended_checkpoint(previous, amendment, lease.epoch, self._clock.now())
            return self._amended(flow, alone, (previous, checkpoint), amendment, f" of sink {sink}")

    def accept_outputs(self, flow: str, lease: Lease, accepted: AcceptedOutputs) -> Checkpoint:
        """Know outputs as they are now, in checkpoint and plan in flight (see `Amendments.accept_outputs`)."""
        with self._server.changed:
            transitions.check_epoch(flow, lease.epoch, self._server.flow(flow).epoch)
            state, pending = self._at(flow), self._plan(flow)
            previous = amended.require_started(flow, self._load(flow))
            checkpoint = accepted_checkpoint(previous, accepted, lease.epoch)
            plan = accepted_plan(pending, accepted) if pending is not None else None
            if checkpoint == replace(previous, epoch=checkpoint.epoch) and plan == pending:
                return previous
            number = state.history_number + 1
            entry = entries.accept_entry(number, checkpoint, plan, accepted, self._clock.now())
            self._put(state, checkpoint, entry, "the outputs")
            state.plan = encode(plan.to_json()) if plan is not None else None
            return checkpoint

    def adopt(self, lease: Lease, flow: str, checkpoint: Checkpoint, why: str, after: int = 0) -> None:
        """Set the checkpoint to where the sinks stand."""
        with self._server.changed:
            transitions.check_epoch(flow, lease.epoch, self._server.flow(flow).epoch)
            own, previous = self._at(flow), self._load(flow)
            if previous == checkpoint:
                return
            adoption.check_adoption(flow, previous, checkpoint)
            entry = entries.entry(
                1 + max(own.history_number, after), "adopt", why, previous.offset if previous else None, checkpoint
            )
            self._put(own, checkpoint, entry, "adopting")
            own.plan = None

    def _amended(
        self, flow: str, state: MemoryFlow, moved: tuple[Checkpoint, Checkpoint], amendment: Amendment, whose: str = ""
    ) -> Checkpoint:
        """Put a checkpoint, which is moved from the first place to the second; no plan is in flight any more."""
        begun: Snapshot | None = None
        if amendment.repair is not None and amendment.gap is not None:
            number = amended.numbered(amendment.gap, self._gaps(flow))[0].number
            begun = begun_repair(flow, self._snapshot(flow), amendment.repair, number)
        entry = entries.amendment_entry(state.history_number + 1, *moved, amendment)
        self._put(state, moved[1], entry, f"the {amendment.action}{whose}")
        state.plan = None
        if (passed := gap_of(amendment)) is not None:
            self._name(flow, passed)
        if begun is not None:
            self._put_snapshot(flow, begun)
        return moved[1]

    def _name(self, flow: str, gap: Gap) -> Gap:
        state = self._server.flow(flow)
        known = self._gaps(flow)
        named, replaces = amended.numbered(gap, known)
        if replaces:
            other = next(g for g in known if g.number == named.number)
            if other.decision == named.decision and other.end.to_json() == named.end.to_json():
                return other
        data = encode(named.to_json())
        check_size(len(data), f"a gap of flow {flow}")
        state.gaps = [d for d, g in zip(state.gaps, known, strict=True) if g.number != named.number] + [data]
        return named
