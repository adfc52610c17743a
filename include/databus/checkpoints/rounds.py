"""Rounds of a write whose versions others may change in between: read, write, and once more over what is there then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from databus.checkpoints.nodes.flow_state import FlowState

MOST_ROUNDS = 50
"""Writes of one call in all, however often others change the state between its reads and its writes."""


def rounds(read: Callable[[bool], FlowState], fruitless: int, *, sync: bool = False) -> Iterator[FlowState]:
    """Yield the state that each write goes by, until the caller stops asking.

    A write that lost to others (a pause to commits, a commit to pauses) is tried again over what they left; only
    refusals over an unchanged state count as fruitless.

    Args:
        read: returns the state; given whether ZooKeeper has to be up to date first.
        fruitless: writes in a row over one and the same state.
        sync: whether the first read has to be up to date as well.
    """
    same, former = 0, None
    for attempt in range(MOST_ROUNDS):
        state = read(sync or attempt > 0)
        same = same + 1 if state.versions == former else 1
        if same > fruitless:
            return
        former = state.versions
        yield state
