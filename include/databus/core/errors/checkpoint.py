"""Errors of the checkpoint store: leases, plans, commits, backfills' ledgers."""

from __future__ import annotations

from typing import Any

from databus.core.errors.root import DatabusError


class CheckpointError(DatabusError):
    """The checkpoint store refused or failed."""

    code = "checkpoint_error"


class CheckpointUnavailableError(CheckpointError):
    """The checkpoint store cannot be reached; nothing advances until it is."""

    code = "checkpoint_unavailable"
    retryable = True


class CheckpointConflictError(CheckpointError):
    """The stored checkpoint or plan is not the one this holder wrote."""

    code = "checkpoint_conflict"


class CheckpointMovedError(CheckpointConflictError):
    """The checkpoint has moved since the user looked at it: what they saw does not hold any more.

    Attributes:
        version: version of the checkpoint now, see `ops.checkpoint.version`.
        changes: the newest entries of the history since then, newest first: number, action, who, why, at, from, to.
    """

    code = "checkpoint_moved"
    version: str = ""
    changes: tuple[dict[str, Any], ...] = ()


class ActionOpenError(CheckpointConflictError):
    """The same request of the API is being done just now."""

    code = "action_open"
    retryable = True


class SnapshotUnfinishedError(CheckpointConflictError):
    """Another snapshot of the flow is unfinished: it is finished or cancelled before the next one begins."""

    code = "checkpoint_snapshot_unfinished"


class PlanChangedError(CheckpointConflictError):
    """The flow changed while sinks hold a part of its unfinished batch, which only the former definition can finish.

    Attributes:
        sink: name of the sink that is behind the others with a batch of its own, "" where it is the flow's.
    """

    code = "checkpoint_plan_changed"
    sink: str = ""


class StaleEpochError(CheckpointError):
    """A newer epoch has been claimed: this holder may not write any more."""

    code = "checkpoint_stale_epoch"
    retryable = True


class BackfillOpenError(CheckpointError):
    """A range is not complete yet, or another backfill is to be done first; a later attempt may find it so."""

    code = "backfill_open"
    retryable = True


class BackfillWaitsError(BackfillOpenError):
    """Ranges are moved in order, and another one is being moved just now: it is this one's turn afterwards."""

    code = "backfill_waits"


class BackfillIncompleteError(CheckpointError):
    """A backfill ended before its ledger shows all of its range; running it again goes on where it stands."""

    code = "backfill_incomplete"
    retryable = True


class FlowPausedError(CheckpointError):
    """A person has paused the flow: nothing is moved until it is resumed. No failure."""

    code = "checkpoint_paused"


class LeaseBusyError(CheckpointError):
    """Another run holds the flow's lease."""

    code = "checkpoint_busy"
    retryable = True


class CheckpointFormatError(CheckpointError):
    """Stored bytes are not of a version this code reads."""

    code = "checkpoint_format"


class CheckpointTooLargeError(CheckpointError):
    """A multi would exceed the size that ZooKeeper takes safely."""

    code = "checkpoint_too_large"


class ValidationBehindError(CheckpointConflictError):
    """A flow does not reach the place up to which its sinks are to be compared with its source."""

    code = "validation_behind"
    retryable = True
