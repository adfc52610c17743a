"""Decided numbers: up to which number no transaction can add a row any more.

A transaction takes its numbers before it commits, so that number 5 may appear after 6 and 7 were read. A number is
decided once every transaction that can hold one up to it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_MOST_LOOKS = 100


class DecidedNumbers:
    """Highest decided number, by looks at who writes to the table.

    A look is the highest number that is there, and *afterwards* the transactions that hold a lock to write to the
    table. Who holds a number takes that lock before it takes the number, and keeps it until its end; numbers are given
    in rising order. So whoever holds a number up to that of a look is in its list, or has ended.

    Attributes:
        number: highest decided number; None before the first one.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._looks: deque[tuple[int, frozenset[str]]] = deque()

    def look(self, newest: int, writers: Iterable[str], doubtful: Iterable[str] = ()) -> int | None:
        """Note a look and return the highest decided number.

        Args:
            newest: highest number that was there before the writers were listed.
            writers: transactions that hold a lock to write, each by a name that no later one has.
            doubtful: those of them that may be older than their name; every earlier look waits for them.
        """
        alive, older = frozenset(writers), frozenset(doubtful)
        self._looks = deque((number, left) for number, names in self._looks for left in [(names & alive) | older])
        if len(self._looks) >= _MOST_LOOKS:
            self._looks.pop()
        self._looks.append((newest, alive))
        while self._looks and not self._looks[0][1]:
            self._reach(self._looks.popleft()[0])
        return self.number

    @property
    def waits_for(self) -> frozenset[str]:
        """Transactions that keep the next number undecided."""
        return self._looks[0][1] if self._looks else frozenset()

    def _reach(self, number: int) -> None:
        self.number = number if self.number is None else max(self.number, number)
