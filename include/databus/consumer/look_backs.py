"""Look-backs of the partitions that a consumer has: their rows, and where the changes go on."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from databus.consumer.change import Message, Place
from databus.consumer.look_back import LookBack, Phase
from databus.consumer.progress import EndProgress, Progress, StateProgress
from databus.consumer.state_rows import StateEnd
from databus.consumer.state_topic import StateTopic
from databus.consumer.state_topics import StateTopics
from databus.core.errors.consumer import StateLostError
from databus.kafka.client import ClientSettings

log = logging.getLogger(__name__)

_PAUSE_S = 0.02
"""Between two looks at markers."""
_TELL_S = 30.0
"""Between two lines of the log on how far a state is read."""

Records = list[tuple[Message, Progress]]


@dataclass
class _Running:
    """Look-back of one partition, and the progress of what it gives."""

    look: LookBack
    of: Progress
    rows: StateProgress
    told: float


class LookBacks:
    """Look-backs of partitions side by side. Used by one thread at a time.

    Args:
        settings: how to reach the cluster.
        state: the state topic.
        client: librdkafka settings of the reader that tune it.
    """

    def __init__(self, settings: ClientSettings, state: StateTopic, client: Mapping[str, Any]):
        self._state = state
        self._topics = StateTopics(settings, state, client)
        self._running: dict[Place, _Running] = {}
        self._ends: dict[Place, EndProgress] = {}
        self._rounds: dict[Place, int] = {}
        self._number = 0

    @property
    def active(self) -> bool:
        """True while the state of a partition is still to be read, or its end to be told."""
        return bool(self._running or self._ends)

    def begin(self, progress: Progress) -> None:
        """Begin with a partition, or begin anew.

        Raises:
            StateTopicError: its state cannot be read.
            SourceError: the brokers do not answer, or refuse.
        """
        place = progress.place
        self.drop(place)
        self._number = max(self._number + 1, time.time_ns() // 1_000_000)
        progress.begin_with_state(self._number)
        ask = self._topics.ask(place)
        rows = StateProgress(ask.state, progress)
        self._running[place] = _Running(LookBack(ask, self._topics, time.monotonic), progress, rows, time.monotonic())

    def again(self, place: Place, why: str) -> None:
        """Count a round that was lost.

        Raises:
            StateLostError: it was the last one.
        """
        self._rounds[place] = self._rounds.get(place, 1) + 1
        if self._rounds[place] > self._state.rounds:
            raise StateLostError(
                f"the state of {place[0]}:{place[1]} was read {self._state.rounds} times in vain: {why}"
            )
        log.warning("the state of %s:%d is read again from its beginning: %s", *place, why)

    def step(self, seconds: float) -> tuple[Records, list[tuple[Place, int]], list[tuple[Place, str]]]:
        """Go on; return rows of states, where changes go on, and which partitions were lost, with the reason.

        Args:
            seconds: how long to wait for records.

        Raises:
            ConsumerError: a state cannot be read.
            SourceError: the brokers do not answer, or refuse.
        """
        found: Records = []
        if any(each.look.reads for each in self._running.values()):
            self._topics.fetch(seconds)
        elif self._running:
            time.sleep(min(seconds, _PAUSE_S))
        asked = False
        for running in list(self._running.values()):
            if not running.look.reads:
                if asked:
                    continue  # markers take some requests each: one partition at a time
                asked = True
            found += [(message, running.rows) for message in running.look.step()]
            self._tell(running)
        return found, self._done(), self._lost()

    def ends(self, place: Place, offset: int) -> Records:
        """Return the end of a partition's state where the record at an offset is the first behind it."""
        end = self._ends.get(place)
        if end is None or offset < end.of.whole_at:
            return []
        del self._ends[place]
        self._rounds.pop(place, None)
        return [(StateEnd(place, end.of.whole_at), end)]

    def drop(self, place: Place) -> None:
        """Forget a partition."""
        if (running := self._running.pop(place, None)) is not None:
            running.look.close()
        self._ends.pop(place, None)

    def close(self) -> None:
        """Forget all, and close the clients."""
        for place in list(self._running):
            self.drop(place)
        self._ends.clear()
        self._topics.close()

    def _done(self) -> list[tuple[Place, int]]:
        done = [each for each in self._running.values() if each.look.phase is Phase.DONE]
        for each in done:
            place, look = each.of.place, each.look
            del self._running[place]
            each.of.go_on(look.first, look.whole_at, look.window)
            self._ends[place] = EndProgress(each.of)
            log.info(
                "%s:%d: its state of %d rows is read, the changes go on at offset %d", *place, look.rows, look.first
            )
        return [(each.of.place, each.look.first) for each in done]

    def _lost(self) -> list[tuple[Place, str]]:
        return [(place, each.look.why) for place, each in self._running.items() if each.look.phase is Phase.LOST]

    def _tell(self, running: _Running) -> None:
        if time.monotonic() - running.told >= _TELL_S:
            running.told = time.monotonic()
            phase = running.look.phase.name.lower()
            log.info("%s:%d: %d rows of its state are read (%s)", *running.of.place, running.look.rows, phase)
