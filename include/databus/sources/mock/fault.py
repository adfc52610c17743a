"""Scripted fault of a mock source: its kind, the row at which it happens, and how often or for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from databus.core.spec import Spec
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption

FaultKind = Literal["read_fails", "read_hangs", "away", "purged"]


class MockFault(Spec):
    """Fault of a mock source, e.g. `MockFault(what="read_fails", at_row=1_000, times=2)`.

    It is of the transaction that holds the row. What was met is kept in the segment store, for all runs of the flow.

    Attributes:
        what: "read_fails": a task that reads the row finds the source unavailable; "read_hangs": it waits there;
            "away": the source cannot be reached once the flow has come there; "purged": the log from there on is gone,
            a gap that a person decides on.
        at_row: row changes before it, e.g. 1_000.
        times: attempts of a batch that meet "read_fails" or "read_hangs", e.g. 3; default 1.
        lasts: how long a read hangs, or how long the source is away once it is met, e.g. timedelta(minutes=2); default
            10 seconds. Not of the other faults.
        rows: row changes that are gone, of "purged", in whole transactions, e.g. 500; default 100.
    """

    what: FaultKind
    at_row: int = Field(ge=0)
    times: int = Field(1, gt=0)
    lasts: Duration = Field(timedelta(seconds=10), gt=ZERO)
    rows: int = Field(100, gt=0)

    lasts_s: ClassVar = StoredOption[float]("lasts", SECOND)

    @model_validator(mode="after")
    def _options_are_of_the_kind(self) -> MockFault:
        of = {"times": ("read_fails", "read_hangs"), "lasts": ("read_hangs", "away"), "rows": ("purged",)}
        for option, kinds in of.items():
            if option in self.model_fields_set and self.what not in kinds:
                raise ValueError(f"{option} says nothing of {self.what!r}: it is of {' and '.join(kinds)}")
        return self

    def stored(self) -> dict[str, Any]:
        """Return the options that say something of its kind as plain JSON."""
        mine = {"read_fails": "times", "purged": "rows", "away": "lasts_s"}.get(self.what)
        wanted = {"what", "at_row", mine} if mine else {"what", "at_row", "times", "lasts_s"}
        return {name: value for name, value in super().stored().items() if name in wanted}
