"""Alert outbox: the transition and pending notifications are one write, sending follows, so each is sent once.

Whoever wins that write is the teller for a while, by the book's clock: those of machines differ. A teller that dies
leaves pending notifications behind, and the next evaluation sends them: then a channel may get an alert twice (with
the same incident and time), never not at all.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from databus.core.alerts.alert import Alert, AlertEvent, AlertKind, ChannelSpec
from databus.core.alerts.book import AlertBook, AlertState, PendingNotification, StoredAlertState
from databus.core.connections import ConnectionSource
from databus.core.errors.root import DatabusError
from databus.core.protocols.recorder import Clock
from databus.core.settings import Settings
from databus.core.times import SteadyClock
from databus.observe.alerts.hysteresis import LONGEST_LOOK, NotificationTiming, RuleVerdict, step
from databus.observe.alerts.rules import Observation, comes_once, late_run

log = logging.getLogger(__name__)

TELLER_S = 60.0
"""For how long others leave an alert to its teller; renewed at each channel, whose own time-outs are shorter."""
RETRY_S = 30.0
"""Pause after a failure of a channel."""
GIVE_UP = timedelta(hours=24)
"""Age at which an alert that a channel has not taken is dropped, with an ERROR in the log."""
MAX_OWED = 30
"""Alerts of one kind and subject that may wait for channels."""
_ROUNDS = 20


Ended = Callable[[Collection[str]], Collection[str]]
"""Returns which of some runs are over, as far as it knows."""


def none_ended(_run_ids: Collection[str]) -> Collection[str]:
    """Know of no run that it is over."""
    return ()


@dataclass
class Outbox:
    """Sends the alerts of one flow.

    Attributes:
        flow: flow name; "" for what concerns all flows.
        book: remembers states.
        channels: where to send.
        connections: resolves the channels' conn_ids.
        clock: gives the time.
        settings: installation and runbooks.
        teller: random name of this teller.
        ended: returns which of some runs are over; asked of late ones only.
    """

    flow: str
    book: AlertBook
    channels: Sequence[ChannelSpec]
    connections: ConnectionSource
    clock: Clock
    settings: Settings
    teller: str = field(default_factory=lambda: uuid.uuid4().hex)
    ended: Ended = none_ended

    def consider(
        self,
        observations: Iterable[Observation],
        known: Collection[AlertKind],
        patience: Callable[[AlertKind], NotificationTiming],
        seen_at: datetime | None = None,
    ) -> list[Alert]:
        """Update alert states from observations and send pending notifications.

        Args:
            observations: at most one for each kind and subject.
            known: kinds of which every subject that is over was observed: the others have recovered.
            patience: how soon and how often alerts of a kind are sent.
            seen_at: when it was observed, None for now: it changes nothing of what others saw after that.

        Returns:
            The alerts decided on here; some other evaluation may have decided on others at the same time.

        Raises:
            CheckpointError: the book does not answer; what was decided until then is pending.
        """
        seen_at = seen_at or self.clock.now()
        noted = dict(self.book.load(self.flow))
        for key, at in noted.items():
            if at.problem:
                log.warning(
                    "flow %s: what was sent of %s is not known, until it is raised again: %s",
                    self.flow,
                    key,
                    at.problem,
                )
        observed = {o.key: o for o in observations}
        observed |= {gone.key: gone for gone in self._gone(noted, observed, known)}
        decided = [
            alert
            for o in observed.values()
            if (alert := self._decide(o, noted.get(o.key), patience(o.kind), seen_at)) is not None
        ]
        for key, at in self.book.load(self.flow).items():
            self._deliver(key, at)
            if at.version is not None and not at.problem and self._is_past(key, at.state):
                self.book.remove(self.flow, key, at.version)
        return decided

    def _gone(
        self, noted: Mapping[str, StoredAlertState], observed: Collection[str], known: Collection[AlertKind]
    ) -> Iterator[Observation]:
        """Yield that what is on is over: it would have been observed, or its run has ended."""
        on = [key for key, at in noted.items() if at.state.raised and key not in observed]
        late = {run_id for key in on if (run_id := late_run(key))}
        ended = self.ended(late) if late else ()
        for key in on:
            kind, _, subject = key.partition("/")
            if kind in known or late_run(key) in ended:
                said = f"{kind} {subject} is over".replace("  ", " ")
                yield Observation(AlertKind(kind), RuleVerdict.CLEAR, said, subject)

    def _decide(
        self, observation: Observation, noted: StoredAlertState | None, patience: NotificationTiming, seen_at: datetime
    ) -> Alert | None:
        for _ in range(_ROUNDS):
            at = noted or StoredAlertState(AlertState(), None)
            if at.state.number and not at.state.raised and not at.problem and late_run(observation.key):
                return None  # it was late and is over: a callback that is repeated does not make it late again
            now = self.clock.now()
            state, event = step(at.state, observation.verdict, now, patience, seen_at)
            if event is AlertEvent.RAISED:
                state = replace(state, range=observation.range, run_id=observation.run_id, run_url=observation.run_url)
            alert = self._alert(observation, state, event, now) if event else None
            names = tuple(c.channel_name for c in self.channels if alert is not None and c.takes(alert))
            if alert is not None and names:
                # A channel that failed does not hold news back from the others.
                until = state.teller_until if state.teller else None
                state = replace(
                    state, owed=self._bounded((*state.owed, PendingNotification(alert, names))), teller_until=until
                )
            if state == at.state:
                return None
            if self.book.swap(self.flow, observation.key, at.version, state) is not None:
                if alert is not None:
                    log.warning("flow %s: alert %s: %s", self.flow, alert.event, alert.title)
                return alert
            noted = self.book.load(self.flow).get(observation.key)
        log.warning("flow %s: alert %s is changed by others all the time, left to them", self.flow, observation.key)
        return None

    def _is_past(self, key: str, state: AlertState) -> bool:
        """Return whether a state need not be remembered: its subject never comes back, and it was sent before.

        Until then it keeps late lookers and a callback that is repeated from telling it again.
        """
        if not comes_once(key) or not state.settled:
            return False
        return state.seen_at is None or self.clock.now() - state.seen_at > LONGEST_LOOK

    def _bounded(self, owed: tuple[PendingNotification, ...]) -> tuple[PendingNotification, ...]:
        """Drop the oldest of what a channel has not taken for long: a state must fit into a node."""
        for dropped in owed[:-MAX_OWED]:
            log.error("alert %s was never taken by %s: dropped", dropped.alert.title, ", ".join(dropped.channels))
        return owed[-MAX_OWED:]

    def _alert(self, o: Observation, state: AlertState, event: AlertEvent, now: datetime) -> Alert:
        # Of what is over little may be known: then it is sent with what it was raised for.
        run_id, run_url = (o.run_id, o.run_url) if o.run_id else (state.run_id, state.run_url)
        return Alert(
            installation=self.settings.installation,
            flow=self.flow,
            kind=o.kind,
            subject=o.subject,
            number=state.number,
            event=event,
            summary=o.summary,
            at=now,
            since=state.since or now,
            figures=o.figures,
            range=o.range or state.range,
            run_id=run_id,
            run_url=run_url,
            runbook=f"{self.settings.runbooks_url.rstrip('/')}/{o.kind}.md",
        )

    def _deliver(self, key: str, noted: StoredAlertState) -> None:
        if not noted.state.owed or not self._may_tell(noted.state):
            return
        held = self._change(key, noted, self._claimed)
        silent: set[str] = set()
        while held is not None and (pair := _next(held.state, silent)) is not None:
            alert, name = pair
            if self._send(alert, name):
                held = self._change(key, held, lambda s, a=alert, n=name: self._claimed(s.given(a, n)))  # type: ignore[misc]
            else:
                silent.add(name)
                held = self._change(key, held, self._claimed)
        if held is not None:
            until = self.book.now() + timedelta(seconds=RETRY_S) if silent else None
            self._change(key, held, lambda s: replace(s, teller="", teller_until=until))

    def _may_tell(self, state: AlertState) -> bool:
        if state.teller == self.teller or state.teller_until is None:
            return True
        # Nobody may ask for longer: what says so was written by the clock of a machine, as older versions did.
        return not timedelta(0) < state.teller_until - self.book.now() <= timedelta(seconds=TELLER_S)

    def _claimed(self, state: AlertState) -> AlertState:
        until = self.book.now() + timedelta(seconds=TELLER_S)
        return replace(state, teller=self.teller, teller_until=until)

    def _change(
        self, key: str, noted: StoredAlertState, change: Callable[[AlertState], AlertState]
    ) -> StoredAlertState | None:
        """Apply a change although others add to the state; None when another has become the teller."""
        for _ in range(_ROUNDS):
            if not self._may_tell(noted.state):
                return None
            state = change(noted.state)
            version = self.book.swap(self.flow, key, noted.version, state)
            if version is not None:
                return StoredAlertState(state, version)
            found = self.book.load(self.flow).get(key)
            if found is None or found.problem:
                return None
            noted = found
        return None

    def _send(self, alert: Alert, name: str) -> bool:
        """Return whether the channel has no pending notification of this alert."""
        channel = next((c for c in self.channels if c.channel_name == name), None)
        if channel is None:
            log.error("alert %s: channel %s is not the flow's any more: dropped", alert.incident, name)
            return True
        try:
            channel.send(alert, self.connections)
        except Exception as error:  # noqa: BLE001 - whatever one channel raises, the others get theirs
            # Only our own errors are known to hold no secrets.
            problem = str(error) if isinstance(error, DatabusError) else type(error).__name__
            if self.clock.now() - alert.at < GIVE_UP:
                log.warning("alert %s: channel %s: %s; tried again", alert.incident, name, problem)
                return False
            log.error(
                "alert %s: channel %s did not take it for %s, dropped: %s", alert.incident, name, GIVE_UP, problem
            )
        return True


def _next(state: AlertState, silent: Collection[str]) -> tuple[Alert, str] | None:
    """Return the oldest alert that is pending for a channel; a channel that failed gets no younger one before it."""
    return next(((o.alert, c) for o in state.owed for c in o.channels if c not in silent), None)


class MemoryBook:
    """An AlertBook of one process.

    Args:
        clock: gives its time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SteadyClock()
        self._states: dict[str, dict[str, StoredAlertState]] = {}

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now()

    def load(self, flow: str) -> Mapping[str, StoredAlertState]:
        """Return the flow's states."""
        return dict(self._states.get(flow, {}))

    def swap(self, flow: str, key: str, version: int | None, state: AlertState) -> int | None:
        """Replace a state that nobody changed since it was read."""
        states = self._states.setdefault(flow, {})
        at = states.get(key)
        if (at.version if at else None) != version:
            return None
        states[key] = StoredAlertState(state, (version or 0) + 1)
        return states[key].version

    def remove(self, flow: str, key: str, version: int) -> None:
        """Forget a state that nobody changed since it was read."""
        at = self._states.get(flow, {}).get(key)
        if at is not None and at.version == version:
            del self._states[flow][key]
