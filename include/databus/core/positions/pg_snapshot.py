"""Offset of a PostgreSQL table whose rows carry the id of their transaction: a snapshot, and a place in the next one.

Source: PostgreSQL documentation, "System Information Functions", table of `pg_snapshot` components (xmin, xmax, xip).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from databus.core.positions.offset import Offset, Ordering
from databus.core.stored_form import Form

PG_SNAPSHOT_OFFSET = Form("PostgreSQL snapshot offset", "kind seen within number", part=True)


@dataclass(frozen=True)
class PgSnapshot:
    """Transactions that had ended at one moment.

    Attributes:
        xmin: every transaction below had ended.
        xmax: none from here on had begun to write.
        open: ids between the two that had not ended.
    """

    xmin: int
    xmax: int
    open: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> PgSnapshot:
        """Read PostgreSQL's text, e.g. "10:20:10,14,15".

        Raises:
            ValueError: it is none.
        """
        xmin, xmax, ids = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(each) for each in ids.split(",") if each))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.open)))}"

    def sees(self, transaction: int) -> bool:
        """Return whether a transaction had ended."""
        return transaction < self.xmax and transaction not in self.open

    def reaches(self, other: PgSnapshot) -> bool:
        """Return whether all that had ended for the other had ended here too."""
        end = other.end
        return self.end >= end and all(end <= each or each in other.open for each in self.open)

    @property
    def end(self) -> int:
        """The id from which on nothing had ended."""
        end = self.xmax
        while end - 1 in self.open:
            end -= 1
        return end


NOTHING = PgSnapshot(1, 1)
"""Sees no transaction."""


@dataclass(frozen=True)
class PgSnapshotOffset:
    """Place behind all transactions that a snapshot sees, and behind some that the next one sees.

    Attributes:
        seen: the snapshot, as PostgreSQL writes it; all that it sees was read.
        within: a later snapshot, of whose transactions only a part was read; "" where none was begun.
        number: of that part: transactions whose highest number is at most this one.
    """

    seen: str
    within: str = ""
    number: int = 0
    kind: str = field(default="pg_snapshot", init=False)

    @cached_property
    def lower(self) -> PgSnapshot:
        """The snapshot that was read to its end."""
        return PgSnapshot.parse(self.seen)

    @cached_property
    def upper(self) -> PgSnapshot:
        """The snapshot that is being read, or the one that was."""
        return PgSnapshot.parse(self.within or self.seen)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        part = {"within": self.within, "number": self.number} if self.within else {}
        return PG_SNAPSHOT_OFFSET.write({"kind": self.kind, "seen": self.seen, **part})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PgSnapshotOffset:
        """Read what `to_json` wrote.

        Raises:
            ValueError: a text is no snapshot.
        """
        values = PG_SNAPSHOT_OFFSET.read(data)
        del values["kind"]
        found = cls(**values)
        _ = found.lower, found.upper
        return found

    def compare(self, other: Offset) -> Ordering:
        """Order by what was read; DIVERGED for a place inside what the other one has as a whole or in another cut."""
        if not isinstance(other, PgSnapshotOffset):
            return Ordering.DIVERGED
        if (self.seen, self.within) == (other.seen, other.within):
            if self.number == other.number:
                return Ordering.EQUAL
            return Ordering.BEFORE if self.number < other.number else Ordering.AFTER
        if other.lower.reaches(self.upper):
            both = self.upper.reaches(other.lower) and not self.within and not other.within
            return Ordering.EQUAL if both else Ordering.BEFORE
        return Ordering.AFTER if self.lower.reaches(other.upper) else Ordering.DIVERGED

    def __str__(self) -> str:
        return f"{self.seen} and {self.within} up to {self.number}" if self.within else self.seen
