"""Lag of a flow behind its source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Lag:
    """Distance between a committed offset and the head of the source's log.

    Attributes:
        bytes: log bytes not yet committed; None when the source does not know.
        seconds: age of the oldest uncommitted change; 0.0 when caught up, None when the source does not know.
        head: the head's offset in text form.
        measured_at: when it was measured, aware UTC.
    """

    bytes: int | None
    seconds: float | None
    head: str
    measured_at: datetime

    @property
    def caught_up(self) -> bool:
        """Return whether nothing is left to read."""
        return self.bytes == 0


@dataclass(frozen=True)
class PartitionLag:
    """The same of one partition of a source that has several.

    Attributes:
        topic: topic.
        partition: partition number.
        records: offsets not yet committed up to where reading ends; control records, and records that compaction took,
            count as well.
        seconds: age of the first of them; 0.0 without any, None where it could not be read in time or has no credible
            time.
        held_back: offsets behind them that cannot be read yet, since a transaction is open.
    """

    topic: str
    partition: int
    records: int
    seconds: float | None
    held_back: int = 0


@dataclass(frozen=True)
class Headroom:
    """Retention headroom: distance of a flow's place to the part of the log that the source's server deletes.

    Attributes:
        seconds: until the server may delete the file that the flow stands in; counted from now while the server still
            writes it; None when the server deletes nothing by age.
        bytes: log bytes on the server before the flow's place, which are deleted before it.
        file: the file.
        kept_s: the server's retention in seconds, None for ever.
        low: whether `seconds` is below the flow's threshold.
    """

    seconds: float | None
    bytes: int
    file: str
    kept_s: int | None
    low: bool = False

    def __str__(self) -> str:
        if self.seconds is None:
            return f"{self.file} is not deleted by age; {self.bytes} bytes lie before the flow's place"
        return (
            f"{self.file} may be deleted in {self.seconds:.0f} s (the log is kept for {self.kept_s} s); "
            f"{self.bytes} bytes lie before the flow's place"
        )


def eta_s(left_bytes: int | None, moved_bytes: int, moved_s: float) -> float | None:
    """Return in how many seconds what is left will be moved at the rate of what was moved; None when that is unknown.

    What the source writes meanwhile is not counted: a flow that moves less than that never catches up.
    """
    if left_bytes is None:
        return None
    if left_bytes <= 0:
        return 0.0
    return left_bytes * moved_s / moved_bytes if moved_bytes > 0 and moved_s > 0 else None


def duration_text(seconds: float) -> str:
    """Return a duration in an operator's words, e.g. "2 h 05 min", "3 min 20 s", "8 s"."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
