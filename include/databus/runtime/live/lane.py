"""Live lane: small batches at the head of the log go to a task that is already running (ADR 22).

Plan, writer, receipts, counts and commit are those of the bulk lane; only who runs the writer differs, so a batch that
one lane began is finished by the other. A batch too large for it, or one that must go through Spark's rows, ends the
live job first: the Spark task slot that it holds is needed then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.root import DatabusError
from databus.core.protocols.optional_source import StreamingSource
from databus.core.protocols.sink import SlotWriter
from databus.core.state.plan import SourcePlan
from databus.runtime.drain import Drain
from databus.runtime.live.cpu_turns import MachineTurns
from databus.runtime.live.deferred_recorder import DeferredRecorder
from databus.runtime.live.job import LiveJob
from databus.runtime.live.link import LinkLostError
from databus.runtime.live.warm_up import rehearse

if TYPE_CHECKING:
    from databus.runtime.context import FlowSession
    from databus.runtime.direct.row_counts import TaskCounts
    from databus.runtime.direct.task import DirectTask
    from databus.runtime.slot_runner import SlotRunner

log = logging.getLogger(__name__)

LIVE_ROWS = 10_000
LIVE_BYTES = 8 << 20
"""A larger batch is backlog: it is read in parallel, by a job of its own."""

_READY_WITHIN_S = 60.0
_FAILURES = 3
"""After so many live jobs in a row that could not be had, the window goes on in the bulk lane."""


class LiveLane:
    """The live job of one window, as it comes and goes with the lag."""

    def __init__(self, spark: Any, flow: str):
        self._spark, self._flow = spark, flow
        self._job: LiveJob | None = None
        self._failures = 0
        self.turns = MachineTurns()

    def warm(self) -> None:
        """Start the job, without waiting for it: a successor does so while it waits for the lease."""
        if self._job is None and self._failures < _FAILURES:
            self._job = LiveJob(self._spark, self._flow)
            try:
                self._job.start()
            except OSError as error:
                self._give_up(f"nothing can listen for its task: {error}")

    def rehearse(self, session: FlowSession, drain: Drain) -> None:
        """Wait for the task, and let run and task go once through what a batch needs; nothing is written.

        A successor does so before it asks for the lease: until then its predecessor goes on. Whatever fails here is
        left to the first batch, which does without.
        """
        self.warm()
        if self._job is None or not self._job.ready(_READY_WITHIN_S, drain):
            log.info("flow %s: the live job has no task yet; it may get the predecessor's slot", self._flow)
            return
        try:
            rows = rehearse(session, self._job)
            log.info("flow %s: the live job is warm, by %d rows that were read and not written", self._flow, rows)
        except DatabusError as error:
            log.info("flow %s: no rehearsal: %s", self._flow, error.message)

    def takes(self, planned: SourcePlan) -> bool:
        """Return whether a batch goes this way: it is small, and the job's task is there."""
        if planned.rows > LIVE_ROWS or planned.bytes > LIVE_BYTES:
            self.rest(f"{planned.rows} rows in {planned.bytes} bytes are a backlog")
            return False
        self.warm()
        if self._job is None:
            return False
        if not self._job.ready(_READY_WITHIN_S):
            self._give_up(f"its task did not start within {_READY_WITHIN_S:g} s")
            return False
        return True

    def write(self, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, TaskCounts]]:
        """Write all slots of a sink in the job's task.

        Raises:
            LinkLostError: the task is gone; the same plan may be written again, the markers show what was written.
            DatabusError: what the writer raised.
        """
        found: list[tuple[WriteReceipt, TaskCounts]] = self._call(_write_slots, task, slots)
        return found

    def write_empty(self, writer: SlotWriter, slots: int) -> list[WriteReceipt]:
        """Commit a marker for each slot of a batch without rows, where its producer is kept; raises as `write`."""
        found: list[WriteReceipt] = self._call(_write_empty, writer, slots)
        return found

    def rest(self, why: str) -> None:
        """End the job, if there is one, and with it its hold on a Spark task slot."""
        if self._job is not None:
            log.info("flow %s: leaves the live lane: %s", self._flow, why)
            self._job.close()
            self._job = None

    def _call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        if self._job is None:
            raise LinkLostError(f"flow {self._flow}: there is no live job")
        try:
            found = self._job.call(work, *arguments)
        except LinkLostError as error:
            self._give_up(error.message)
            raise
        self._failures = 0
        return found

    def _give_up(self, why: str) -> None:
        self._failures += 1
        left = (
            "the next small batch starts another" if self._failures < _FAILURES else "this window uses jobs per batch"
        )
        log.warning("flow %s: the live job is given up, %s: %s", self._flow, left, why)
        if self._job is not None:
            self._job.close()
            self._job = None


class LiveSlots:
    """Runner of writers (`SlotRunner`) in the live job; what it cannot take, or loses, another runner finishes."""

    def __init__(self, lane: LiveLane, otherwise: SlotRunner, flow: str):
        self._lane, self._otherwise, self._flow = lane, otherwise, flow

    def run(self, task: DirectTask, slots: int) -> list[tuple[WriteReceipt, TaskCounts]]:
        """Write all slots in the live job's task, else in a job of their own."""
        if self._lane.takes(task.planned):
            try:
                return self._lane.write(task, slots)
            except LinkLostError as error:
                log.warning("flow %s: a job of its own takes up the batch in hand: %s", self._flow, error.message)
        return self._otherwise.run(task, slots)

    def run_empty(self, writer: SlotWriter, planned: SourcePlan, slots: int) -> list[WriteReceipt]:
        """Commit markers alone: in the live job's task, which keeps the slots' producers, else here."""
        if self._lane.takes(planned):
            try:
                return self._lane.write_empty(writer, slots)
            except LinkLostError as error:
                log.warning("flow %s: this process takes up the batch in hand: %s", self._flow, error.message)
        return self._otherwise.run_empty(writer, planned, slots)

    def make_room(self, why: str) -> None:
        """End the live job: it holds a Spark task slot."""
        self._lane.rest(why)

    def batch_over(self) -> None:
        """Give the CPU turn back."""
        self._lane.turns.give_back()


@contextmanager
def live_lane(session: FlowSession, drain: Drain, *, open_ended: bool) -> Iterator[FlowSession]:
    """Give a session its live lane, where its flow wants and may have one and the window stays at the head.

    The lane is warm before the lease is asked for; at the end the job is ended.
    """
    from databus.runtime.direct.lane import may_be_direct

    if not open_ended or session.flow.mode != "live" or not may_be_direct(session.flow):
        yield session
        return
    flow = session.flow.name
    lane = LiveLane(session.spark, flow)
    lane.rehearse(session, drain)
    if isinstance(session.source, StreamingSource):
        session.source.stream(on=True, turns=lane.turns)
    recorder = DeferredRecorder(session.recorder)
    try:
        yield replace(session, slot_runner=LiveSlots(lane, session.slots, flow), recorder=recorder)
    finally:
        lane.rest("the window is over")
        recorder.close()


def _write_slots(task: DirectTask, slots: int) -> list[tuple[WriteReceipt, TaskCounts]]:
    return [task.write(slot) for slot in range(slots)]


def _write_empty(writer: SlotWriter, slots: int) -> list[WriteReceipt]:
    return [writer.write((), slot) for slot in range(slots)]
