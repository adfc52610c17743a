"""Segment addresses and rules for large values: what a split carries to the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.core.errors.source import DecodeError

if TYPE_CHECKING:
    from databus.binlog.log.transactions.xa import CommitPlace

LARGE_VALUE_OVER_BYTES = 15 << 20
"""Default limit of a row image: under the 16 MiB of a VARIANT, with room for what surrounds its values."""

MOST_BYTES = (16 << 20) - (256 << 10)
"""Highest limit that leaves a VARIANT room for numbers, times and the row's own structure."""


@dataclass(frozen=True)
class SegmentAddress:
    """Address of a segment, and what reading it needs.

    Attributes:
        uri: address under which every worker reads it.
        file: log file of its transactions.
        start_pos: file position of the first byte after its FORMAT_DESCRIPTION event.
        rows: row changes of captured tables, which reading must find again.
        commits: the XA COMMIT to which its rows belong, None for a segment of the log as it is.
        definitions: of a prepared transaction, what its TABLE_MAP events left open; None where the split's hold.
    """

    uri: str
    file: str
    start_pos: int
    rows: int
    commits: CommitPlace | None = None
    definitions: tuple[PinnedDefinition, ...] | None = None


def check_count(segment: SegmentAddress, found: int) -> None:
    """Compare the row changes that were read with those that were planned.

    Raises:
        DecodeError: they differ.
    """
    if found != segment.rows:
        raise DecodeError(
            f"{segment.file}:{segment.start_pos}: {found} row changes were read where {segment.rows} were planned"
        )


@dataclass(frozen=True)
class LargeValueRules:
    """Large value rules: when a row is too large, and where its largest values go.

    Attributes:
        root: the segment store.
        over_bytes: most bytes of values of variable length in one row image.
    """

    root: str
    over_bytes: int = LARGE_VALUE_OVER_BYTES
