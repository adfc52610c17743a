"""Logs that changed under a flow: replaced under the same names, or without a part of a range that was planned."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from databus.core.errors.source import SourceDivergedError
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan

REPLACED = "log replaced"
"""Cause of the gap that stands for what a log held, when it was replaced, behind the flow's place."""


@runtime_checkable
class ReplaceableSource(Protocol):
    """A source whose log may be begun anew under the same names."""

    def log_replaced(self, standing: Offset) -> SourceDivergedError | None:
        """Return the error that says how the log is another one than that of a place; None where it is the same.

        Raises:
            SourceError: the server does not answer.
        """
        ...

    def forget_former_log(self, standing: Offset) -> None:
        """Delete what is kept of a log that was replaced and would be taken for the new one's; safe to repeat.

        What other flows have kept of the new one stays.

        Args:
            standing: where the flow stands in the former log.
        """
        ...


def is_of_former_log(place: Offset, standing: Offset) -> bool:
    """Return whether a place is of a log that was replaced by the one in which a flow stands."""
    return (
        isinstance(place, BinlogOffset)
        and isinstance(standing, BinlogOffset)
        and place.generation < standing.generation
    )


def of_former_log(where: str, standing: Offset) -> SourceDivergedError:
    """Return the error for a place of a log that is gone, since the flow went on with the one that replaced it.

    Args:
        where: flow or server, and the place.
        standing: where the flow stands.
    """
    return SourceDivergedError(
        f"{where} is of a log that was replaced since: the flow stands at {standing} of the log that took its place",
        hint="Nothing was moved: that log is gone, and its places mean other changes now. Choose a place behind the "
        f'gap "{REPLACED}" (`databus gaps` names it); what was not moved before it is found by comparing the tables '
        "with the sinks.",
    )


@runtime_checkable
class ResumingSource(Protocol):
    """A source whose log loses records by itself, and whose settings say what is done then."""

    def resume(self, planned: OffsetRange) -> SourcePlan:
        """Describe a range of a plan in flight: all of it, or what is left where the settings pass over the rest.

        Returns:
            The range as planned; what is gone of it stands in `SourcePlan.lost`.

        Raises:
            OffsetPurgedError: a part is gone, and a person decides.
        """
        ...


def resumed(source: Source, planned: OffsetRange) -> SourcePlan:
    """Describe the range of a plan in flight (see `ResumingSource.resume`, `Source.reopen`)."""
    return source.resume(planned) if isinstance(source, ResumingSource) else source.reopen(planned)
