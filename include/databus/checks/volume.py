"""Volume: a batch has neither too few nor too many rows."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field, model_validator

from databus.checks.batch_check import BatchCheck
from databus.core.batches.report import CheckResult
from databus.core.state.plan import SourcePlan


class Volume(BatchCheck):
    """Bounds of a batch's number of row changes, before any filter: `Volume(maximum_rows=1_000_000)`.

    Attributes:
        minimum_rows: fewest rows accepted, e.g. 1; default None, no bound.
        maximum_rows: most rows accepted, e.g. 1_000_000; default None, no bound.
    """

    kind: ClassVar[str] = "volume"

    minimum_rows: int | None = Field(None, ge=0)
    maximum_rows: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> Volume:
        if self.minimum_rows is None and self.maximum_rows is None:
            raise ValueError("give minimum_rows, maximum_rows or both")
        if self.minimum_rows is not None and self.maximum_rows is not None and self.minimum_rows > self.maximum_rows:
            raise ValueError("minimum_rows is above maximum_rows")
        return self

    def arguments(self) -> tuple[str, ...]:
        """Return the bounds, "" for an open one."""
        low = "" if self.minimum_rows is None else self.minimum_rows
        high = "" if self.maximum_rows is None else self.maximum_rows
        return (f"{low}..{high}",)

    def evaluate(self, planned: SourcePlan, now: datetime) -> CheckResult:  # noqa: ARG002 - one signature for all
        """Count the rows read."""
        rows = planned.rows
        low = self.minimum_rows is not None and rows < self.minimum_rows
        high = self.maximum_rows is not None and rows > self.maximum_rows
        return self.result(violated=low or high, observed=f"{rows} rows")
