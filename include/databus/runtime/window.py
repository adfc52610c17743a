"""A window: one claim of the lease, then micro-batches back to back until it is time to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from databus.core.checkpoint import Checkpoint
from databus.core.errors import FlowPausedError, OffsetPurgedError, SinkError, StaleEpochError
from databus.core.lag import Headroom
from databus.core.protocols import Lease
from databus.core.report import BatchReport
from databus.runtime.batch import run_batch
from databus.runtime.catch_up import SinksBehind
from databus.runtime.context import FlowSession
from databus.runtime.drain import Drain
from databus.runtime.page_out import PAGE_EVERY, page_out
from databus.runtime.purged import note_purged
from databus.runtime.upkeep import Upkeep

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WindowLimits:
    """When a window ends.

    Attributes:
        max_seconds: no new batch is begun after this long.
        max_batches: no new batch is begun after this many; None for no bound.
        until_caught_up: end when the source has nothing new.
        lease_wait_s: how long to wait for another holder's lease before giving up.
    """

    max_seconds: float = 50.0
    max_batches: int | None = None
    until_caught_up: bool = False
    lease_wait_s: float = 30.0

    @classmethod
    def of_a_run(cls, seconds: float) -> WindowLimits:
        """Return the limits of a scheduled run: it outwaits its predecessor's window, and a dead one's session."""
        return cls(max_seconds=seconds, lease_wait_s=max(seconds, cls.lease_wait_s))


@dataclass(frozen=True)
class WindowControl:
    """How a window is steered from outside.

    Attributes:
        limits: when it ends.
        drain: asks it to end early.
        on_batch: called after each committed batch.
    """

    limits: WindowLimits = field(default_factory=WindowLimits)
    drain: Drain = field(default_factory=Drain)
    on_batch: Callable[[BatchReport], None] = lambda _report: None


@dataclass
class WindowResult:
    """What a window did.

    Attributes:
        flow: flow name.
        batches: number of committed batches.
        rows: rows read.
        bytes: log bytes read.
        quarantined: rows held back.
        checkpoint: where it stands now.
        drained: a stop was asked for.
        paused: who paused the flow, and why, when that ended the window; else "".
        tables: rows read by table.
        behind: sink that fell behind → where it stands.
        caught_up: sink that was behind → rows it was given meanwhile.
        lag_bytes: log bytes behind the head when the window ended, None when unknown.
        lag_s: age of the oldest uncommitted change then, None when unknown.
        headroom: how long the source's server then still keeps what the flow needs next, None when unknown.
    """

    flow: str
    checkpoint: Checkpoint
    batches: int = 0
    rows: int = 0
    bytes: int = 0
    quarantined: int = 0
    drained: bool = False
    paused: str = ""
    tables: dict[str, int] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    caught_up: dict[str, int] = field(default_factory=dict)
    lag_bytes: int | None = None
    lag_s: float | None = None
    headroom: Headroom | None = None

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain JSON."""
        return {
            "flow": self.flow,
            "batches": self.batches,
            "rows": self.rows,
            "bytes": self.bytes,
            "quarantined": self.quarantined,
            "tables": dict(self.tables),
            "offset": str(self.checkpoint.offset),
            "batch": self.checkpoint.batch,
            "lag_bytes": self.lag_bytes,
            "lag_seconds": self.lag_s,
            "headroom_seconds": self.headroom.seconds if self.headroom else None,
            "headroom_bytes": self.headroom.bytes if self.headroom else None,
            "drained": self.drained,
            "paused": self.paused,
            "pace": dict(self.checkpoint.pace),
            "sinks_behind": dict(self.behind),
            "sinks_caught_up": dict(self.caught_up),
        }

    def add(self, report: BatchReport) -> None:
        """Count a committed batch in."""
        self.batches += 1
        self.rows += report.rows
        self.bytes += report.bytes
        for table, counts in report.tables.items():
            self.tables[table] = self.tables.get(table, 0) + counts.read
            self.quarantined += counts.quarantined

    def add_of_sink(self, sink: str, report: BatchReport) -> None:
        """Count a batch in that a sink behind has committed; its rows were counted when the others took them."""
        self.batches += 1
        given = sum(rows for receipt in report.receipts for rows in receipt.rows.values())
        self.caught_up[sink] = self.caught_up.get(sink, 0) + given


def run_window(session: FlowSession, control: WindowControl) -> WindowResult:
    """Claim the flow and run batches until a limit, a waiting successor or a drain; the lease is always given back.

    Raises:
        FlowPausedError: a person has paused the flow; nothing was begun.
        LeaseBusyError: another run held the lease for longer than `lease_wait_s`.
        DatabusError: a batch failed; the checkpoint stands at the last committed batch.
    """
    flow, limits = session.flow.name, control.limits
    refuse_paused(session)
    lease = session.store.claim(flow, session.identity.run_id, limits.lease_wait_s)
    try:
        refuse_paused(session)  # it may have been paused while this run waited for the lease
        session.interrupt_orphans()
        checkpoint = session.store.load(flow) or _start(session, lease)
        page_out(session.store, session.recorder, flow)
        result = WindowResult(flow, checkpoint)
        ends = time.monotonic() + limits.max_seconds

        def over() -> bool:
            return _over(lease, control, result, ends) or _paused(session, result)

        def caught_up(sink: str, report: BatchReport) -> None:
            result.add_of_sink(sink, report)
            control.on_batch(report)

        upkeep = Upkeep()
        with closing(SinksBehind(session, lease, caught_up, over)) as behind:
            while not over():
                result.checkpoint = behind.turn(result.checkpoint)
                try:
                    report = run_batch(behind.joined, lease, result.checkpoint)
                except SinkError as error:
                    behind.endure(error, result.checkpoint, control.drain.wait)
                    continue
                behind.went_well()
                if report is None:
                    upkeep.idle(behind.joined, result.checkpoint.updated_at)
                    if limits.until_caught_up and behind.idle():
                        break
                    continue
                result.add(report)
                result.checkpoint = _reload(session, report)
                if result.batches % PAGE_EVERY == 0:
                    page_out(session.store, session.recorder, flow)
                control.on_batch(report)
            if result.batches:
                page_out(session.store, session.recorder, flow)
            result.drained, result.behind = control.drain.requested, behind.offsets()
            behind.require_well()
        return result
    except OffsetPurgedError as error:
        note_purged(session.store, flow, lease, error, (session.identity.run_id, session.clock.now()))
        raise
    finally:
        lease.release()


def refuse_paused(session: FlowSession) -> None:
    """Refuse to run a flow that a person has paused.

    Raises:
        FlowPausedError: names who paused it, since when and why.
    """
    pause = session.store.paused(session.flow.name)
    if pause is not None:
        raise FlowPausedError(
            f"flow {session.flow.name} is {pause}",
            hint=f"`databus checkpoint resume {session.flow.name} --reason … --execute` lets it go on.",
        )


def _paused(session: FlowSession, result: WindowResult) -> bool:
    pause = session.store.paused(session.flow.name)
    if pause is not None:
        log.warning("flow %s: %s; the window ends", session.flow.name, pause)
        result.paused = str(pause)
    return pause is not None


def _start(session: FlowSession, lease: Lease) -> Checkpoint:
    offset = session.source.start_offset()
    log.info("flow %s: first run, starts after %s", session.flow.name, offset)
    return session.store.start(session.flow.name, lease, offset, session.identity.run_id)


def _reload(session: FlowSession, report: BatchReport) -> Checkpoint:
    checkpoint = session.store.load(session.flow.name)
    if checkpoint is None or checkpoint.batch != report.plan.batch:
        raise StaleEpochError(
            f"flow {session.flow.name}: checkpoint is at batch {checkpoint.batch if checkpoint else None}, "
            f"not at {report.plan.batch} that was just committed: another run took over"
        )
    return checkpoint


def _over(lease: Lease, control: WindowControl, result: WindowResult, ends: float) -> bool:
    limits = control.limits
    if control.drain.requested or time.monotonic() >= ends:
        return True
    if limits.max_batches is not None and result.batches >= limits.max_batches:
        return True
    if not lease.held():
        raise StaleEpochError(f"flow {result.flow}: the lease of epoch {lease.epoch} was lost")
    return lease.successor_waiting()
