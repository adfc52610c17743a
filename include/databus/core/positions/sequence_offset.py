"""Offset of a source that counts its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from databus.core.positions.offset import Offset, Ordering
from databus.core.stored_form import Form

SEQUENCE_OFFSET = Form("sequence offset", "kind sequence", part=True)


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
