"""Named gaps: ranges of a source's log that a flow has not read and will not read by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from databus.core.errors.source import SourceDivergedError
from databus.core.positions.offset_ranges import overlap
from databus.core.positions.offsets import Offset, OffsetRange, offset_from_json
from databus.core.stored_form import Form

GAP = Form("gap", "number from to cause decision who why at run_url")

PURGED = "purged"
"""Cause of a gap of what the source's log has no more; others were skipped by a person."""

_OF_SINK = "sink "

OPEN, SKIPPED = "open", "skipped"
"""Decisions: none yet (the flow stands before the gap and stops there); passed over by a person.

One that was passed over says instead what mends it, or has mended it, while a snapshot of the flow's tables does
(`databus.checkpoints.rules.mending`).
"""


@dataclass(frozen=True)
class Gap:
    """Gap: a range known to be missing, with its cause and what was decided about it.

    Attributes:
        number: position among the flow's gaps, from 1.
        start: last offset before the gap, exclusive.
        end: last offset of the gap, inclusive.
        cause: why the range was not read, e.g. "purged" or "skip".
        decision: what was decided, e.g. "skipped" or "mended by snapshot 2".
        who: run id or user that decided.
        why: the reason given.
        at: when, aware UTC.
        run_url: address of the page of the run that ran into it, "" when unknown.
    """

    number: int
    start: Offset
    end: Offset
    cause: str
    decision: str
    who: str
    why: str
    at: datetime
    run_url: str = ""

    @property
    def of_sink(self) -> bool:
        """Return whether one sink alone gave it up, while it was behind: the flow moved it."""
        return self.cause.startswith(_OF_SINK)

    @property
    def passed(self) -> bool:
        """Return whether it was passed over: whatever has become of it since."""
        return self.decision != OPEN

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return GAP.write(
            {
                "number": self.number,
                "from": self.start.to_json(),
                "to": self.end.to_json(),
                "cause": self.cause,
                "decision": self.decision,
                "who": self.who,
                "why": self.why,
                "at": self.at.isoformat(),
                **({"run_url": self.run_url} if self.run_url else {}),
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Gap:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or an offset of an unknown kind.
        """
        data = GAP.read(data)
        return cls(
            data["number"],
            offset_from_json(data["from"]),
            offset_from_json(data["to"]),
            data["cause"],
            data["decision"],
            data["who"],
            data["why"],
            datetime.fromisoformat(data["at"]),
            data.get("run_url", ""),
        )

    def within(self, moved: OffsetRange) -> bool:
        """Return whether a batch over this range passed over the gap: it was read past, and the log had it no more."""
        passed = self.cause == PURGED and self.passed
        try:
            return passed and overlap(moved, OffsetRange(self.start, self.end))
        except SourceDivergedError:
            return False  # of another log

    def __str__(self) -> str:
        return f"({self.start}, {self.end}] {self.cause}, {self.decision}"


def cause_of_sink(sink: str, cause: str) -> str:
    """Return the cause of a gap that one sink alone has (`Gap.of_sink`)."""
    return f"{_OF_SINK}{sink}: {cause}"
