"""Progress of a consumer in the partitions that it has, and the events that it has seen."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from databus.consumer.change import Change, Place

if TYPE_CHECKING:
    from databus.consumer.window import ChangesWindow

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
        state: number of the state that it began with, ms since the epoch; 0 without, and behind the state's end.
        window: records that this state may have already; None without.
        whole_at: offset at which the state is whole; UNKNOWN where that is not known yet, or there is none.
        told: whether the caller was given the state's end. Before that nothing is stored: a kill begins anew.
        whole: whether the state's end is acknowledged; True without a state.
    """

    __slots__ = (
        "acked",
        "at_end",
        "delivered",
        "ended",
        "last",
        "owned",
        "place",
        "read",
        "state",
        "stored",
        "told",
        "whole",
        "whole_at",
        "window",
    )

    def __init__(self, place: Place, offset: int):
        """Begin at an offset; UNKNOWN or less where Kafka has still to find it."""
        self.place = place
        self.read = self.delivered = self.acked = self.stored = max(offset, UNKNOWN)
        self.last = UNKNOWN
        self.owned, self.at_end, self.ended = True, False, -1.0
        self.window: ChangesWindow | None = None
        self.state, self.whole_at = 0, UNKNOWN
        self.told = self.whole = True

    @property
    def held(self) -> bool:
        """True while the consumer still has the partition of which this is the progress."""
        return self.owned

    def begin_with_state(self, number: int) -> None:
        """Begin with a state: nothing is stored before it is whole."""
        self.state = number
        self.told = self.whole = False

    def go_on(self, offset: int, whole_at: int, window: ChangesWindow) -> None:
        """Go on behind the state's rows with the changes since.

        Args:
            offset: the first of them.
            whole_at: where the state is whole.
            window: those that the state may have.
        """
        self.read = self.delivered = self.acked = offset
        self.whole_at, self.window = whole_at, window

    def end_state(self) -> None:
        """Note that the caller is given the state's end."""
        self.told, self.window, self.state = True, None, 0
        self.delivered = max(self.delivered, self.whole_at)

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
        self.whole = self.whole or (self.told and offset >= self.whole_at)

    def acknowledge_all(self) -> None:
        """Acknowledge all that was delivered."""
        self.acked = self.delivered
        self.whole = self.told

    def is_stored(self, change: Change) -> bool:
        """Return whether the checkpoint is behind a change."""
        return self.stored > change.offset


class StateProgress(Progress):
    """Progress in a partition of a state topic, which is never stored.

    Args:
        place: topic and partition.
        of: progress in the topic of changes.
    """

    __slots__ = ("of",)

    def __init__(self, place: Place, of: Progress):
        super().__init__(place, UNKNOWN)
        self.of = of
        self.state = of.state

    @property
    def held(self) -> bool:
        """True while the consumer still has the partition of changes."""
        return self.of.owned


class EndProgress(StateProgress):
    """Acknowledgement of a state's end.

    Args:
        of: progress in the topic of changes.
    """

    __slots__ = ()

    def __init__(self, of: Progress):
        super().__init__(of.place, of)

    def deliver(self, offset: int) -> None:
        """Note that the end is given to the caller."""
        super().deliver(offset)
        self.of.end_state()

    def acknowledge(self, change: Change) -> None:  # noqa: ARG002 - there is one alone
        """Acknowledge the end, and all before it."""
        self.acknowledge_all()

    def acknowledge_all(self) -> None:
        """Acknowledge the end, and all before it."""
        super().acknowledge_all()
        self.of.whole = True
        self.of.acked = max(self.of.acked, self.of.whole_at)

    def is_stored(self, change: Change) -> bool:  # noqa: ARG002 - there is one alone
        """Return whether the checkpoint is at the end or behind it."""
        return self.of.stored >= self.of.whole_at


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
        self.of: dict[Place, OrderedDict[str, None]] = {}

    def __contains__(self, change: Change) -> bool:
        """Return whether a change was handled before."""
        return change.event_id in self.of.get((change.topic, change.partition), ())

    def add(self, change: Change) -> None:
        """Remember a change that is handled; the oldest of its partition is forgotten where there are too many."""
        ids = self.of.setdefault((change.topic, change.partition), OrderedDict())
        ids[change.event_id] = None
        if len(ids) > self._most:
            ids.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self.of.clear()

    def __len__(self) -> int:
        return sum(map(len, self.of.values()))
