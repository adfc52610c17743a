"""The error tree: every failure has a code, a place, a hint, and says whether a retry can help.

Errors cross process borders (Spark workers, Connect), so each pickles to the same class with the same fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from databus.core.positions.offsets import OffsetRange


class DatabusError(Exception):
    """Root of all errors of this package.

    Attributes:
        code: stable identifier, `snake_case`, one per kind of failure; shown to users and matched by tests.
        message: what happened and where (flow, table, position).
        hint: what the reader can do about it.
        retryable: whether the same call may succeed later without a change by a person.
    """

    code = "databus_error"
    retryable = False
    default_hint = ""

    def __init__(
        self, message: str, *, hint: str | None = None, code: str | None = None, retryable: bool | None = None
    ):
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable
        super().__init__(message)

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text} Hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.code, self.retryable, self._extra())

    def _extra(self) -> dict[str, Any]:
        skip = {"message", "hint", "code", "retryable"}
        return {k: v for k, v in self.__dict__.items() if k not in skip}


def _rebuild(
    kind: type[DatabusError], message: str, hint: str, code: str, retryable: bool, extra: dict[str, Any]
) -> DatabusError:
    error = kind.__new__(kind)
    DatabusError.__init__(error, message, hint=hint, code=code, retryable=retryable)
    error.__dict__.update(extra)
    return error


class ConfigError(DatabusError):
    """A flow, connection or setting is wrong; retrying cannot help.

    Attributes:
        problems: what is wrong with the options of one object, each by itself; empty where it is something else.
    """

    code = "config_invalid"
    problems: tuple[str, ...] = ()


class PlaceError(ConfigError):
    """A text is no place of a source's log, whatever that holds."""

    code = "place_invalid"


class BackfillRangeError(ConfigError):
    """The range of a backfill is none: it ends before it begins, or cannot be understood."""

    code = "backfill_range"


class BackfillFutureError(BackfillRangeError):
    """The range of a backfill ends in the future: what belongs to it cannot be known yet."""

    code = "backfill_future"


class RunConfError(ConfigError):
    """A run was given settings that its DAG does not know; it would have passed over them in silence."""

    code = "run_conf"


class UnknownKindError(ConfigError):
    """A source, transform, check or sink kind that the registry does not know."""

    code = "kind_unknown"


class ConnectionMissingError(ConfigError):
    """A conn_id that no connection source knows."""

    code = "connection_missing"


class SourceError(DatabusError):
    """Reading the source failed."""

    code = "source_error"


class SourceUnavailableError(SourceError):
    """The source server cannot be reached, or cut the connection."""

    code = "source_unavailable"
    retryable = True


class RegistryUnavailableError(SourceUnavailableError):
    """The schema registry cannot be reached, or says that it cannot answer now."""

    code = "registry_unavailable"
    default_hint = "Nothing has moved. Check that the registry runs and that the connection's address reaches it."


class SegmentStoreFullError(SourceUnavailableError):
    """The disk of the segment store is full; nothing has advanced, and a retry goes on once there is space."""

    code = "segment_store_full"
    default_hint = (
        "Free space there (`databus segments prune` shows kept segments over the limit), or point "
        "DATABUS_SEGMENT_STORE elsewhere; the next attempt goes on with the same plan."
    )


class ClaimError(SourceError):
    """What should refer to a value in the segment store does not, or the value there is gone or damaged."""

    code = "claim_invalid"


class ServerIdTakenError(SourceUnavailableError):
    """Another reader uses this reader's replication server id, and the server ended one of the two."""

    code = "source_server_id_taken"


class SourceAccessError(SourceError):
    """The source refused the credentials or a privilege is missing."""

    code = "source_access_denied"


class RegistryAccessError(SourceAccessError):
    """The schema registry refused the credentials, or the TLS connection to it does not come about."""

    code = "registry_access_denied"


class SourceSettingError(SourceError):
    """A setting of the source server makes exact capture impossible."""

    code = "source_setting"


class OffsetPurgedError(SourceError):
    """The log at the wanted offset is no longer on the server: a gap that must be decided on."""

    code = "source_offset_purged"
    missing: OffsetRange | None = None
    """The range that is gone, from the wanted offset to the first that is left; None where it cannot be told."""


class PreparedTransactionMissingError(OffsetPurgedError):
    """The rows of a committed XA transaction are no longer on the server: its first phase lies in a deleted file."""

    code = "source_prepared_missing"


class OffsetInvalidError(SourceError):
    """The offset is not one of this server's log: mid-event, past its end, or of another server."""

    code = "source_offset_invalid"


class SourceDivergedError(SourceError):
    """The server's history is not a continuation of the checkpoint's."""

    code = "source_diverged"


class UnloggedChangeError(SourceError):
    """The log goes on with a statement that changes rows without row events, and the flow is to stop before it."""

    code = "source_partition_ddl"


class DecodeError(SourceError):
    """A byte, event or column of the log that is not understood: reading stops there, nothing is skipped."""

    code = "source_decode"
    default_hint = "The checkpoint has not moved. Report the position; `databus peek` shows what precedes it."
    behind: str = ""
    """FILE:POS behind a transaction whose rows are in no row event, which a person may pass; "" of all else."""


class SchemaUnknownError(DecodeError):
    """Rows of a table whose definition at their place of the log cannot be told: they are refused, not guessed."""

    code = "source_schema_unknown"


class TransformError(DatabusError):
    """A transform cannot be applied to the rows of a batch."""

    code = "transform_error"


class QualityGateError(DatabusError):
    """A check of severity `fail` was violated: the batch is not dispatched."""

    code = "quality_gate"


class ReconciliationError(DatabusError):
    """read = filtered + quarantined + dispatched does not hold: the batch fails rather than lie."""

    code = "reconciliation"


class SinkError(DatabusError):
    """Writing to a sink failed.

    Attributes:
        sink: name of the sink inside its flow, "" where it is not known.
    """

    code = "sink_error"
    sink: str = ""


class SinkUnavailableError(SinkError):
    """The sink cannot be reached."""

    code = "sink_unavailable"
    retryable = True


class SinkTransactionHangingError(SinkUnavailableError):
    """A transaction that nobody holds any more keeps a marker back: the broker lost its end."""

    code = "sink_transaction_hanging"


class SinkAccessError(SinkError):
    """The sink refused the credentials or a privilege is missing."""

    code = "sink_access_denied"


class SinkSettingError(SinkError):
    """The sink's settings or objects (topic, index) do not allow what the flow wants."""

    code = "sink_setting"


class SinkKeyChangedError(SinkSettingError):
    """A definition of a table makes other ids than those under which a sink holds its rows.

    Attributes:
        definition: `schema_id` of the definition, in the plan that was refused; -1 where it is of none.
        rows_before: rows of that plan before the first one that would have such an id; -1 where the definition's first
            row is meant.
    """

    code = "sink_key_changed"
    definition: int = -1
    rows_before: int = -1


class SinkOutputChangedError(SinkError):
    """An output that the flow has written to was deleted, and nothing or another one stands in its place."""

    code = "sink_output_changed"


class SinkBackpressureError(SinkError):
    """The sink asks for a slower pace.

    Attributes:
        retry_after_s: seconds to wait before the next attempt.
    """

    code = "sink_backpressure"
    retryable = True
    retry_after_s: float = 1.0


class SinkFencedError(SinkError):
    """A newer claim writes to this sink: this writer must stop."""

    code = "sink_fenced"
    retryable = True


class MarkerDivergedError(SinkError):
    """A sink's marker is neither this plan's batch nor the one before it: writing could lose or repeat rows."""

    code = "sink_marker_diverged"
    default_hint = (
        "Another run wrote a later batch, or the checkpoint was restored from an older copy, or a rewind, skip or "
        "restore was cut off while it closed the plan in flight: then repeat it. "
        "Compare `databus checkpoint show` with the marker named above before any rewind."
    )


class SinkConflictError(SinkError):
    """The sink holds a row from behind the end of the batch: somebody else wrote it, or the flow was set back."""

    code = "sink_conflict"
    default_hint = (
        "Nothing was overwritten. Either another writer uses this output, or the checkpoint is older than what the flow"
        " has written: restored from a copy, or made anew. Compare `databus checkpoint show` with the version named."
        ' To move rows again over newer ones on purpose, set profile="at_least_once" for the sink.'
    )


class MarkersAheadError(MarkerDivergedError):
    """The sinks hold batches that the checkpoint store does not know: it was restored from an older copy, say."""

    code = "checkpoint_behind_sinks"


class RecordRejectedError(SinkError):
    """The sink refused records for good (mapping, size), and the flow is to stop rather than hold them back."""

    code = "sink_record_rejected"


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


class RecordingError(DatabusError):
    """A report could not be stored; logged, never fails a batch."""

    code = "recording"


class AlertingError(DatabusError):
    """A channel did not take an alert; it stays owed and is tried again, and never fails a run."""

    code = "alerting"
    retryable = True


class ReplaysRefusedError(DatabusError):
    """Rows of some batches cannot be replayed as things are; those of the others were.

    Attributes:
        done: what the replays did that were not refused.
    """

    code = "quarantine_replays_refused"
    done: Sequence[Any] = ()


class SandboxError(DatabusError):
    """An embedded server could not be installed, started or stopped."""

    code = "sandbox_error"


class ServerUnknownError(ConfigError):
    """The sandbox has no server of that name."""

    code = "sandbox_server_unknown"
