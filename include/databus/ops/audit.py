"""Audit of a flow: who did what and why, by the command, a page or a run; all but commits of batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from databus.core.flow import Flow
from databus.core.state.checkpoint import HistoryEntry
from databus.ops.checkpoint.show import why_of
from databus.ops.checkpoint.targets import ALL_HISTORY
from databus.records.ledger.pages import LedgerPages
from databus.records.quarantine.causes import QuarantineCauses
from databus.records.store import RecordStore
from databus.runtime.context import Services


@dataclass(frozen=True)
class AuditEntry:
    """Audit entry of a flow.

    Attributes:
        at: when, aware UTC.
        who: user or run.
        action: what was done, e.g. "rewind", "pause", "discarded".
        why: reason, "" without.
        subject: what it was done to: "flow", "sink NAME", "replays" or "quarantine".
        facts: what it led to, in words.
        number: number in the history of its subject, 0 where it has none.
    """

    at: datetime
    who: str
    action: str
    why: str
    subject: str
    facts: str
    number: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**vars(self), "at": self.at.isoformat()}


def audit(flow: Flow, services: Services) -> list[AuditEntry]:
    """Return all that was done to a flow, its lagging sinks and its quarantine, newest first.

    Raises:
        CheckpointError, RecordingError: ZooKeeper or the records store does not answer.
    """
    found = [_of_history("flow", entry) for entry in _amendments(flow, services)]
    for spec in flow.sinks:
        own = services.store.of_sink(spec.sink_name).history(flow.name, ALL_HISTORY)
        found += [_of_history(f"sink {spec.sink_name}", entry) for entry in own if entry.action != "commit"]
    with RecordStore(services.settings.records_url) as store:
        for state, who, why, rows, at in QuarantineCauses(store, flow.name).decisions():
            found.append(AuditEntry(at, who, state, why, "quarantine", f"{rows} rows", 0))
    return sorted(found, key=lambda entry: (entry.at, entry.number), reverse=True)


def _amendments(flow: Flow, services: Services) -> Iterator[HistoryEntry]:
    """Yield the steps that no batch made: those that ZooKeeper keeps, then pages of what it has let go of."""
    kept = services.store.history(flow.name, ALL_HISTORY)
    yield from (entry for entry in kept if entry.action != "commit")
    oldest = kept[-1].first if kept else 0
    with RecordStore(services.settings.records_url) as store:
        pages = LedgerPages(store)
        newest = pages.newest(flow.name)
        if newest is None:
            return
        for page in reversed(pages.amendments(flow.name, newest.generation)):
            if page.entry is not None and page.entry.number < oldest:
                yield page.entry


def _of_history(subject: str, entry: HistoryEntry) -> AuditEntry:
    moved = f"to {entry.offset}"
    if entry.previous is not None and str(entry.previous) != str(entry.offset):
        moved = f"from {entry.previous} to {entry.offset}"
    elif entry.previous is not None:
        moved = f"at {entry.offset}"
    return AuditEntry(entry.at, entry.who, entry.action, why_of(entry), subject, moved, entry.number)
