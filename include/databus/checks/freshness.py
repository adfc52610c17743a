"""Freshness: a batch is not too old."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

from pydantic import Field

from databus.checks.batch_check import BatchCheck
from databus.core.batches.report import CheckResult
from databus.core.state.plan import SourcePlan
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption


class Freshness(BatchCheck):
    """Bound on the age of a batch's newest commit when it was planned: `Freshness(timedelta(minutes=5))`.

    Age is the plan's clock minus the watermark (running maximum of commit time), so a re-run of the plan measures
    the same; a batch without a known commit time is not judged.

    Attributes:
        max_age: greatest accepted age, e.g. timedelta(minutes=5).
    """

    kind: ClassVar[str] = "freshness"

    max_age: Duration = Field(gt=ZERO)

    max_age_s: ClassVar = StoredOption[float]("max_age", SECOND)

    def __init__(self, max_age: timedelta | float | None = None, /, **options: Any):
        if max_age is not None:
            # A number, in seconds, was the only way to say it before.
            options["max_age" if isinstance(max_age, timedelta) else "max_age_s"] = max_age
        super().__init__(**options)

    def arguments(self) -> tuple[str, ...]:
        """Return the bound."""
        return (f"{self.max_age_s:g}s",)

    def evaluate(self, planned: SourcePlan, now: datetime) -> CheckResult:
        """Measure the age."""
        if planned.watermark is None:
            return self.result(violated=False, observed="no commit time", evaluated=0)
        age_s = (now - planned.watermark).total_seconds()
        return self.result(violated=age_s > self.max_age_s, observed=f"{age_s:.3f} s")
