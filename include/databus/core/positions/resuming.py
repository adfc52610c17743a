"""Taking up a planned range whose log has lost a part of it meanwhile, where the source's settings let that pass."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from databus.core.positions.offsets import OffsetRange
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan


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
