"""Offsets: the protocol of every kind, the offset that counts, and the range between two."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.offset_kinds import offset_from_json
from databus.core.stored_form import Form

SEQUENCE_OFFSET = Form("sequence offset", "kind sequence", part=True)


class Ordering(enum.Enum):
    """Order of one offset to another."""

    BEFORE = "before"
    EQUAL = "equal"
    AFTER = "after"
    DIVERGED = "diverged"


@runtime_checkable
class Offset(Protocol):
    """A place in a source's log.

    Another package's class is found by its kind (`offset_kinds`) and has the classmethod
    `from_json(data: Mapping[str, Any])`, which reads what `to_json` wrote. Its `str()` is the place as people read it:
    the same text in every process. It has no `__bool__` and no `__len__`: an offset is never false.
    """

    @property
    def kind(self) -> str:
        """Registry name of this kind of offset."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON with the key `kind`; a checkpoint holds it as it is."""
        ...

    def compare(self, other: Offset) -> Ordering:
        """Say where this offset lies as seen from the other; DIVERGED when they cannot be ordered."""
        ...


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


@dataclass(frozen=True)
class SequenceOffset:
    """A plain counter: the number of the last record read (0 before the first).

    Attributes:
        sequence: last record read.
    """

    sequence: int
    kind: str = field(default="sequence", init=False)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return SEQUENCE_OFFSET.write({"kind": self.kind, "sequence": self.sequence})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SequenceOffset:
        """Read what `to_json` wrote."""
        values = SEQUENCE_OFFSET.read(data)
        del values["kind"]
        return cls(**values)

    def compare(self, other: Offset) -> Ordering:
        """Order by number."""
        if not isinstance(other, SequenceOffset):
            return Ordering.DIVERGED
        if self.sequence == other.sequence:
            return Ordering.EQUAL
        return Ordering.BEFORE if self.sequence < other.sequence else Ordering.AFTER

    def __str__(self) -> str:
        return str(self.sequence)
