"""Checkpoint version: what a user saw of a flow, compared under the lease before anything is changed for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from databus.core.errors.checkpoint import CheckpointMovedError
from databus.core.state.checkpoint import HistoryEntry
from databus.core.state.checkpoint_store import CheckpointStore

_TOLD = 20
"""Entries that an error names; the history has all."""


def version_of(flow: str, store: CheckpointStore) -> str:
    """Return the version of a flow's checkpoint: it changes with each commit, amendment and pause, also of its sinks.

    Args:
        flow: flow name.
        store: the checkpoint store.

    Returns:
        Number and time of the newest history entry, and of each lagging sink's own, e.g. "41-19a3f" or
        "41-19a3f.search=7-19a2e"; "0" of a flow that never ran. The time distinguishes two lives of a ZooKeeper that
        was restored from a copy.
    """
    behind = [f"{name}={_newest(store.of_sink(name).history(flow, 1))}" for name in store.sinks_behind(flow)]
    return ".".join([_newest(store.history(flow, 1)), *behind])


def _newest(entries: Sequence[HistoryEntry]) -> str:
    return f"{entries[0].number}-{int(entries[0].at.timestamp() * 1000):x}" if entries else "0"


def require_version(flow: str, store: CheckpointStore, seen: str) -> None:
    """Refuse a change by a user who saw another state; asked under the lease, nothing moves the flow meanwhile.

    Args:
        flow: flow name.
        store: the checkpoint store.
        seen: version that they saw; "" where any will do.

    Raises:
        CheckpointMovedError: it has changed since; names what was done, and by whom.
    """
    if not seen:
        return
    now = version_of(flow, store)
    if now == seen:
        return
    first = seen.partition("-")[0]
    entries = [e for e in store.history(flow, _TOLD) if not first.isdecimal() or e.number > int(first)]
    newest = f", last {_told(entries[0])}" if entries else ""
    error = CheckpointMovedError(
        f"flow {flow}: its checkpoint has changed since version {seen} was read: it is {now} now{newest}",
        hint="Nothing was done. Look again, and preview the change from where the flow stands now.",
    )
    error.version, error.changes = now, tuple(entry_facts(entry) for entry in entries)
    raise error


def entry_facts(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry of the history for people: who did what, when and why, and where it led."""
    return {
        "number": entry.number,
        "action": entry.action,
        "who": entry.who,
        "why": entry.why,
        "at": entry.at.isoformat(),
        "from": str(entry.previous) if entry.previous is not None else None,
        "to": str(entry.offset),
        "batch": entry.batch,
        "epoch": int(entry.epoch),
        "rows": sum(counts.read for counts in entry.counts.values()),
    }


def _told(entry: HistoryEntry) -> str:
    return f"{entry.action} by {entry.who}"
