"""Errors of sources, their logs, segments and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from databus.core.errors.root import DatabusError

if TYPE_CHECKING:
    from databus.core.positions.offsets import OffsetRange


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


class SnapshotKeyChangedError(SourceError):
    """The key by which a table is read in chunks is another than that of the chunks before."""

    code = "snapshot_key_changed"
    default_hint = "Read the table from its beginning: the order of its rows may be another now."


class SegmentStoreFullError(SourceUnavailableError):
    """The disk of the segment store is full; nothing has advanced, and a retry goes on once there is space."""

    code = "segment_store_full"
    default_hint = (
        "Free space there (`databus segments prune` shows kept segments over the limit), or point "
        "DATABUS_SEGMENT_STORE elsewhere; the next attempt goes on with the same plan."
    )


class ChunkFileError(SourceError):
    """A chunk file of a snapshot that a plan names is gone or damaged; none of its rows was used."""

    code = "snapshot_chunk_lost"
    default_hint = (
        "Bring the segment store (DATABUS_SEGMENT_STORE) or this file back, under the same path for every worker: the "
        "batch then goes on. A batch of which no sink holds anything is planned anew by itself: its chunks are read "
        "from the tables again."
    )


class LargeValueError(SourceError):
    """A reference to a large value names none of the segment store, or the value there is gone or damaged."""

    code = "claim_invalid"


ClaimError = LargeValueError
"""Former name, for one version."""


class ServerIdTakenError(SourceUnavailableError):
    """Another reader uses this reader's replication server id, and the server ended one of the two."""

    code = "source_server_id_taken"


class SourceAccessError(SourceError):
    """The source refused the credentials or a privilege is missing."""

    code = "source_access_denied"


class RegistryAccessError(SourceAccessError):
    """The schema registry refused the credentials, or the TLS connection to it does not come about."""

    code = "registry_access_denied"


class SchemaRefusedError(SourceError):
    """The schema registry refuses a schema: it does not go with those that its subject has."""

    code = "registry_schema_refused"


class SourceSettingError(SourceError):
    """A setting of the source server makes exact capture impossible."""

    code = "source_setting"


class SequenceTableError(SourceError):
    """The table of a `SequenceTable` is gone, or lacks what its rows are read by."""

    code = "source_table_unfit"


class LateNumberError(SourceError):
    """Rows were added with numbers that a flow has read past: it has missed them."""

    code = "source_number_late"


class OffsetPurgedError(SourceError):
    """The log at the wanted offset is no longer on the server: a gap that must be decided on."""

    code = "source_offset_purged"
    missing: OffsetRange | None = None
    """The range that is gone, from the wanted offset to the first that is left; None where it cannot be determined."""


class PreparedTransactionMissingError(OffsetPurgedError):
    """The rows of a committed XA transaction are no longer on the server: its first phase lies in a deleted file."""

    code = "source_prepared_missing"


class OffsetInvalidError(SourceError):
    """The offset is not one of this server's log: mid-event, past its end, or of another server."""

    code = "source_offset_invalid"


class SourceDivergedError(SourceError):
    """The server's history is not a continuation of the checkpoint's."""

    code = "source_diverged"


class SnapshotNotYetVisibleError(SourceError):
    """A consistent view does not show yet what the flow has read from the log: the chunk is read anew later."""

    code = "snapshot_not_yet_visible"
    retryable = True
    default_hint = (
        "Nothing was read and nothing is lost: the stream goes on, and the chunk is tried again. If it goes on so, "
        "look for commits that wait: semi-sync for a replica, FLUSH TABLES WITH READ LOCK for a long statement."
    )


class SnapshotReplicaBehindError(SnapshotNotYetVisibleError):
    """The replica that rows are read from does not answer, or has not executed what the flow has read from the log."""

    code = "snapshot_replica_behind"
    default_hint = (
        "Nothing was read and nothing is lost: the stream goes on, and the chunk is tried again. Look at the replica: "
        "whether it replicates, and how far behind it is; or leave read_from of snapshot_options out."
    )


class SnapshotServerChangedError(SourceUnavailableError):
    """Another server than the checkpoint's answers a snapshot: the chunk is read anew once the stream has followed."""

    code = "snapshot_server_changed"
    default_hint = "A failover: once the stream has found its place on that server, the chunk is read there."


class SnapshotRefusedError(SourceError):
    """The server or the account lacks something without which a snapshot would lose rows or updates."""

    code = "snapshot_refused"


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
    """Rows of a table whose definition at their place of the log is not known: they are refused, not guessed."""

    code = "source_schema_unknown"
