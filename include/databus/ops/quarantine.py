"""The quarantine of a flow: what is held and why, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from databus.core.flow import Flow
from databus.ops.mediation import Said
from databus.records.held_rows import HeldRow, HeldRows, HeldState, Selection
from databus.records.store import RecordStore
from databus.runtime.context import Services


@contextmanager
def held_rows(flow: Flow, services: Services) -> Iterator[HeldRows]:
    """Open the flow's quarantine."""
    with RecordStore(services.settings.records_url) as store:
        yield HeldRows(store, flow.name)


def select(flow: Flow, services: Services, wanted: Selection) -> list[HeldRow]:
    """Return the rows that are meant, oldest first."""
    with held_rows(flow, services) as rows:
        return rows.select(wanted)


def tally(flow: Flow, services: Services) -> dict[str, int]:
    """Return the number of rows by state."""
    with held_rows(flow, services) as rows:
        return rows.tally()


def discard(flow: Flow, services: Services, wanted: Selection, said: Said) -> int:
    """Decide that held rows will never be replayed; they stay listed. Returns how many."""
    with held_rows(flow, services) as rows:
        found = rows.select(replace(wanted, state=HeldState.HELD))
        rows.discard(found, (said.who, said.why, services.clock.now()))
    return len(found)
