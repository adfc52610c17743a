"""Backfills: ranges of a source's log that are moved beside the live flow, each with checkpoints of its own."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from databus.core.errors.config import BackfillRangeError
from databus.core.positions.offsets import (
    BinlogOffset,
    KafkaOffsets,
    Offset,
    OffsetRange,
    is_foreign,
    offset_from_json,
)
from databus.core.protocols.source import Source
from databus.core.state.checkpoint_store import Lease
from databus.core.state.plan import SourcePlan
from databus.core.stored_form import Form, canonical_json

BOUNDARY = Form("boundary", "at offset")
BACKFILL = Form("backfill", "flow mode suffix name range wanted pieces who at")

PLANNING = "backfill"
"""Name of the lease under which a flow's backfills are planned, one at a time: no two take up the same changes."""


class Mode(enum.StrEnum):
    """Backfill mode: what it moves, and where to."""

    MISSING = "missing"
    """What neither the flow's ledger nor that of another such backfill shows as moved, to the live outputs."""
    REPLAY = "replay"
    """All of the range again, to outputs of its own."""


@dataclass(frozen=True)
class Boundary:
    """The place of a moment in a flow's log, fixed once; intervals that meet there share it.

    Attributes:
        at: the moment, aware UTC.
        offset: all before it committed earlier by the running maximum of commit time, the next one at or after it.
    """

    at: datetime
    offset: Offset

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return BOUNDARY.write({"at": self.at.isoformat(), "offset": self.offset.to_json()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Boundary:
        """Read what `to_json` wrote."""
        data = BOUNDARY.read(data)
        return cls(datetime.fromisoformat(data["at"]), offset_from_json(data["offset"]))


@dataclass(frozen=True)
class Aim:
    """Backfill aim: what decides its outputs, beside its range.

    Attributes:
        mode: what is moved.
        suffix: put behind the names of topics and indices of a replay; "" for the live ones.
        name: distinguishes replays of one range: the same range under the same name is moved once.
    """

    mode: Mode
    suffix: str = ""
    name: str = ""


def aim_of(mode: Mode, suffix: str, name: str, *, into_live: bool) -> Aim:
    """Return what decides a backfill's outputs; what is missing goes to the live ones.

    Raises:
        BackfillRangeError: a replay beside the live outputs needs a suffix.
    """
    if mode is Mode.MISSING:
        return Aim(mode)
    if not suffix and not into_live:
        raise BackfillRangeError("a replay needs a suffix", hint="Give one, or choose the live outputs (into_live).")
    return Aim(mode, "" if into_live else suffix, name)


@dataclass(frozen=True)
class Backfill:
    """A backfill that was asked for; written once, before any of it is moved.

    Attributes:
        flow: flow name.
        aim: what is moved, where to.
        range: (start, end] in the source's log.
        wanted: from and to, in the words they were given in.
        pieces: what is moved of the range, in log order; none when nothing is missing.
        who: run or user that asked first.
        at: when.
    """

    flow: str
    aim: Aim
    range: OffsetRange
    wanted: tuple[str, str]
    pieces: tuple[OffsetRange, ...]
    who: str
    at: datetime

    @property
    def id(self) -> str:
        """Mode and 12 hex digits of what is wanted: the same range for the same aim is the same backfill."""
        return backfill_id(self.aim, self.range)

    def piece_name(self, number: int) -> str:
        """Return the name under which a piece has its checkpoint, lease, markers and ledger."""
        return f"{self.flow}.{PLANNING}-{self.id}-{number}"

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return BACKFILL.write(
            {
                "flow": self.flow,
                "mode": str(self.aim.mode),
                "suffix": self.aim.suffix,
                "name": self.aim.name,
                "range": self.range.to_json(),
                "wanted": list(self.wanted),
                "pieces": [piece.to_json() for piece in self.pieces],
                "who": self.who,
                "at": self.at.isoformat(),
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Backfill:
        """Read what `to_json` wrote."""
        data = BACKFILL.read(data)
        return cls(
            data["flow"],
            Aim(Mode(data["mode"]), data["suffix"], data["name"]),
            OffsetRange.from_json(data["range"]),
            (data["wanted"][0], data["wanted"][1]),
            tuple(OffsetRange.from_json(piece) for piece in data["pieces"]),
            data["who"],
            datetime.fromisoformat(data["at"]),
        )


def dag_name(flow: str) -> str:
    """Return the name of a flow's backfill DAG: its runs move pieces, and each is recorded under its own name."""
    return f"{flow}_{PLANNING}"


def pieces_moved_by(dag: str) -> str | None:
    """Return how the names begin of the pieces that a backfill DAG's runs move; None when it is not called as one."""
    flow = dag.removesuffix(f"_{PLANNING}")
    return f"{flow}.{PLANNING}-" if flow not in ("", dag) else None


def piece_of(name: str) -> tuple[str, str, int] | None:
    """Return the flow, the backfill's id and the number that a piece's name is made of; None when it is no piece's."""
    flow, _, rest = name.partition(f".{PLANNING}-")
    backfill, _, number = rest.rpartition("-")
    return (flow, backfill, int(number)) if flow and backfill and number.isdecimal() else None


def backfill_id(aim: Aim, wanted: OffsetRange) -> str:
    """Return the id of a backfill; places count by what a log calls them, not by what else is known of them."""
    key = [str(aim.mode), aim.suffix, aim.name, _called(wanted.start), _called(wanted.end)]
    return f"{aim.mode}-{hashlib.sha256(canonical_json(key)).hexdigest()[:12]}"


def _called(offset: Offset) -> str | list[list[Any]] | dict[str, Any]:
    if isinstance(offset, KafkaOffsets):  # its text names a few partitions only
        return [[*place, *at] for place, at in sorted(offset.places().items()) if any(at)]
    if isinstance(offset, BinlogOffset) and offset.generation:  # files and positions begin anew with each log
        return f"log{offset.generation}/{offset}"
    return offset.to_json() if is_foreign(offset) else str(offset)  # another package's text may be of this process


@dataclass(frozen=True)
class LogMoment:
    """Log moment: where a point in time lies in a source's log.

    Attributes:
        offset: the place before the first change that committed at or after it; the head where there is none.
        open: whether changes that committed before it may still come behind that place.
    """

    offset: Offset
    open: bool


@runtime_checkable
class RangedSource(Source, Protocol):
    """A source whose log has moments and places that a backfill can begin and end at."""

    def boundary_at(self, when: datetime) -> LogMoment:
        """Return where a moment lies in the log.

        Raises:
            OffsetPurgedError: the log that would show it was deleted.
        """
        ...

    def plan_exactly(self, wanted: OffsetRange) -> SourcePlan:
        """Describe exactly the range between two places; the same as `reopen` describes later."""
        ...


@runtime_checkable
class FailoverSource(Protocol):
    """A source whose log may be another server's than the one that places of a flow's past are of."""

    def located(self, place: Offset, standing: Offset) -> Offset:
        """Return the place of the log that is read now before which exactly the same changes lie.

        Args:
            place: of any log that the flow has read.
            standing: where the live flow stands.

        Raises:
            SourceError: it cannot be determined; names why, and nothing was read.
        """
        ...


class BackfillStore(Protocol):
    """Keeps the backfills of flows and the places of their boundaries."""

    def boundaries(self, flow: str, *moments: datetime) -> Sequence[Boundary]:
        """Return the places that are fixed for some moments, and for the nearest before and after each, by moment."""
        ...

    def fix(self, flow: str, lease: Lease, boundary: Boundary) -> Boundary:
        """Fix the place of a moment, under the planning lease; returns what was fixed before, if anything was.

        A place of a log that was replaced since (of a lower generation) does not stand: it is replaced as one write, so
        that of two that fix the moment at once both get the same place.
        """
        ...

    def backfills(self, flow: str, among: Callable[[str], bool] = ...) -> Sequence[Backfill]:
        """Return the backfills that were asked for, by time; of ids that are not among the wanted ones none is read."""
        ...

    def backfill(self, flow: str, wanted: str) -> Backfill | None:
        """Return the backfill of an id, None when it was not asked for."""
        ...

    def finished(self, flow: str) -> frozenset[str]:
        """Return the ids of the backfills that were noted as done; one that was just now may be missing."""
        ...

    def note_finished(self, flow: str, wanted: str) -> None:
        """Remember that a backfill is done, as its ledger shows: for good, since nothing sets a piece back."""
        ...

    def add(self, flow: str, lease: Lease, backfill: Backfill) -> Backfill:
        """Keep a backfill, under the planning lease; returns the one of the same id that is there, if there is one."""
        ...
