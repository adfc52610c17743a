"""Offsets: the protocol of every kind, and the offset that counts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

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
