"""Staging source, and its view of the plans in flight."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from databus.core.positions.offsets import Offset, OffsetRange


@dataclass(frozen=True)
class NeededSegments:
    """Staged segments that are still needed under a name.

    Attributes:
        ranges: of the plans in flight.
        over: whether nothing is moved under the name any more, so that nothing kept for it is needed.
    """

    ranges: Collection[OffsetRange] = ()
    over: bool = False


class StagedPlans(Protocol):
    """Returns what is still needed of that which a flow's source staged, for itself or beside it."""

    def in_flight(self) -> Collection[OffsetRange]:
        """Return the ranges of all plans of the flow that are in flight, those of sinks behind included."""
        ...

    def chunks(self) -> Collection[str] | None:
        """Return the names of the chunk files of a snapshot that these plans name; None when that cannot be told."""
        ...

    def places(self) -> Collection[Offset] | None:
        """Return where the flow and its sinks behind stand, and both ends of their plans in flight; None at first."""
        ...

    def beside(self, name: str) -> NeededSegments | None:
        """Return what is needed of what was staged under a name beside the flow's; None when that is not known."""
        ...

    def held(self, name: str) -> AbstractContextManager[bool]:
        """Keep others from beginning to move anything under such a name; False when somebody does just now."""
        ...


@runtime_checkable
class StagingSource(Protocol):
    """A source that stages what it plans, and may leave it when it is killed."""

    def sweep(self, plans: StagedPlans) -> None:
        """Delete what was staged long ago and is in no plan; only under the flow's lease.

        Args:
            plans: returns what is planned.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        ...
