"""Upkeep of markers outside of batches: closing an abandoned plan, keeping an idle flow's markers from expiring."""

from __future__ import annotations

from dataclasses import replace

from databus.core.plan import Plan
from databus.sinks.kafka.markers import Marker, MarkerKey, State, compare
from databus.sinks.kafka.session import ProducerSettings, Session


def abandon_slot(key: MarkerKey, slot: int, settings: ProducerSettings, plan: Plan) -> State:
    """Commit an `abandoned` marker where the plan is not written in full, and return the slot's state.

    A session of its own is opened: init_transactions fences whoever still writes and aborts what it had open.
    """
    session = Session(key, slot, settings)
    try:
        marker = session.marker()
        if marker is not None and (marker.batch, marker.hash, marker.state) == (plan.batch, plan.hash, "abandoned"):
            return "abandoned"
        resume = compare(marker, plan, key.sink, slot)
        if resume.finished:
            return "written"
        start = plan.range.start
        nothing = Marker(plan.batch, plan.hash, chunk=-1, last=False, end=start.to_json(), at=str(start))
        committed = resume.marker or nothing
        session.begin()
        session.commit(replace(committed, state="abandoned"))
        return "abandoned"
    finally:
        session.discard()


def refresh_slot(key: MarkerKey, slot: int, settings: ProducerSettings) -> bool:
    """Commit the slot's marker as it stands, so that the broker's retention starts anew; False where there is none."""
    session = Session(key, slot, settings)
    try:
        marker = session.marker()
        if marker is None:
            return False
        session.begin()
        session.commit(marker)
        return True
    finally:
        session.discard()
