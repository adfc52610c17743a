"""Batch checks' base: a name, severities that a batch can have, and the form of their result."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import field_validator

from databus.core.batches.report import CheckResult
from databus.core.flow_specs import CheckSpec


class BatchCheck(CheckSpec):
    """Base of the checks that judge a batch as a whole; they warn or fail, there is no row to quarantine."""

    severity: Literal["warn", "quarantine", "fail"] = "warn"

    @field_validator("severity")
    @classmethod
    def _has_no_row_to_quarantine(cls, value: str) -> str:
        if value == "quarantine":
            raise ValueError("a check of the whole batch warns or fails: it has no row to quarantine")
        return value

    @property
    def check_name(self) -> str:
        """Name with its arguments."""
        return f"{self.kind}({', '.join(self.arguments())})"

    @property
    def looks_at_rows(self) -> bool:
        """False: `evaluate` looks at the batch as a whole."""
        return False

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """Return what stands in the check's name."""

    def violation(self, changes: Any) -> None:  # noqa: ARG002 - the row checks' method
        """Return None: no single row violates."""
        return

    def applies_to(self, table: str) -> bool:  # noqa: ARG002 - the row checks' method
        """Return True: every table's rows are part of the batch."""
        return True

    def label(self) -> str:
        """Return the check's name."""
        return self.check_name

    def result(self, *, violated: bool, observed: str, evaluated: int = 1) -> CheckResult:
        """Return the result of this check."""
        return CheckResult(
            check=self.check_name,
            kind=self.kind,
            column=None,
            table="*",
            severity=self.severity,
            evaluated=evaluated,
            violations=int(violated),
            observed=observed,
        )
