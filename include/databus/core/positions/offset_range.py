"""Range of a source's log. `start` is exclusive, `end` inclusive; this is written only here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.offset import Offset, Ordering
from databus.core.positions.offset_kinds import offset_from_json


@dataclass(frozen=True)
class OffsetRange:
    """The half-open range (start, end]: start was read already, end is the last to read.

    Attributes:
        start: last committed offset, exclusive.
        end: last offset of the range, inclusive; never before start.
    """

    start: Offset
    end: Offset

    def __post_init__(self) -> None:
        if self.end.compare(self.start) not in (Ordering.EQUAL, Ordering.AFTER):
            raise OffsetInvalidError(f"a range cannot go from {self.start} back to {self.end}")

    @property
    def empty(self) -> bool:
        """Return whether nothing lies in the range."""
        return self.end.compare(self.start) is Ordering.EQUAL

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"start": self.start.to_json(), "end": self.end.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OffsetRange:
        """Read what `to_json` wrote."""
        return cls(offset_from_json(data["start"]), offset_from_json(data["end"]))

    def __str__(self) -> str:
        return f"({self.start}, {self.end}]"
