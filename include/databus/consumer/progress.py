"""Progress of a consumer in the partitions that it has, and the events that it has seen."""

from __future__ import annotations

from collections import OrderedDict

from databus.consumer.change import Change, Place

UNKNOWN = -1


class Progress:
    """Progress in one partition, for as long as the consumer has it.

    Attributes:
        place: topic and partition.
        read: offset behind what was taken from the topic; UNKNOWN before the first.
        delivered: offset behind what the caller was given, left out records included.
        acked: offset behind what is acknowledged: what is stored as the checkpoint.
        stored: the checkpoint, as it was stored last.
        last: offset of the change that was delivered last.
        owned: whether the consumer still has the partition.
        at_end: whether everything that can be read was read.
        ended: time at which that was so last, of the feed's clock; below 0 before.
    """

    __slots__ = ("acked", "at_end", "delivered", "ended", "last", "owned", "place", "read", "stored")

    def __init__(self, place: Place, offset: int):
        """Begin at an offset; UNKNOWN or less where Kafka has still to find it."""
        self.place = place
        self.read = self.delivered = self.acked = self.stored = max(offset, UNKNOWN)
        self.last = UNKNOWN
        self.owned, self.at_end, self.ended = True, False, -1.0

    def deliver(self, offset: int) -> None:
        """Note that the change at an offset is given to the caller."""
        self.last, self.delivered = offset, offset + 1

    def pass_over(self, behind: int) -> None:
        """Note that a record is left out: acknowledged with what was delivered before it."""
        if self.acked == self.delivered:
            self.acked = behind
        self.delivered = behind

    def acknowledge(self, change: Change) -> None:
        """Acknowledge a change and all before it in its partition; nothing where the partition went elsewhere."""
        offset = change.offset
        self.acked = max(self.acked, self.delivered if offset == self.last else offset + 1)

    def acknowledge_all(self) -> None:
        """Acknowledge all that was delivered."""
        self.acked = self.delivered


class Seen:
    """Event ids of the last changes of each partition that were handled, in memory.

    `if change in seen: continue`, and `seen.add(change)` once it is handled; `Changes(seen=Seen())` does both. After a
    restart it is empty: then a checkpoint in the caller's own transaction keeps repeats out, or a unique key on the
    event id.

    Args:
        most: ids kept for a partition, e.g. 10_000; default 100,000, some 20 MB.
    """

    def __init__(self, most: int = 100_000):
        if most < 1:
            raise ValueError("most must be 1 or more")
        self._most = most
        self._of: dict[Place, OrderedDict[str, None]] = {}

    def __contains__(self, change: Change) -> bool:
        """Return whether a change was handled before."""
        return change.event_id in self._of.get((change.topic, change.partition), ())

    def add(self, change: Change) -> None:
        """Remember a change that is handled; the oldest of its partition is forgotten where there are too many."""
        ids = self._of.setdefault((change.topic, change.partition), OrderedDict())
        ids[change.event_id] = None
        if len(ids) > self._most:
            ids.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._of.clear()

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))
