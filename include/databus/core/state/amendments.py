"""Changes that a person makes to a flow's checkpoint: pauses, rewinds, skips, restores, and what they do to sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import Offset
from databus.core.state.plan import Plan
from databus.core.state.snapshot import Snapshot
from databus.core.stored_form import Form

PAUSE = Form("pause", "who why at")

Action = Literal["rewind", "skip", "restore"]


@dataclass(frozen=True)
class Pause:
    """A flow that a person stopped; runs of it end at once until it is resumed.

    Attributes:
        who: user.
        why: reason.
        at: since when, aware UTC.
    """

    who: str
    why: str
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return PAUSE.write({"who": self.who, "why": self.why, "at": self.at.isoformat()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pause:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version.
        """
        data = PAUSE.read(data)
        return cls(data["who"], data["why"], datetime.fromisoformat(data["at"]))

    def __str__(self) -> str:
        return f"paused by {self.who} since {self.at.isoformat(timespec='seconds')}: {self.why}"


@dataclass(frozen=True)
class Amendment:
    """A move of the checkpoint that no batch makes.

    Attributes:
        action: "rewind" goes back, "skip" forward, "restore" to where a history entry left it.
        who: user.
        why: reason.
        offset: where the flow goes on from.
        closed: the plan in flight, which every sink has closed; None when there was none.
        slots: sink → batch that the marker of each of its slots holds since `closed` was closed.
        gap: the range that is passed over, when the move goes forward; its number is given by the store.
        gone: sink → output → id of what is there now: outputs that were deleted, which the flow knows no more from then
            on, so that its next batch takes or makes what is there then.
        repair: snapshot of all of the flow's tables that begins in the same step, and mends `gap` once it is finished;
            one that is unfinished ends with it, and what that one was to mend it mends, too.
    """

    action: Action
    who: str
    why: str
    offset: Offset
    closed: Plan | None = None
    slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    gap: Gap | None = None
    gone: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    repair: Snapshot | None = None


@dataclass(frozen=True)
class AcceptedOutputs:
    """Outputs that were deleted or made anew, accepted as they are now; the flow goes on where it stands.

    Attributes:
        who: user.
        why: reason.
        outputs: sink → output → id of what is there now; None where the flow is to know nothing of it: the next batch
            takes what is there then, or makes it.
        replaced: those of them that were deleted, in the same form; the others stand, and are only to be forgotten.
        written: sink → "output[partition]" → records of the plan in flight that went to the former ones; of sinks that
            know.
    """

    who: str
    why: str
    outputs: Mapping[str, Mapping[str, str | None]]
    replaced: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    written: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class SinkEffect:
    """Effect of a move of the checkpoint on one sink.

    Attributes:
        sink: sink name.
        effect: what its readers will see.
        refused: why the move is not made without the operator's explicit consent; "" when it may be made.
    """

    sink: str
    effect: str
    refused: str = ""

    def to_json(self) -> dict[str, str]:
        """Return plain JSON."""
        return {"sink": self.sink, "effect": self.effect, "refused": self.refused}
