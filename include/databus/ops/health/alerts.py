"""Evaluate a flow's rules and send its alerts: used by Airflow's tasks and by `databus watch`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from databus.core.alerts.alert import Alert, AlertKind, ChannelSpec
from databus.core.alerts.book import AlertBook
from databus.core.alerts.flow_status import FlowFigures
from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.protocols.recorder import Clock
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.outbox import Ended, MemoryBook, Outbox, none_ended
from databus.observe.alerts.rules import Observation, judge, rules_of
from databus.ops.health.status import FlowLook

log = logging.getLogger(__name__)

SEEN_FROM_OUTSIDE = frozenset({AlertKind.NO_RUN, AlertKind.UNREACHABLE, AlertKind.AIRFLOW})
"""Only `databus watch` judges these: a task that is about to run, on some worker, sees them differently each time."""


@dataclass(frozen=True)
class Teller:
    """Alert evaluation context: where alerts are remembered and how channels are reached.

    Attributes:
        book: remembers states.
        connections: resolves the channels' conn_ids.
        settings: installation and runbooks.
        clock: gives the time.
        ended: returns which of some late runs are over.
    """

    book: AlertBook
    connections: ConnectionSource
    settings: Settings
    clock: Clock
    ended: Ended = none_ended

    def tell(
        self,
        flow: Flow,
        observations: Sequence[Observation],
        known: Collection[AlertKind],
        seen_at: datetime | None = None,
    ) -> list[Alert]:
        """Send what observations of a flow change; see `Outbox.consider`.

        Raises:
            CheckpointError: the book does not answer.
        """
        channels = channels_of(flow)
        outbox = Outbox(flow.name, self.book, channels, self.connections, self.clock, self.settings, ended=self.ended)
        when = rules_of(flow)
        return outbox.consider([o for o in observations if o.kind not in when.off], known, when.patience, seen_at)


def channels_of(flow: Flow) -> tuple[ChannelSpec, ...]:
    """Return a flow's channels."""
    return tuple(spec for spec in flow.alerts if isinstance(spec, ChannelSpec))


def judged(flow: Flow, figures: FlowFigures, *, outside: bool) -> tuple[list[Observation], set[AlertKind]]:
    """Return what the rules say, and the kinds of which every subject was seen.

    Args:
        flow: the flow.
        figures: its figures.
        outside: whether `databus watch` asks.
    """
    observations = judge(figures, rules_of(flow))
    known = {AlertKind.UNREACHABLE} if outside else set()
    if figures.gaps is not None:
        known.add(AlertKind.GAP)
    if figures.behind is not None:
        known.add(AlertKind.SINK_BEHIND)
    if figures.missing_tables is not None:
        known.add(AlertKind.MISSING_TABLES)
    if figures.rejected is not None:
        known.add(AlertKind.REJECTED)
    if not outside:
        observations = [o for o in observations if o.kind not in SEEN_FROM_OUTSIDE]
    return observations, known


def evaluate(
    flow: Flow,
    connections: ConnectionSource,
    events: Sequence[Observation] = (),
    clock: Clock | None = None,
    ended: Ended = none_ended,
) -> list[Alert]:
    """Look at a flow, judge it and notify; a failure to do so is logged and never raised.

    Args:
        flow: the flow; one without channels is left alone.
        connections: resolves conn_ids.
        events: what the caller itself observed, such as a task that failed.
        clock: gives the time.
        ended: returns which of some late runs are over, beside those that were audited.
    """
    if not channels_of(flow):
        return []
    settings, clock = Settings.from_environment(), clock or SystemClock()
    try:
        with FlowLook(flow, connections, settings, clock) as look:
            figures = look.look(rules_of(flow).quarantine_minutes * 60)
            observations, known = judged(flow, figures, outside=False)
            placed = [_placed(event, figures, look.moved_by) for event in events]
            book = look.store.alert_book()
            teller = Teller(book, connections, settings, clock, _ended(look, ended))
            return teller.tell(flow, [*observations, *placed], known, figures.at)
    except DatabusError as error:
        log.warning("flow %s: alerts were not evaluated: %s", flow.name, error)
    except Exception:
        log.exception("flow %s: alerts were not evaluated", flow.name)
    # Without the book nobody knows what was sent already: better twice than not at all.
    over = [event for event in events if event.verdict is RuleVerdict.OVER]
    try:
        return Teller(MemoryBook(), connections, settings, clock).tell(flow, over, ())
    except Exception:
        log.exception("flow %s: %d alerts were not sent", flow.name, len(over))
        return []


def _ended(look: FlowLook, others: Ended) -> Ended:
    """Return the source of runs that are over: the records, which hold those that were audited, and others."""
    return lambda runs: {*look.audited(runs), *others(runs)}


def _placed(event: Observation, figures: FlowFigures, moved_by: Callable[[str], str]) -> Observation:
    """Add to an event the range it concerns: the plan in flight, else what its run has moved, else what is not moved.

    While another run holds the lease, the plan in flight is that one's.
    """
    if event.range or event.verdict is not RuleVerdict.OVER:
        return event
    others = figures.window_seconds is not None and figures.run_id != event.run_id
    in_flight = "" if others else figures.plan_range
    return replace(event, range=in_flight or moved_by(event.run_id) or figures.plan_range or figures.open_range)
