"""A plan whose writers are fenced in every slot before its markers are looked at, closed or left whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from databus.core.state.plan import Plan
from databus.sinks.kafka.markers import Marker, MarkerKey, State, compare, reopened, untouched
from databus.sinks.kafka.session import ProducerSettings, Session


class KafkaFencedPlan:
    """Implements `databus.core.protocols.FencedPlan`; used by one thread."""

    def __init__(self, key: MarkerKey, settings: ProducerSettings, plan: Plan):
        """Fence every slot's writer, which aborts what it had open, then read all markers.

        Raises:
            SinkFencedError: a writer began anew meanwhile.
            SinkUnavailableError: no answer in time.
        """
        self._key, self._plan = key, plan
        self._sessions: list[Session] = []
        try:
            for slot in range(plan.sinks[key.sink].slots):
                self._sessions.append(Session(key, slot, settings))
            self._markers = [session.marker() for session in self._sessions]
        except BaseException:
            self.discard()
            raise

    def held(self) -> Sequence[int]:
        """Return the slots that hold a part of the plan or all of it."""
        return [slot for slot, m in enumerate(self._markers) if m is not None and self._is_own(m) and m.chunk >= 0]

    def abandon(self) -> Mapping[int, State]:
        """Commit an `abandoned` marker in each slot that has none yet (see `FencedPlan.abandon`)."""
        due = {slot: marker for slot, marker in enumerate(self._markers) if not self._is_closed(marker)}
        for slot, marker in due.items():  # all are compared before the first is written
            compare(marker, self._plan, self._key.sink, slot)
        for slot, marker in due.items():
            self._commit(slot, replace(untouched(self._plan), before=marker.hash if marker else ""))
        return dict.fromkeys(range(len(self._markers)), "abandoned")

    def put_back(self) -> None:
        """Commit again what each slot held before `abandon` closed it (see `FencedPlan.put_back`)."""
        prev = self._plan.sinks[self._key.sink].prev
        for slot, marker in enumerate(self._markers):
            if marker is not None and self._is_closed(marker) and marker.before is not None:
                self._commit(slot, reopened(marker, prev[slot]))

    def remember(self) -> None:
        """Commit the marker that the plan was built on in each slot that has none (see `FencedPlan.remember`)."""
        prev, start = self._plan.sinks[self._key.sink].prev, self._plan.range.start
        for slot, marker in enumerate(self._markers):
            if marker is None and prev[slot]:
                self._commit(slot, Marker(prev[slot], "", end=start.to_json(), at=str(start)))

    def discard(self) -> None:
        """Close the clients; safe to call twice."""
        while self._sessions:
            self._sessions.pop().discard()

    def _commit(self, slot: int, marker: Marker) -> None:
        session = self._sessions[slot]
        session.begin()
        session.commit(marker)

    def _is_own(self, marker: Marker) -> bool:
        return (marker.batch, marker.hash) == (self._plan.batch, self._plan.hash)

    def _is_closed(self, marker: Marker | None) -> bool:
        return marker is not None and self._is_own(marker) and marker.state == "abandoned"
