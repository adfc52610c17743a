"""Lagging sinks: they detach from the flow when away for too long, catch up, and join it again (ADR 16)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from databus.core.batches.report import BatchReport
from databus.core.errors.batch import QualityGateError, RecordingError, TransformError
from databus.core.errors.checkpoint import CheckpointUnavailableError, PlanChangedError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkError, SinkFencedError
from databus.core.errors.source import OffsetPurgedError, SourceError
from databus.core.positions.offset_ranges import earlier
from databus.core.positions.offsets import OffsetRange, Ordering
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.checkpoint_store import Lease
from databus.runtime.batch import run_batch
from databus.runtime.beside.bounded_source import between
from databus.runtime.context import FlowSession
from databus.runtime.sink_outage.outage import Outage, is_outage
from databus.runtime.sink_outage.probe import Probe
from databus.runtime.zookeeper_loss.policy import goes_on, is_detached

log = logging.getLogger(__name__)

TURN_S = 5.0
"""A sink that catches up gets batches for this long before the others get the next one."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 8.0
_FIRST_ANSWER_S = 10.0
_FAILURES = 3
"""After so many a sink is not waited for any more by a window that ends once all have caught up."""


@dataclass
class _Behind:
    """A sink that is behind.

    Attributes:
        checkpoint: where it stands.
        probe: asks whether it is there again.
        failures: batches in a row that it did not take.
        unsure: whether its checkpoint has to be read again, because ZooKeeper went away in its batch.
        error: what stops it until a person has acted, None while it can go on.
    """

    checkpoint: Checkpoint
    probe: Probe
    failures: int = 0
    unsure: bool = False
    error: DatabusError | None = None

    @property
    def ready(self) -> bool:
        """Return whether a batch can be tried."""
        return self.error is None and self.probe.reachable


@dataclass
class SinksBehind:
    """The sinks of a flow that are behind, under one claim of the lease.

    Attributes:
        session: the flow, open.
        lease: the claim.
        on_batch: called after each batch that a sink behind has committed.
        over: returns whether the window is to end.
    """

    session: FlowSession
    lease: Lease
    on_batch: Callable[[str, BatchReport], None]
    over: Callable[[], bool]
    _behind: dict[str, _Behind] = field(default_factory=dict)
    _outage: Outage | None = None

    def __post_init__(self) -> None:
        flow, store = self.session.flow.name, self.session.store
        for name in store.sinks_behind(flow):
            checkpoint = store.of_sink(name).load(flow)
            if name not in self.session.every_sink:
                log.error(
                    "flow %s: sink %s is behind at %s, and no more part of the flow → Put it back, or give up what it "
                    "lacks: `databus checkpoint skip %s --sink %s`.",
                    flow, name, checkpoint.offset if checkpoint else "?", flow, name,
                )  # fmt: skip
            elif checkpoint is not None:
                log.warning("flow %s: sink %s is behind: it stands at %s", flow, name, checkpoint.offset)
                self._behind[name] = _Behind(checkpoint, self._probe(name))

    @property
    def joined(self) -> FlowSession:
        """The flow without the sinks that are behind."""
        return self.session.joined(self._behind) if self._behind else self.session

    def offsets(self) -> dict[str, str]:
        """Return the sinks that are behind, and where they stand."""
        return {name: str(sink.checkpoint.offset) for name, sink in self._behind.items()}

    def went_well(self) -> None:
        """Note that the joined sinks took a batch."""
        if self._outage is not None:
            log.info("flow %s: sink %s takes rows again", self.session.flow.name, self._outage.error.sink)
        self._outage = None

    def endure(self, error: SinkError, checkpoint: Checkpoint, wait: Callable[[float], bool]) -> None:
        """Judge an error of a joined sink: wait for another attempt of the same plan, or go on without the sink.

        Raises:
            SinkError: the error, when it is no outage, no other sink is joined, or ZooKeeper is away: only there can
                a sink stand apart from the others, so its outage stops the flow.
        """
        flow = self.session.flow
        if not is_outage(error) or error.sink not in self.joined.sinks or len(self.joined.sinks) < 2:
            raise error
        if self._outage is None or self._outage.error.sink != error.sink:
            self._outage = Outage(error)
        else:
            self._outage.again(error)
        outage = self._outage
        if outage.lasted_s >= flow.sink_outage_seconds:
            self._detach(error, checkpoint)
            self._outage = None
            return
        pause_s = outage.pause_s(flow.sink_outage_seconds)
        log.warning(
            "flow %s: sink %s takes no rows for %.1f s, attempt %d, next in %.1f s; others go on alone after %g s: %s",
            flow.name, error.sink, outage.lasted_s, outage.attempts, pause_s, flow.sink_outage_seconds, error,
        )  # fmt: skip
        wait(pause_s)

    def turn(self, checkpoint: Checkpoint) -> Checkpoint:
        """Give each sink that is behind a turn; return the flow's checkpoint, which a joining has changed.

        A holder that goes on without ZooKeeper gives no turns: a sink behind has its checkpoint only there.
        """
        for name in list(self._behind):
            if not is_detached(self.session):
                checkpoint = self._turn(name, checkpoint)
        return checkpoint

    def catch_up(self, checkpoint: Checkpoint, stopped: DatabusError) -> Checkpoint:
        """Give turns until each sink has come as far as it can, where the flow itself cannot go on.

        What they fail with is logged: the window ends with what has stopped the flow.

        Args:
            checkpoint: the flow's.
            stopped: what it cannot pass.

        Returns:
            The flow's checkpoint, which a joining has changed.
        """
        flow = self.session.flow.name
        if self._behind:
            log.error("flow %s: stops, once its sinks that are behind have caught up: %s", flow, stopped)
        try:
            while self._behind and not self.over() and not self.idle():
                stood = self.offsets()
                checkpoint = self.turn(checkpoint)
                if self.offsets() == stood:
                    break
        except DatabusError as error:
            log.warning("flow %s: sinks that are behind do not catch up: %s", flow, error)
        return checkpoint

    def idle(self) -> bool:
        """Return whether no sink can catch up at the moment; without ZooKeeper none can."""
        return is_detached(self.session) or not any(
            sink.error is None and sink.failures < _FAILURES and sink.probe.first_answer(_FIRST_ANSWER_S)
            for sink in self._behind.values()
        )

    def require_well(self) -> None:
        """Raise what the window has put off: an outage it ended in, an error of a sink that is behind.

        Raises:
            SinkError, SourceError, PlanChangedError, TransformError, QualityGateError: the first such error.
        """
        if self._outage is not None:
            raise self._outage.error
        for sink in self._behind.values():
            if sink.error is not None:
                raise sink.error

    def close(self) -> None:
        """Stop the probes; safe to call twice."""
        for sink in self._behind.values():
            sink.probe.close()

    def _detach(self, error: SinkError, checkpoint: Checkpoint) -> None:
        flow, name = self.session.flow.name, error.sink
        try:
            own = self.session.store.detach(flow, self.lease, name, str(error))
        except CheckpointUnavailableError as away:
            log.error("flow %s: ends, for no sink can fall behind without ZooKeeper: %s", flow, away)
            raise error from away
        log.error("flow %s: goes on without sink %s, which stays at %s: %s", flow, name, checkpoint.offset, error)
        self._behind[name] = _Behind(own, self._probe(name))

    def _turn(self, name: str, checkpoint: Checkpoint) -> Checkpoint:
        sink, flow = self._behind[name], self.session.flow.name
        ends = time.monotonic() + TURN_S
        while sink.ready and not self.over():
            # A plan shared with the joined sinks is theirs first: nobody is ever ahead of the flow.
            if sink.checkpoint.offset.compare(checkpoint.offset) is Ordering.EQUAL:
                if self.session.store.pending_plan(flow) is not None:
                    return checkpoint
                own = self.session.store.of_sink(name).pending_plan(flow)
                if own is None:
                    return self._join(name, checkpoint)
                if not own.range.empty:
                    return checkpoint
                # A batch of a snapshot's chunks alone, which the flow has committed: it moved no place.
            if time.monotonic() >= ends or self._batch(name, sink, checkpoint) is None:
                break
        return checkpoint

    def _batch(self, name: str, sink: _Behind, checkpoint: Checkpoint) -> BatchReport | None:
        """Move one batch of a sink that is behind; its outages and errors stay its own."""
        flow = self.session.flow.name
        source, start = self.session.source, earlier(sink.checkpoint.offset, checkpoint.offset)
        view = self.session.of_sink(name, between(source, OffsetRange(start, checkpoint.offset), source.reopen))
        try:
            if sink.unsure:
                sink.checkpoint, sink.unsure = view.store.load(flow) or sink.checkpoint, False
            report = run_batch(view, self.lease, sink.checkpoint)
            if report is not None:
                sink.failures, sink.unsure = 0, True
                self.on_batch(name, report)
                sink.checkpoint, sink.unsure = view.store.load(flow) or sink.checkpoint, False
                log.info("flow %s: sink %s caught up to %s", flow, name, sink.checkpoint.offset)
        except CheckpointUnavailableError as error:
            if not goes_on(self.session):
                raise
            log.warning("flow %s: sink %s waits for ZooKeeper: %s", flow, name, error)
            sink.unsure = True
            return None
        except RecordingError as error:
            sink.failures += 1
            log.warning("flow %s: sink %s waits for the records store: %s", flow, name, error)
            sink.probe = self._probe(name, _pause_s(sink.failures))
            return None
        except PlanChangedError as error:
            log.error("flow %s: sink %s cannot catch up: %s", flow, name, error)
            error.sink, sink.error = name, error
            return None
        except (SinkError, SourceError, TransformError, QualityGateError) as error:
            if not isinstance(error, SinkError) and error.retryable:
                raise
            if isinstance(error, SinkFencedError) or (isinstance(error, SinkError) and is_outage(error)):
                sink.failures += 1
                pause_s = _pause_s(sink.failures)
                log.warning("flow %s: sink %s is away again, asked in %.0f s: %s", flow, name, pause_s, error)
                sink.probe = self._probe(name, pause_s)
                return None
            if isinstance(error, OffsetPurgedError):  # not the flow's own gap
                error.hint = (
                    f"The flow goes on without sink {name}: `databus checkpoint skip {flow} --sink {name} --past-gap` "
                    "lets it catch up behind what is gone. See docs/runbooks/sink_behind.md."
                )
            elif "--sink" not in error.hint:  # a skip would move the flow, which has passed that place
                error.hint = error.hint.replace(f"checkpoint skip {flow} ", f"checkpoint skip {flow} --sink {name} ")
            log.error("flow %s: sink %s cannot catch up: %s", flow, name, error)
            sink.error = error
            return None
        return report

    def _join(self, name: str, checkpoint: Checkpoint) -> Checkpoint:
        flow = self.session.flow.name
        joined = self.session.store.join(flow, self.lease, name, self.session.identity.run_id)
        self._behind.pop(name).probe.close()
        log.info("flow %s: sink %s caught up and goes with the others again, at %s", flow, name, checkpoint.offset)
        return joined

    def _probe(self, name: str, first_pause_s: float = 0.0) -> Probe:
        if self.session.reopen_sink is None:
            raise AssertionError("a session that moves rows can open further clients of its sinks")
        return Probe(self.session.flow.name, name, self.session.reopen_sink(name), first_pause_s)


def _pause_s(failures: int) -> float:
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * float(2**failures))
