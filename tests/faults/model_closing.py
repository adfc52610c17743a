"""Closing a changed flow's plan, and opening it again, in the protocol model: one request to a server at a step.

The product's own code runs from its beginning at each step. Requests that were answered before get the same answers,
the next one is done on the slots as they are now, and at the one after that the code is left where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from databus.core.errors import DatabusError, SinkFencedError, StaleEpochError
from databus.core.state.plan import Plan
from databus.core.state.sink_markers import SlotMark
from databus.runtime.takeover import closing, given_up
from databus.sinks.kafka import fenced_plan
from databus.sinks.kafka import marker_upkeep as upkeep
from databus.sinks.kafka.claim_register import mark_of
from databus.sinks.kafka.markers import Marker, MarkerKey
from databus.sinks.kafka.sink import KafkaSink
from tests.faults.model_state import FLOW, SINK, Slot, put

Slots = tuple[Slot, ...]
_KEY = MarkerKey("i", FLOW, SINK)


@dataclass(frozen=True)
class ClosingStep:
    """One request of a closing, and what follows from its answer.

    Attributes:
        text: what happens.
        slots: the slots after it.
        answers: all answers so far.
        marks: batches that the slots hold after a closing, None while it goes on or where it failed.
        error: what ended it, None while it goes on.
        done: whether it came to its end.
    """

    text: str
    slots: Slots
    answers: tuple[Any, ...]
    marks: tuple[int, ...] | None = None
    error: DatabusError | None = None
    done: bool = False


class _Left(BaseException):
    """The code is left at its next request."""


class _Kafka:
    """Answers requests: the known ones as before, one more on the slots, then none."""

    def __init__(self, slots: Slots, answers: tuple[Any, ...]):
        self.slots, self.answers, self.text = slots, answers, ""
        self._known = len(answers)
        self._asked = 0

    def ask(self, text: str, request: Callable[[Slots], tuple[Any, Slots]]) -> Any:
        if self._asked == len(self.answers):
            if len(self.answers) > self._known:
                raise _Left
            answer, self.slots = request(self.slots)
            self.answers, self.text = (*self.answers, answer), text
        self._asked += 1
        return self.answers[self._asked - 1]


class _Session:
    """A slot's session on the model's Kafka."""

    def __init__(self, kafka: _Kafka, slot: int):
        self._kafka, self._slot = kafka, slot
        self._producer = kafka.ask(f"closes slot {slot}: init_transactions", self._init)

    def _init(self, slots: Slots) -> tuple[Any, Slots]:
        slot = slots[self._slot]
        return slot.producer + 1, put(slots, self._slot, slot._replace(producer=slot.producer + 1))

    def marker(self) -> Marker | None:
        return _parsed(
            self._kafka.ask(f"closes slot {self._slot}: reads", lambda slots: (slots[self._slot].marker, slots))
        )

    def begin(self) -> None:
        pass

    def commit(self, marker: Marker) -> None:
        def request(slots: Slots) -> tuple[Any, Slots]:
            slot = slots[self._slot]
            if slot.producer != self._producer:
                return "fenced", slots
            return "", put(slots, self._slot, slot._replace(marker=marker.metadata()))

        if self._kafka.ask(f"closes slot {self._slot}: commits {marker}", request):
            raise SinkFencedError("fenced")

    def discard(self) -> None:
        pass


class _Sink:
    """What the closing uses of a Kafka sink, by the product's own methods."""

    marked = True
    key = _KEY
    spec = SimpleNamespace(sink_name=SINK)
    topics = SimpleNamespace(partitions=lambda: {"_databus_markers": 16})
    fence, wrote_any_of, abandon = KafkaSink.fence, KafkaSink.wrote_any_of, KafkaSink.abandon
    register = KafkaSink.register

    def __init__(self, kafka: _Kafka):
        self._kafka = kafka

    def _producer(self, limits: Any) -> Any:
        return self._kafka

    def markers(self, count: int) -> Sequence[Marker | None]:
        found = self._kafka.ask("reads all markers", lambda slots: (tuple(slot.marker for slot in slots), slots))
        return [_parsed(text) for text in found[:count]]

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:
        return [mark_of(marker) if marker is not None and marker.batch else None for marker in self.markers(slots)]


class Closings:
    """Steps of closings and openings, each computed once."""

    def __init__(self) -> None:
        self._memory: dict[Any, ClosingStep] = {}

    def step(
        self, plan: Plan, answers: tuple[Any, ...], slots: Slots, *, stale: bool, opens: bool = False
    ) -> ClosingStep:
        """Do the next request of a closing, or of an opening; `stale` is what ZooKeeper says of the claim by now."""
        key = (plan.hash, answers, slots, stale, opens)
        if key not in self._memory:
            self._memory[key] = _step(plan, _Kafka(slots, answers), stale=stale, opens=opens)
        return self._memory[key]


def _step(plan: Plan, kafka: _Kafka, *, stale: bool, opens: bool) -> ClosingStep:
    session: Any = SimpleNamespace(sinks={SINK: _Sink(kafka)})
    marks: tuple[int, ...] | None = None
    error: DatabusError | None = None
    done = False

    def confirm() -> None:
        if kafka.ask("confirms its claim", lambda slots: (stale, slots)):
            raise StaleEpochError("another has claimed the flow")

    lease: Any = SimpleNamespace(confirm=confirm)

    def opened(key: MarkerKey, slot: int, settings: _Kafka) -> _Session:
        return _Session(settings, slot)

    with mock.patch.object(fenced_plan, "Session", opened), mock.patch.object(upkeep, "Session", opened):
        try:
            if opens:
                closing.open_again(session.sinks, plan, lease)
            else:
                marks = given_up.abandon(session, lease, plan, None)[SINK]
            done = True
        except _Left:
            pass
        except DatabusError as raised:
            error = raised
    return ClosingStep(kafka.text, kafka.slots, kafka.answers, marks, error, done)


def _parsed(text: str) -> Marker | None:
    return Marker.parse(json.loads(text)["batch"], text) if text else None
