"""Bounded memory of event ids, by which repeats are told."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from databus.consumer.change import Change, Place


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
