"""Producers' sequences: which request is new, which one a repeat, and which one is refused; pure, without Kafka.

A producer numbers its requests to a topic 0, 1, 2, … Of each the last few are kept with a digest of their records and
the offsets that they got.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.errors.stream import StreamFullError, StreamProducerConflictError, StreamSequenceError

WINDOW = 5
"""Requests of a producer that are kept: so far back a repeat is answered with its offsets."""
_VERSION = 1

Key = tuple[str, str]
"""Topic and producer id."""


@dataclass(frozen=True)
class Offsets:
    """Offsets of a request's records in one partition; records of others may stand between first and last."""

    first: int
    last: int
    count: int


@dataclass(frozen=True)
class WrittenRequest:
    """Request that was written.

    Attributes:
        sequence: its number.
        digest: of its records.
        offsets: partition → its offsets.
    """

    sequence: int
    digest: str
    offsets: Mapping[int, Offsets]


@dataclass(frozen=True)
class ProducerState:
    """State of a producer: its last requests, oldest first, and when the last one was written (ms)."""

    window: tuple[WrittenRequest, ...]
    at_ms: int

    def after(self, written: WrittenRequest, at_ms: int) -> ProducerState:
        """Return the state with one more request."""
        return ProducerState((*self.window, written)[-WINDOW:], at_ms)

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        window = [
            [one.sequence, one.digest, [[p, o.first, o.last, o.count] for p, o in sorted(one.offsets.items())]]
            for one in self.window
        ]
        return json.dumps({"v": _VERSION, "at_ms": self.at_ms, "window": window}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> ProducerState:
        """Read the stored form.

        Raises:
            ValueError: it is none.
        """
        document: Any = json.loads(stored)
        if document["v"] != _VERSION:
            raise ValueError(f"state of a producer of version {document['v']}")
        window = (
            WrittenRequest(sequence, digest, {p: Offsets(first, last, count) for p, first, last, count in offsets})
            for sequence, digest, offsets in document["window"]
        )
        return cls(tuple(window), document["at_ms"])


NEW = ProducerState((), 0)


def judge(state: ProducerState, key: Key, sequence: int, digest: str) -> WrittenRequest | None:
    """Return the request that this one repeats; None for the next one.

    Raises:
        StreamSequenceError: there is a gap before it, or it is older than what is kept.
        StreamProducerConflictError: it was written with other records.
    """
    topic, producer = key
    expected = state.window[-1].sequence + 1 if state.window else 0
    if sequence == expected:
        return None
    if sequence > expected:
        raise _sequence_error(
            f"producer {producer} sends sequence {sequence} to {topic}, the next one is {expected}",
            "Send the sequences between first. A producer id that wrote nothing for long is forgotten: begin a new one "
            "with sequence 0.",
            expected,
        )
    oldest = state.window[0].sequence
    if sequence < oldest:
        raise _sequence_error(
            f"producer {producer} sends sequence {sequence} to {topic}, which was written; of those before {oldest} "
            "the records are not known any more",
            "Go on with the next sequence, or with a new producer id if these are other records.",
            expected,
        )
    found = state.window[sequence - oldest]
    if found.digest != digest:
        raise StreamProducerConflictError(
            f"sequence {sequence} of producer {producer} to {topic} was written with other records; these were not"
        )
    return found


class Producers:
    """States of one lane's producers, in the order of their last request; bounded in number and by idle time.

    Args:
        most: producers at most.
        idle_ms: milliseconds without a request after which one is forgotten.
    """

    def __init__(self, most: int, idle_ms: int):
        self._most, self._idle_ms = most, idle_ms
        self._states: OrderedDict[Key, ProducerState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    @property
    def used(self) -> float:
        """Share of the bound that is in use, 0 to 1."""
        return len(self._states) / self._most

    def __iter__(self) -> Iterator[Key]:
        return iter(self._states)

    def of(self, key: Key, now_ms: int) -> ProducerState:
        """Return a producer's state, `NEW` for one that is not known.

        Raises:
            StreamFullError: it is not known, and there are as many as may be.
        """
        found = self._states.get(key)
        if found is not None and now_ms - found.at_ms <= self._idle_ms:
            return found
        self._forget(now_ms)
        if found is None and len(self._states) >= self._most:
            raise StreamFullError(f"{self._most} producer ids are in use", hint="Use fewer ids, or raise --producers.")
        return NEW

    def keep(self, key: Key, state: ProducerState) -> None:
        """Take a state in, as the one that was used last."""
        self._states[key] = state
        self._states.move_to_end(key)

    def _forget(self, now_ms: int) -> None:
        while self._states:
            key, state = next(iter(self._states.items()))
            if now_ms - state.at_ms <= self._idle_ms:
                return
            del self._states[key]


def _sequence_error(message: str, hint: str, expected: int) -> StreamSequenceError:
    error = StreamSequenceError(message, hint=hint)
    error.expected = expected
    return error
