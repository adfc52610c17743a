"""Address of a segment, and the rows that reading it must find again."""

from __future__ import annotations

from dataclasses import dataclass

from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.core.errors.source import DecodeError


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
