"""A window: one claim of the lease, then micro-batches back to back until it is time to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from databus.core.checkpoint import Checkpoint
from databus.core.errors import LeaseBusyError, StaleEpochError
from databus.core.protocols import Lease
from databus.core.report import BatchReport
from databus.runtime.batch import run_batch
from databus.runtime.catch_up import catch_up, is_detached, outlasting
from databus.runtime.context import FlowSession
from databus.runtime.drain import Drain

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WindowLimits:
    """When a window ends.

    Attributes:
        max_seconds: no new batch is begun after this long.
        max_batches: no new batch is begun after this many; None for no bound.
        until_caught_up: end when the source has nothing new.
        lease_wait_s: how long to wait for another holder's lease before giving up.
        store_wait_s: how long to wait for a checkpoint store that is away before the run fails; what it has planned
            stays for the next.
    """

    max_seconds: float = 50.0
    max_batches: int | None = None
    until_caught_up: bool = False
    lease_wait_s: float = 30.0
    store_wait_s: float = 60.0

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
        tables: rows read by table.
        lag_bytes: log bytes behind the head when the window ended, None when unknown.
        lag_s: age of the oldest uncommitted change then, None when unknown.
    """

    flow: str
    checkpoint: Checkpoint
    batches: int = 0
    rows: int = 0
    bytes: int = 0
    quarantined: int = 0
    drained: bool = False
    tables: dict[str, int] = field(default_factory=dict)
    lag_bytes: int | None = None
    lag_s: float | None = None

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
            "drained": self.drained,
        }

    def add(self, report: BatchReport) -> None:
        """Count a committed batch in."""
        self.batches += 1
        self.rows += report.rows
        self.bytes += report.bytes
        for table, counts in report.tables.items():
            self.tables[table] = self.tables.get(table, 0) + counts.read
            self.quarantined += counts.quarantined


def run_window(session: FlowSession, control: WindowControl) -> WindowResult:
    """Claim the flow and run batches until a limit, a waiting successor or a drain; the lease is always given back.

    Raises:
        LeaseBusyError: another run held the lease for longer than `lease_wait_s`.
        DatabusError: a batch failed; the checkpoint stands at the last committed batch.
    """
    with outlasting(session, control.drain, control.limits.store_wait_s) as outlasting_session:
        return _run(outlasting_session, control)


def _run(session: FlowSession, control: WindowControl) -> WindowResult:
    flow, limits = session.flow.name, control.limits
    lease = session.store.claim(flow, session.identity.run_id, limits.lease_wait_s)
    try:
        session.interrupt_orphans()
        result = WindowResult(flow, catch_up(session, lease) or _start(session, lease))
        ends = time.monotonic() + limits.max_seconds
        # Without ZooKeeper no successor can take over: the window has no end of its own then.
        while not _over(control, result, float("inf") if is_detached(session) else ends):
            if not lease.held():
                lease = _claim_again(session, lease, result)
            if lease.successor_waiting():
                break
            report = run_batch(session, lease, result.checkpoint)
            if report is None:
                if limits.until_caught_up:
                    break
                continue
            result.add(report)
            result.checkpoint = _reload(session, report)
            control.on_batch(report)
        result.drained = control.drain.requested
        return result
    finally:
        lease.release()


def _claim_again(session: FlowSession, lease: Lease, result: WindowResult) -> Lease:
    """Return a lease that holds after one was lost: the same when its session lived on, else a new claim.

    Raises:
        StaleEpochError: another run holds the flow now.
    """
    flow = session.flow.name
    session.store.load(flow)  # waits until the store can be asked
    if lease.held():
        return lease
    log.warning("flow %s: the lease of epoch %d was lost, claiming it again", flow, lease.epoch)
    lease.release()
    try:
        again = session.store.claim(flow, session.identity.run_id, 0)
    except LeaseBusyError as error:
        raise StaleEpochError(
            f"flow {flow}: the lease of epoch {lease.epoch} was lost, and another run has it now: {error.message}"
        ) from error
    result.checkpoint = catch_up(session, again) or result.checkpoint
    return again


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


def _over(control: WindowControl, result: WindowResult, ends: float) -> bool:
    limits = control.limits
    if control.drain.requested or time.monotonic() >= ends:
        return True
    return limits.max_batches is not None and result.batches >= limits.max_batches
