"""Retries of a checkpoint store that is away; all of its calls are idempotent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from databus.core.errors.checkpoint import CheckpointUnavailableError
from databus.core.state.checkpoint import Epoch
from databus.core.state.checkpoint_store import (
    Amendments,
    Batches,
    CheckpointStore,
    History,
    LaggingSinks,
    Lease,
    Snapshots,
)
from databus.runtime.drain import Drain

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_PAUSE_S = 0.5


class Retry:
    """Retries a call that fails because the store is away, until it answers, a drain is asked for, or time is up."""

    def __init__(self, seconds: float, drain: Drain):
        self._seconds = seconds
        self._drain = drain

    def __call__(self, act: Callable[[], T]) -> T:
        """Return what `act` returns at last.

        Raises:
            CheckpointUnavailableError: the store stayed away.
        """
        since: float | None = None
        while True:
            try:
                found = act()
            except CheckpointUnavailableError as error:
                now = time.monotonic()
                if since is None:
                    since = now
                    log.warning("waiting for the checkpoint store for up to %g s: %s", self._seconds, error)
                if now - since >= self._seconds or self._drain.wait(_PAUSE_S):
                    raise
            else:
                if since is not None:
                    log.info("the checkpoint store is back after %.1f s", time.monotonic() - since)
                return found


def retried(promise: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[RetryingStore, P], T]:
    """Return a method of the wrapper that keeps a promise of the store: the store's own call, retried."""
    name = promise.__name__

    @wraps(promise)
    def call(self: RetryingStore, /, *args: P.args, **options: P.kwargs) -> T:
        return self._retry(lambda: cast("T", getattr(self._store, name)(*args, **options)))

    return call


class RetryingStore:
    """Retries every call of a checkpoint store until it answers or a deadline passes; all calls are idempotent."""

    def __init__(self, store: CheckpointStore, retry: Retry):
        self._store = store
        self._retry = retry

    def claim(self, flow: str, who: str, wait_s: float, run_url: str = "") -> Lease:
        """Take the lease and raise the epoch."""
        return RetryingLease(self._retry(lambda: self._store.claim(flow, who, wait_s, run_url)), self._retry)

    def connected(self) -> bool:
        """Return whether the store can be asked just now; asks nothing."""
        return self._store.connected()

    load = retried(Batches.load)
    start = retried(Batches.start)
    pending_plan = retried(Batches.pending_plan)
    write_plan = retried(Batches.write_plan)
    commit = retried(Batches.commit)
    reconcile = retried(Batches.reconcile)

    gaps = retried(Amendments.gaps)
    note_gap = retried(Amendments.note_gap)
    amend = retried(Amendments.amend)
    amend_sink = retried(Amendments.amend_sink)
    accept_outputs = retried(Amendments.accept_outputs)
    adopt = retried(Amendments.adopt)
    paused = retried(Amendments.paused)
    pause = retried(Amendments.pause)
    resume = retried(Amendments.resume)

    snapshot = retried(Snapshots.snapshot)
    begin_snapshot = retried(Snapshots.begin_snapshot)
    capture_scope = retried(Snapshots.capture_scope)
    follow_scope = retried(Snapshots.follow_scope)
    pause_snapshot = retried(Snapshots.pause_snapshot)
    resume_snapshot = retried(Snapshots.resume_snapshot)
    cancel_snapshot = retried(Snapshots.cancel_snapshot)

    def of_sink(self, sink: str) -> CheckpointStore:
        """Return the view of a lagging sink, retried as this store is."""
        return RetryingStore(self._store.of_sink(sink), self._retry)

    sinks_behind = retried(LaggingSinks.sinks_behind)
    highest_batch = retried(LaggingSinks.highest_batch)
    detach = retried(LaggingSinks.detach)
    join = retried(LaggingSinks.join)

    history = retried(History.history)
    recorded = retried(History.recorded)


class RetryingLease:
    """Retries what a lease asks of the store."""

    def __init__(self, lease: Lease, retry: Retry):
        self.epoch: Epoch = lease.epoch
        self._lease = lease
        self._retry = retry

    def held(self) -> bool:
        """Return whether the lease is still ours as far as this process knows."""
        return self._lease.held()

    def confirm(self) -> None:
        """Ask whether this is the latest claim."""
        self._retry(self._lease.confirm)

    def successor_waiting(self) -> bool:
        """Return whether another run waits for it."""
        return self._retry(self._lease.successor_waiting)

    def release(self) -> None:
        """Give it up."""
        self._lease.release()
