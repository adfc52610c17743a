"""Deliveries to a consumer: which records are out, until when, and up to where all are acknowledged; pure, no Kafka.

A delivery is a span of offsets in some partitions. It is open until it is acknowledged; after its deadline it is made
again, with a new id. The place of a partition is the first offset that is not acknowledged.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from databus.core.errors.stream import StreamDeliveryError

Span = tuple[int, int]
"""First offset, and the one behind the last."""


@dataclass(frozen=True)
class OpenDelivery:
    """Delivery that waits for its acknowledgement.

    Attributes:
        id: by which it is acknowledged.
        spans: partition → its records.
        deadline_s: time from which it is made again.
        attempt: 1 for the first one of its records.
    """

    id: str
    spans: Mapping[int, Span]
    deadline_s: float
    attempt: int = 1


class Deliveries:
    """Deliveries of one consumer of a topic.

    Args:
        prefix: of the ids: differs for each start of the service, whose deliveries another start does not know.
    """

    def __init__(self, prefix: str):
        self._prefix, self._numbers = prefix, itertools.count(1)
        self._next: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._open: dict[str, OpenDelivery] = {}
        self._done: dict[int, dict[int, int]] = {}  # partition → start → end of what is acknowledged behind its place

    def __len__(self) -> int:
        return len(self._open)

    @property
    def next(self) -> Mapping[int, int]:
        """Partition → first offset that was never delivered."""
        return self._next

    @property
    def places(self) -> Mapping[int, int]:
        """Partition → first offset that is not acknowledged."""
        return self._places

    def begin(self, places: Mapping[int, int]) -> None:
        """Set partitions to places; what was delivered of them is forgotten."""
        for partition, offset in places.items():
            self._next[partition] = self._places[partition] = offset
            self._done.pop(partition, None)
        left = {one.id: {p: span for p, span in one.spans.items() if p not in places} for one in self._open.values()}
        self._open = {one.id: replace(one, spans=left[one.id]) for one in self._open.values() if left[one.id]}

    def expired(self, now_s: float) -> OpenDelivery | None:
        """Return the delivery whose deadline has passed first; None where none has."""
        late = [one for one in self._open.values() if one.deadline_s <= now_s]
        return min(late, key=lambda one: one.deadline_s, default=None)

    def are_late(self, now_s: float) -> bool:
        """Return whether the deadlines of all open deliveries have passed."""
        return all(one.deadline_s <= now_s for one in self._open.values())

    def is_open(self, delivery: OpenDelivery) -> bool:
        """Return whether a delivery still waits for its acknowledgement, with the same spans."""
        return self._open.get(delivery.id) == delivery

    @property
    def first_deadline_s(self) -> float | None:
        """The next time at which a delivery is made again."""
        return min((one.deadline_s for one in self._open.values()), default=None)

    def deliver(self, ends: Mapping[int, int], deadline_s: float) -> OpenDelivery:
        """Deliver records that follow what was delivered before.

        Args:
            ends: partition → offset behind its last record.
            deadline_s: until when it is to be acknowledged.
        """
        spans = {partition: (self._next[partition], end) for partition, end in ends.items()}
        self._next.update(ends)
        return self._opened(OpenDelivery(self._id(), spans, deadline_s))

    def again(self, late: OpenDelivery, deadline_s: float) -> OpenDelivery:
        """Deliver the records of a late delivery once more; its own id does not count any more."""
        del self._open[late.id]
        return self._opened(OpenDelivery(self._id(), late.spans, deadline_s, late.attempt + 1))

    def after(self, delivery_id: str) -> dict[int, int]:
        """Return the places of partitions that move when a delivery is acknowledged; nothing changes yet.

        Raises:
            StreamDeliveryError: it is not open.
        """
        moved = {}
        for partition, (start, end) in self._of(delivery_id).spans.items():
            place = self._moved(partition, start, end)
            if place != self._places[partition]:
                moved[partition] = place
        return moved

    def acknowledge(self, delivery_id: str) -> bool:
        """Take a delivery's records as handled.

        Returns:
            Whether the places are behind all of them now: not while a delivery before one of its spans is open.

        Raises:
            StreamDeliveryError: it is not open.
        """
        delivery = self._of(delivery_id)
        del self._open[delivery_id]
        for partition, (start, end) in delivery.spans.items():
            place = self._moved(partition, start, end)
            done = self._done.setdefault(partition, {})
            done[start] = end
            for begun in [begun for begun in done if begun < place]:
                del done[begun]
            self._places[partition] = place
        return all(self._places[partition] >= end for partition, (_, end) in delivery.spans.items())

    def _moved(self, partition: int, start: int, end: int) -> int:
        done = {**self._done.get(partition, {}), start: end}
        place = self._places[partition]
        while place in done:
            place = done[place]
        return place

    def _of(self, delivery_id: str) -> OpenDelivery:
        found = self._open.get(delivery_id)
        if found is None:
            raise StreamDeliveryError(f"delivery {delivery_id[:80]} is not open")
        return found

    def _opened(self, delivery: OpenDelivery) -> OpenDelivery:
        self._open[delivery.id] = delivery
        return delivery

    def _id(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"
