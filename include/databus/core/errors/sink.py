"""Errors of sinks, their markers and outputs."""

from __future__ import annotations

from databus.core.errors.root import DatabusError


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


class SinkSchemaError(SinkSettingError):
    """A table's schema does not go with those that readers of its output know."""

    code = "sink_schema_incompatible"


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


class ValidationRefusedError(SinkError):
    """Outputs of a sink do not keep state that could be compared with the source's tables."""

    code = "validation_refused"
