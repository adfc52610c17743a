"""Offsets and ranges of them: how far a source has been read; each kind is in a file of its own.

Importers name this module.
Every offset turns into JSON and back, and compares with others of its kind. The start of a range is exclusive, its end
inclusive; this is written only here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.binlog_offset import BINLOG_OFFSET, BinlogOffset, PreparedTransaction
from databus.core.positions.kafka_offsets import KAFKA_OFFSETS, KafkaOffsets
from databus.core.positions.offset import SEQUENCE_OFFSET, Offset, Ordering, SequenceOffset
from databus.core.positions.offset_kinds import is_foreign, offset_from_json

__all__ = [
    "BINLOG_OFFSET",
    "KAFKA_OFFSETS",
    "SEQUENCE_OFFSET",
    "BinlogOffset",
    "KafkaOffsets",
    "Offset",
    "OffsetRange",
    "Ordering",
    "PreparedTransaction",
    "SequenceOffset",
    "is_foreign",
    "offset_from_json",
    "offset_of",
]

OfKind = TypeVar("OfKind")


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


def offset_of(kind: type[OfKind], offset: Offset, wanted: str, hint: str, source: str = "") -> OfKind:
    """Return an offset as one of a kind.

    Args:
        kind: its class.
        offset: the offset.
        wanted: what it is to be of, for the error: "a binlog".
        hint: what to do about one of another kind.
        source: name of the source, for the error.

    Raises:
        OffsetInvalidError: it is of another kind.
    """
    if not isinstance(offset, kind):
        place = f"{source}: " if source else ""
        raise OffsetInvalidError(f"{place}{offset} is an offset of kind {offset.kind}, not of {wanted}", hint=hint)
    return offset
