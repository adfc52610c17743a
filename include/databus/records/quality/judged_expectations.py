"""Expectation results of a run's rows, in the form of Great Expectations' own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from databus.core.expectations import Expectation


@dataclass(frozen=True)
class ExpectationOutcome:
    """Expectation result over one run.

    Attributes:
        expectation: the expectation.
        success: whether it is met; false where it could not be judged.
        how: by what it was judged: "every row", "counts", "rows of the run", "sample of …".
        result: figures by Great Expectations' names, e.g. element_count, unexpected_count, observed_value.
        error: why it could not be judged, "" when it was.
    """

    expectation: Expectation
    success: bool
    how: str
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def evaluated(self) -> int:
        """Values looked at; 1 for an expectation of a whole table."""
        return int(self.result.get("element_count", 1))

    @property
    def violations(self) -> int:
        """Values that do not meet it; 1 for an expectation of a whole table."""
        return int(self.result.get("unexpected_count", not self.success))

    def line(self) -> str:
        """Return what an operator reads."""
        name, action = self.expectation.name, self.expectation.action
        if self.error:
            return f"expectation {name} ({action}): NOT JUDGED: {self.error}"
        if "element_count" in self.result:
            found = f"{self.violations} of {self.evaluated} do not meet it"
        else:
            found = f"observed {self.result.get('observed_value')}"
        return f"expectation {name} ({action}, {self.how}): {'met' if self.success else 'NOT MET'}, {found}"

    def to_json(self) -> dict[str, Any]:
        """Return the result of an expectation as Great Expectations writes it."""
        databus = {"name": self.expectation.name, "action": self.expectation.action, "judged_by": self.how}
        return {
            "success": self.success,
            "expectation_config": {
                "type": self.expectation.type,
                "kwargs": dict(self.expectation.kwargs),
                "meta": {**self.expectation.meta, "databus": {**databus, "tables": list(self.expectation.tables)}},
                "severity": self.expectation.severity,
            },
            "result": dict(self.result),
            "meta": {},
            "exception_info": {
                "raised_exception": bool(self.error),
                "exception_message": self.error or None,
                "exception_traceback": None,
            },
        }


def with_judged(result: Mapping[str, Any], judged: Sequence[ExpectationOutcome]) -> dict[str, Any]:
    """Return a validation result with those of a flow's expectations in front, and statistics over all."""
    results = [*(each.to_json() for each in judged), *result["results"]]
    met = sum(bool(each["success"]) for each in results)
    statistics = {
        "evaluated_expectations": len(results),
        "successful_expectations": met,
        "unsuccessful_expectations": len(results) - met,
        "success_percent": 100.0 * met / len(results) if results else None,
    }
    return {**result, "success": met == len(results), "results": results, "statistics": statistics}
