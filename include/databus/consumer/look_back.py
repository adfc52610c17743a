"""Look-back of one partition: the state that its flow keeps, up to where the stream of changes goes on."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from databus.consumer.change import Message, Place
from databus.consumer.state_rows import event_of
from databus.consumer.window import ChangesWindow
from databus.core.errors.consumer import StateBehindError, StateTopicError

log = logging.getLogger(__name__)

_NOTED = 64
"""Standings of a sink that are kept until the other one has reached them."""


class SinkMark(NamedTuple):
    """Marker of one slot of a sink, as far as it says how far that is.

    Attributes:
        batch: number of the batch.
        whole: whether the batch was written to its end.
        end: where its rows end at the source; "" where the marker does not say it.
    """

    batch: int
    whole: bool
    end: str


Marks = tuple[SinkMark, ...]


class TakenRecords(NamedTuple):
    """Records that were taken of a partition.

    Attributes:
        messages: in the order of offsets.
        at_end: whether everything that can be read was read.
        gone: whether retention has passed the place at which reading was to begin.
    """

    messages: Sequence[Message]
    at_end: bool
    gone: bool


class LookBackTopics(Protocol):
    """Cluster as a look-back asks it; each answer is as of the call or later."""

    def end(self, place: Place) -> int:
        """Return the offset behind what can be read of a partition; rows of open transactions are behind it."""
        ...

    def marks(self, sink: str) -> Marks:
        """Return the markers of a sink's slots; empty where there is none, or one is about to change."""
        ...

    def begin(self, place: Place, offset: int | None) -> None:
        """Begin to read a partition at an offset, None for its first record."""
        ...

    def taken(self, place: Place) -> TakenRecords:
        """Return what came of a partition since the last call."""
        ...

    def finish(self, place: Place) -> None:
        """Read a partition no more; nothing if it is not read."""
        ...


class Phase(Enum):
    """Phase of a look-back, in its order."""

    COVER = auto()  # the state gets to what the topic of changes has
    FOLLOW = auto()  # the topic of changes gets to what the state has
    WINDOW = auto()  # changes between the two are noted
    STATE = auto()
    SETTLE = auto()  # the topic of changes gets to what the state had as it was read
    DONE = auto()
    LOST = auto()  # retention has passed its place: from the beginning


class Ask(NamedTuple):
    """Question of a look-back: its partitions and sinks.

    Attributes:
        changes: partition of the topic of changes.
        state: partition of the state topic.
        changes_sink: sink of the flow that writes the changes.
        state_sink: sink of the flow that writes the state.
        tombstones_s: seconds that the state topic keeps tombstones at least.
        patience_s: seconds to wait until both sinks stand at the same batch.
    """

    changes: Place
    state: Place
    changes_sink: str
    state_sink: str
    tombstones_s: float
    patience_s: float


class LookBack:
    """Look-back of one partition; `step` until its phase is DONE or LOST. Used by one thread at a time.

    The changes before `first` are in the state as it is read, since its sink stood at the batch of the last of them, or
    behind it. `window` says of those behind `first` which the state has too. The state is whole for who has read the
    changes up to `whole_at`: a row that is missing because it was compacted away has a newer one before that.

    Args:
        ask: what it is about.
        topics: the cluster.
        clock: seconds that never go back.
    """

    def __init__(self, ask: Ask, topics: LookBackTopics, clock: Callable[[], float]):
        self._ask, self._topics, self._clock = ask, topics, clock
        self._deadline = clock() + ask.patience_s
        self._noted: deque[tuple[Marks, int]] = deque(maxlen=_NOTED)
        self._state_end = self._window_end = 0
        self._begun = 0.0
        self._last: tuple[bytes | None, str] | None = None
        self.phase = Phase.COVER
        self.first = self.whole_at = 0
        self.window = ChangesWindow()
        self.rows = 0
        self.why = ""

    @property
    def reads(self) -> bool:
        """True while it waits for records."""
        return self.phase in (Phase.WINDOW, Phase.STATE)

    def step(self) -> list[Message]:
        """Go on as far as possible without waiting; return rows of the state that are to be delivered.

        Raises:
            StateBehindError: the sinks do not come to the same batch in time.
            StateTopicError: a record is not as a state topic has it.
        """
        if self.phase is Phase.COVER:
            self._cover()
        elif self.phase is Phase.FOLLOW:
            self._follow()
        elif self.phase is Phase.WINDOW:
            self._note_window()
        elif self.phase is Phase.STATE:
            return self._state()
        elif self.phase is Phase.SETTLE:
            self._settle()
        return []

    def close(self) -> None:
        """Read no more."""
        self._topics.finish(self._ask.changes)
        self._topics.finish(self._ask.state)

    def _cover(self) -> None:
        ask = self._ask
        found = self._met(ask.changes, ask.changes_sink, ask.state_sink)
        if found is not None:
            self.first = found
            self._noted.clear()
            self.phase = Phase.FOLLOW

    def _follow(self) -> None:
        ask = self._ask
        found = self._followed()
        if found is None:
            return
        self._state_end, self._window_end = found, self._topics.end(ask.changes)
        log.info("%s:%d: its state is read, up to offset %d of %s", *ask.changes, found, ask.state[0])
        if self.first >= self._window_end:
            self._begin_state()
            return
        self.phase = Phase.WINDOW
        self._topics.begin(ask.changes, self.first)

    def _followed(self) -> int | None:
        return self._met(self._ask.state, self._ask.state_sink, self._ask.changes_sink)

    def _met(self, place: Place, sink: str, other: str) -> int | None:
        """Return an end of a partition of which the other sink has all; None where that is not so yet.

        The end is asked for before the markers: rows before it are of their batches, or of earlier ones.
        """
        end = self._topics.end(place)
        marks = self._topics.marks(sink)
        if self._noted and self._noted[-1][0] == marks:
            self._noted.pop()
        self._noted.append((marks, end))
        reached = self._topics.marks(other)
        for noted, at in reversed(self._noted):
            if has_all(reached, noted):
                return at
        if self._clock() > self._deadline:
            raise StateBehindError(
                f"{self._ask.changes[0]}: sink {sink} stands at {_said(marks)}, sink {other} at {_said(reached)}: for "
                f"{self._ask.patience_s:.0f} s they were not seen at the same one"
            )
        return None

    def _note_window(self) -> None:
        place = self._ask.changes
        taken = self._topics.taken(place)
        for message in taken.messages:
            if message.offset() < self._window_end:
                key = message.key()
                self.window.note(key, "" if key is None else event_of(message), message.offset())
        if taken.gone:
            self._lose(f"retention has passed offset {self.first} of {place[0]}:{place[1]}")
        elif taken.at_end or (taken.messages and taken.messages[-1].offset() >= self._window_end - 1):
            self._topics.finish(place)
            self._begin_state()

    def _begin_state(self) -> None:
        self.phase = Phase.STATE
        self._begun = self._clock()
        self._topics.begin(self._ask.state, None)

    def _state(self) -> list[Message]:
        place = self._ask.state
        taken = self._topics.taken(place)
        found = [message for message in taken.messages if message.offset() < self._state_end and self._is_news(message)]
        self.rows += len(found)
        if taken.gone:
            self._lose(f"records of {place[0]}:{place[1]} were deleted as they were read")
        elif taken.at_end or (taken.messages and taken.messages[-1].offset() >= self._state_end - 1):
            self._topics.finish(place)
            if self._clock() - self._begun >= self._ask.tombstones_s:
                self._lose(f"reading took longer than {place[0]} keeps tombstones, {self._ask.tombstones_s:.0f} s")
            else:
                self.phase = Phase.SETTLE
                self._noted.clear()
                self._deadline = self._clock() + self._ask.patience_s
        return found

    def _settle(self) -> None:
        if self._followed() is not None:
            self.whole_at = self._topics.end(self._ask.changes)
            self.phase = Phase.DONE

    def _is_news(self, message: Message) -> bool:
        """Note a row of the state; return False for the tombstone of a delete that came just before."""
        key, event_id = message.key(), event_of(message)
        if key is None:
            raise StateTopicError(f"{message.topic()}:{message.partition()}:{message.offset()} has no key")
        self.window.state_has(key, event_id)
        again = message.value() is None and self._last == (key, event_id)
        self._last = (key, event_id)
        return not again

    def _lose(self, why: str) -> None:
        self.close()
        self.phase, self.why = Phase.LOST, why


def has_all(reached: Marks, noted: Marks) -> bool:
    """Return whether a sink has everything that another one had.

    It has where it has written the same batch to its end: numbers are of one flow, and a batch is the same rows at each
    sink. A greater number alone does not say it: a sink that is behind has batches of its own, of older rows. Both have
    the same too where both have written up to the same place at the source.

    Args:
        reached: markers of the one sink, read later.
        noted: markers of the other one.
    """
    if not reached or not noted or not all(mark.whole for mark in reached):
        return False
    newest = max(mark.batch for mark in noted)
    if all(mark.batch == newest for mark in reached):
        return True
    ends = {mark.end for mark in (*reached, *noted)}
    return all(mark.whole for mark in noted) and len(ends) == 1 and "" not in ends


def _said(marks: Marks) -> str:
    if not marks:
        return "no batch"
    return "batch " + ", ".join(f"{mark.batch}{'' if mark.whole else ' (unfinished)'}" for mark in marks)
