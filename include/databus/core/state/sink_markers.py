"""Sink markers of a flow, and the register by which holders announce plans while ZooKeeper is away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from databus.core.positions.offsets import Offset
from databus.core.state.checkpoint import Epoch


@dataclass(frozen=True)
class SlotMark:
    """The last thing one slot of a sink holds.

    Attributes:
        batch: batch number.
        plan_hash: hash of its plan.
        end: where the rows of the slot end at the source, None when the marker does not say.
        whole: whether all of the batch is there, or all of it is known not to be.
        at: the same place in words, "" when unknown.
        closed: whether the batch was closed because its flow had changed: it can go on once the change is taken back.
    """

    batch: int
    plan_hash: str
    end: Offset | None = None
    whole: bool = True
    at: str = ""
    closed: bool = False

    def __str__(self) -> str:
        part = "" if self.whole else ", unfinished"
        return f"batch {self.batch} (plan {self.plan_hash}{part}) up to {self.at or 'an unknown place'}"


@dataclass(frozen=True)
class Announcement:
    """Register entry of a flow: the last holder that claimed it, and the last plan that was announced there.

    Attributes:
        epoch: epoch of the latest claim.
        batch: batch of the last plan announced, 0 for none.
        plan_hash: its hash, "" for none.
    """

    epoch: Epoch
    batch: int
    plan_hash: str


class ClaimRegister(Protocol):
    """Register of one value that is compared and set in a sink's own transactions; stands in for ZooKeeper's epoch."""

    def take(self, epoch: Epoch, *, force: bool = False) -> Announcement | None:
        """Put this epoch there, keeping what was announced; from then on older holders cannot announce.

        Args:
            epoch: epoch of the claim.
            force: also where a higher epoch is found.

        Returns:
            What was there before.

        Raises:
            StaleEpochError: a higher epoch is there.
            SinkUnavailableError: no answer.
        """
        ...

    def announce(self, said: Announcement) -> None:
        """Write a plan's number and hash before anything of it is dispatched; the same again changes nothing.

        Raises:
            StaleEpochError: another epoch has taken the register.
            SinkUnavailableError: no answer; whether it was announced is not known.
        """
        ...

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        ...


@runtime_checkable
class MarkedSink(Protocol):
    """A sink that can keep a marker for each slot."""

    @property
    def marked(self) -> bool:
        """Return whether it does; a sink that writes at least once may not."""
        ...

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:
        """Return the committed marker of the first `slots` slots, None where there is none.

        Args:
            slots: how many.
            settled: wait for the end of transactions that hold a marker; else return what was committed before them.

        Raises:
            SinkUnavailableError: no answer.
        """
        ...

    def register(self) -> ClaimRegister:
        """Return the flow's register in this sink."""
        ...
