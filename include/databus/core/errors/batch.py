"""Errors of a batch between source and sinks: transforms, checks, counts."""

from __future__ import annotations

from databus.core.errors.root import DatabusError


class TransformError(DatabusError):
    """A transform cannot be applied to the rows of a batch."""

    code = "transform_error"


class QualityGateError(DatabusError):
    """A check of severity `fail` was violated: the batch is not dispatched."""

    code = "quality_gate"


class ReconciliationError(DatabusError):
    """read = filtered + quarantined + dispatched does not hold: the batch fails rather than lie."""

    code = "reconciliation"
