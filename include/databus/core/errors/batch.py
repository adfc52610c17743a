"""Errors of the path: what a batch reports, and records that cannot be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from databus.core.errors.root import DatabusError

if TYPE_CHECKING:
    from collections.abc import Sequence


class TransformError(DatabusError):
    """A transform cannot be applied to the rows of a batch."""

    code = "transform_error"


class QualityGateError(DatabusError):
    """A check of severity `fail` was violated: the batch is not dispatched."""

    code = "quality_gate"


class ReconciliationError(DatabusError):
    """read = filtered + quarantined + dispatched + superseded does not hold: the batch fails rather than lie."""

    code = "reconciliation"


class RecordingError(DatabusError):
    """A report could not be stored; logged, never fails a batch."""

    code = "recording"


class AlertingError(DatabusError):
    """A channel did not take an alert; it stays pending and is tried again, and never fails a run."""

    code = "alerting"
    retryable = True


class ReplaysRefusedError(DatabusError):
    """Rows of some batches cannot be replayed as things are; those of the others were.

    Attributes:
        done: what the replays did that were not refused.
    """

    code = "quarantine_replays_refused"
    done: Sequence[Any] = ()
