"""The closing of a changed flow's plan in the protocol model: the product's own code, one request to Kafka at a step.

`runtime.plan` runs from its beginning at each step. Requests that were answered before get the same answers, the next
one is done on the slots as they are now, and at the one after that the code is left where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from databus.core.errors import DatabusError, SinkFencedError
from databus.core.plan import Plan
from databus.runtime import plan as runtime_plan
from databus.sinks.kafka import fenced_plan, upkeep
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
        marks: batches that the slots hold, None while the closing goes on or where it failed.
        error: what ended it, None while it goes on.
    """

    text: str
    slots: Slots
    answers: tuple[Any, ...]
    marks: tuple[int, ...] | None = None
    error: DatabusError | None = None


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

    def __init__(self, kafka: _Kafka):
        self._kafka = kafka

    def _producer(self, limits: Any) -> Any:
        return self._kafka

    def markers(self, count: int) -> Sequence[Marker | None]:
        found = self._kafka.ask("reads all markers", lambda slots: (tuple(slot.marker for slot in slots), slots))
        return [_parsed(text) for text in found[:count]]


class Closings:
    """Steps of closings, each computed once."""

    def __init__(self) -> None:
        self._memory: dict[Any, ClosingStep] = {}

    def step(self, plan: Plan, answers: tuple[Any, ...], slots: Slots) -> ClosingStep:
        """Do the next request of a closing."""
        key = (plan.hash, answers, slots)
        if key not in self._memory:
            self._memory[key] = _step(plan, answers, slots)
        return self._memory[key]


def _step(plan: Plan, answers: tuple[Any, ...], slots: Slots) -> ClosingStep:
    kafka = _Kafka(slots, answers)
    session: Any = SimpleNamespace(sinks={SINK: _Sink(kafka)})
    marks: tuple[int, ...] | None = None
    error: DatabusError | None = None

    def opened(key: MarkerKey, slot: int, settings: _Kafka) -> _Session:
        return _Session(settings, slot)

    with mock.patch.object(fenced_plan, "Session", opened), mock.patch.object(upkeep, "Session", opened):
        try:
            marks = runtime_plan._abandon(session, plan)[SINK]
        except _Left:
            pass
        except DatabusError as raised:
            error = raised
    return ClosingStep(kafka.text, kafka.slots, kafka.answers, marks, error)


def _parsed(text: str) -> Marker | None:
    return Marker.parse(json.loads(text)["batch"], text) if text else None
