"""Upkeep of markers outside of batches: closing an abandoned plan, keeping an idle flow's markers from expiring."""

from __future__ import annotations

from dataclasses import replace

from databus.core.state.plan import Plan
from databus.sinks.kafka.markers import Marker, MarkerKey, State, compare, untouched
from databus.sinks.kafka.session import ProducerSettings, Session


def abandon_slot(key: MarkerKey, slot: int, settings: ProducerSettings, plan: Plan) -> State:
    """Commit an `abandoned` marker where the plan is not written in full, and return the slot's state.

    A session of its own is opened: init_transactions fences whoever still writes and aborts what it had open.
    """
    session = Session(key, slot, settings)
    try:
        marker = session.marker()
        if marker is not None and (marker.batch, marker.hash, marker.state) == (plan.batch, plan.hash, "abandoned"):
            if marker.before is not None:  # closed for good from now on, whoever closed it before
                session.begin()
                session.commit(replace(marker, before=None))
            return "abandoned"
        resume = compare(marker, plan, key.sink, slot)
        if resume.finished:
            return "written"
        session.begin()
        session.commit(replace(resume.marker, state="abandoned") if resume.marker else untouched(plan))
        return "abandoned"
    finally:
        session.discard()


def is_due(marker: Marker, now_s: float, after_s: float) -> bool:
    """Return whether a marker was not refreshed within a time; one of a clock that is ahead is due."""
    return marker.refreshed_s is None or not 0 <= now_s - marker.refreshed_s < after_s


def refresh_slot(key: MarkerKey, slot: int, settings: ProducerSettings, now_s: float) -> bool:
    """Commit the slot's marker as it stands, so that the broker's retention starts anew; False where there is none."""
    session = Session(key, slot, settings)
    try:
        marker = session.marker()
        if marker is None:
            return False
        session.begin()
        session.commit(replace(marker, refreshed_s=int(now_s)))
        return True
    finally:
        session.discard()
