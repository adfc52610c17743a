"""Entries of error codes: sources, their log, snapshots, large values, traces, reading Redis."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "source_error": ErrorEntry(
        "Reading the source failed in a way that has no code of its own.",
        "Read the message; it names the server and the position. The checkpoint has not moved.",
    ),
    "source_unavailable": ErrorEntry(
        "The source server cannot be reached, or cut the connection.",
        "Start it, or correct host and port of its connection. The next attempt goes on from the same plan.",
        exits=(4,),
        retried=True,
    ),
    "source_access_denied": ErrorEntry(
        "The source refused the login, or the account lacks a privilege.",
        "Correct login and password of the connection, or run the GRANT that the hint names; `databus doctor` "
        "lists all that are missing.",
        exits=(1, 2),
    ),
    "source_setting": ErrorEntry(
        "A setting of the source server makes exact capture impossible.",
        "Run the SET GLOBAL or ALTER that the hint names, and reconnect sessions that write.",
        exits=(1, 2),
    ),
    "source_server_id_taken": ErrorEntry(
        "Another reader uses this reader's replication server id, and the server ended one of the two.",
        "Nothing to do if it passes by itself: another id is leased. Else give the other program another server id.",
        exits=(4,),
        retried=True,
    ),
    "source_offset_purged": ErrorEntry(
        "The log at the flow's place is no longer on the server: changes were purged before they were read.",
        "Decide on the gap: `databus gaps` names it; `databus checkpoint skip --past-gap --repair` passes it and "
        "reads the tables anew.",
    ),
    "source_prepared_missing": ErrorEntry(
        "A committed XA transaction was prepared in a log file that the server has deleted, so its rows are gone.",
        "Decide on it as on a gap: `databus checkpoint skip --past-gap --repair`.",
    ),
    "source_offset_invalid": ErrorEntry(
        "The place is none of this server's log: inside an event, past its end, or of another server.",
        "Check which server the connection leads to; `databus peek` shows places that are.",
        exits=(1, 2),
    ),
    "source_diverged": ErrorEntry(
        "The server's history does not continue that of the checkpoint: another server, or a log that was cut back.",
        "Point the connection at the right server, or decide by docs/runbooks/log-replaced.md; a "
        "`SequenceTable` is begun anew by a flow of another name.",
    ),
    "source_decode": ErrorEntry(
        "A byte, event or column of the log is not understood; reading stops there and nothing is skipped.",
        "Report the position; `databus peek` shows what precedes it. A person may pass a statement that the "
        "message names.",
    ),
    "source_schema_unknown": ErrorEntry(
        "The definition that a table had at this place of the log is not known: its rows are refused, not guessed.",
        "Set binlog_row_metadata=FULL for later rows; give the former definition as the hint says, or pass the place.",
    ),
    "source_partition_ddl": ErrorEntry(
        "The log goes on with a statement on partitions that removes rows without row events.",
        "Decide what becomes of those rows in the sinks, then pass the statement as the hint says, or set "
        'on_partition_ddl="event".',
    ),
    "source_table_unfit": ErrorEntry(
        "The table of a `SequenceTable` is gone, or lacks what its rows are read by: a column, an index, NOT NULL. Or "
        "a table cannot be followed by triggers, or lacks some of them.",
        "Run the statement that the hint names.",
    ),
    "source_number_late": ErrorEntry(
        "Rows were added to the table of a `SequenceTable` with numbers that the flow had read past: it missed them.",
        "Let the inserting statement take the number (AUTO_INCREMENT), or make `lag_window` longer; then rewind the "
        "flow to the place that the message names.",
    ),
    "source_file_unreadable": ErrorEntry(
        "A binary log file given to the command cannot be read.",
        "Name a log file, as a user that may read it.",
    ),
    "source_headroom": ErrorEntry(
        "The source may soon delete log that the flow has still to read.",
        "Let the flow run, or keep the log longer on the server; see docs/runbooks/headroom.md.",
        exits=(),
    ),
    "source_failover": ErrorEntry(
        "Another server than the checkpoint's answers; the flow looks for its place there by GTID.",
        "Nothing while it finds it; else check that the new server has all transactions of the old one.",
        exits=(),
    ),
    "source_no_primary_key": ErrorEntry(
        "A captured table has no primary key, so its rows have no key in the sinks.",
        "Add a primary key to the table, or leave it out of the flow.",
        exits=(),
    ),
    "source_unlogged_cascade": ErrorEntry(
        "Rows of a table change by a foreign key's cascade, which the log does not hold.",
        "Change those rows by statements of their own, or make the constraint RESTRICT.",
        exits=(),
    ),
    "source_table_missing": ErrorEntry(
        "A table that the flow names is not on the server, or not shown to the account.",
        'Correct the name (case matters), grant SELECT on it, or set on_missing_table="wait".',
        exits=(2,),
    ),
    "source_topic_missing": ErrorEntry(
        "A topic that the flow names is not on the cluster, or not shown to the account.",
        'Correct the name, allow DESCRIBE on it, or set on_missing_topic="wait".',
        exits=(2,),
    ),
    "source_partly_shown": ErrorEntry(
        "The account may be shown single columns of a table only, so its columns are not compared.",
        "GRANT SELECT on the whole table.",
        exits=(),
    ),
    "row_too_large": ErrorEntry(
        "A row is larger than Spark's VARIANT takes.",
        "Leave the table out of the flow, or keep its large column out of the row.",
    ),
    "snapshot_refused": ErrorEntry(
        "The server or the account lacks something without which a snapshot would lose rows or updates.",
        "Mend the setting or grant that the message names, then begin the snapshot again.",
        exits=(1, 2),
    ),
    "snapshot_key_changed": ErrorEntry(
        "The key by which a table is read in chunks is another than that of the chunks before.",
        "Read the table from its beginning: cancel the snapshot and begin it again.",
    ),
    "snapshot_chunk_lost": ErrorEntry(
        "A chunk file that a plan names is gone or damaged; none of its rows was used.",
        "Bring the segment store (DATABUS_SEGMENT_STORE) or the file back under the same path for every worker.",
    ),
    "snapshot_not_yet_visible": ErrorEntry(
        "A consistent view does not show yet what the flow has read from the log.",
        "Nothing: the chunk is read anew later. If it goes on, look for commits that wait on the server.",
        retried=True,
    ),
    "snapshot_replica_behind": ErrorEntry(
        "The replica that rows are read from does not answer, or has not executed what the flow has read from the log.",
        "Nothing is lost: the chunk is tried again. Look at the replica, or leave read_from of snapshot_options out.",
        retried=True,
    ),
    "snapshot_server_changed": ErrorEntry(
        "Another server than the checkpoint's answered while a chunk was read.",
        "Nothing: after a failover the chunk is read there, once the stream has found its place.",
        exits=(4,),
        retried=True,
    ),
    "snapshot_condition": ErrorEntry(
        "The condition of a snapshot's rows is no condition, or the server refuses it.",
        "Correct `where` of the snapshot: a SQL expression over columns of that table.",
        exits=(2,),
    ),
    "snapshot_no_primary_key": ErrorEntry(
        "A table to be read has no primary key: it is read by a unique index, or at once.",
        "Add a primary key for large tables; small ones may stay as they are.",
        exits=(),
    ),
    "snapshot_not_transactional": ErrorEntry(
        "A table's engine has no consistent view: its rows are of the moment of each read.",
        "ALTER TABLE … ENGINE=InnoDB. No change is lost without it.",
        exits=(),
    ),
    "snapshot_view": ErrorEntry(
        "A captured name is a view, which has no rows of its own.",
        "Name its tables.",
        exits=(),
    ),
    "claim_invalid": ErrorEntry(
        "A reference to a large value names none of the segment store.",
        "Give the reference as it stands in the row.",
    ),
    "claim_missing": ErrorEntry(
        "A large value is gone, or its store is not reachable from here.",
        "Mount the segment store under the same path; values are deleted by DATABUS_SEGMENT_KEEP: then read it "
        "from the table.",
    ),
    "claim_damaged": ErrorEntry(
        "The bytes of a large value do not match its hash.",
        "Read the value from the table.",
    ),
    "claim_elsewhere": ErrorEntry(
        "A reference leads outside of this installation's segment store, and is not opened.",
        "Set DATABUS_SEGMENT_STORE to the store of the flow that wrote the row.",
    ),
    "segment_store_full": ErrorEntry(
        "The disk of the segment store is full; nothing has advanced.",
        "Free space (`databus segments prune` shows what may go), or point DATABUS_SEGMENT_STORE elsewhere.",
        exits=(4,),
        retried=True,
    ),
    "registry_unavailable": ErrorEntry(
        "The schema registry cannot be reached, or cannot answer now.",
        "Check that it runs and that the connection's address reaches it. Nothing has moved.",
        exits=(4,),
        retried=True,
    ),
    "registry_access_denied": ErrorEntry(
        "The schema registry refused the credentials.",
        "Correct login and password of its connection.",
    ),
    "registry_schema_refused": ErrorEntry(
        "The schema registry refuses a schema: it does not go with those that its subject has.",
        "A sink says it as `sink_schema_incompatible`, with the ways out.",
    ),
    "registry_format": ErrorEntry(
        "The registry does not know a format that the flow reads.",
        "Use a registry that does, or another format of the topic.",
        exits=(2,),
    ),
    "trace_error": ErrorEntry(
        "What was asked of `databus trace` cannot be followed.",
        "Read the message: it says how far it was followed.",
    ),
    "trace_query_unknown": ErrorEntry(
        "The text is none of the things that can be traced.",
        "Write FILE:POS, a GTID, an event id, TOPIC:PARTITION:OFFSET, INDEX/ID or a key as JSON; --as says which.",
        exits=(2,),
    ),
    "trace_not_recorded": ErrorEntry(
        "No recorded batch moved it: before the first, behind the last, or not of this flow.",
        "Ask another flow, or wait until the flow has passed it: `databus lag` shows where it stands.",
    ),
    "trace_record_expired": ErrorEntry(
        "The sink no longer keeps the record: retention, compaction, or a deleted document.",
        "The batch and its ledger still say that it was delivered; ask the log's side instead.",
    ),
    "trace_log_purged": ErrorEntry(
        "The log that holds it was deleted, and no kept segment and no sink shows it.",
        "Keep segments longer (DATABUS_SEGMENT_KEEP) for later questions.",
    ),
    "trace_limit": ErrorEntry(
        "Looking on would read too much.",
        "Give a narrower question: --flow, --site, or a place instead of a key.",
    ),
    "redis_rdb": ErrorEntry(
        "An RDB file or DUMP payload of Redis cannot be read to its end; the message names the byte.",
        "Read the message; `redis-check-rdb FILE` says whether Redis itself reads the file.",
    ),
    "redis_rdb_cut": ErrorEntry(
        "An RDB file of Redis ends before its end mark: it was copied or transferred in part.",
        "Copy it again, after BGSAVE has ended (LASTSAVE).",
    ),
    "redis_rdb_corrupt": ErrorEntry(
        "Bytes of an RDB file of Redis contradict each other or its checksum; nothing behind them was read.",
        "Copy the file again; `redis-check-rdb FILE` says whether Redis itself reads it.",
    ),
    "redis_rdb_unknown": ErrorEntry(
        "An RDB file has a version, a type or an opcode that is not known: of Redis after 7.0, or of another product.",
        "Take the file from a server up to Redis 7.0 (RDB version 10).",
    ),
    "redis_snapshot_file": ErrorEntry(
        "The snapshot that a Redis server sends cannot be written to a file: the folder is not there, or is full.",
        "Give a folder that can be written, with room for an RDB file of the server.",
    ),
    "redis_stream": ErrorEntry(
        "A server sent bytes that are no command of the replication stream; nothing behind them was read.",
        "Connect again at the last place. Where it comes back, report the server's version and the offset.",
    ),
    "redis_gap": ErrorEntry(
        "A Redis server does not continue its stream at the wanted place: its backlog is shorter than the reader was "
        "away, or its history is another (restart, failover).",
        "Read a new snapshot; raise repl-backlog-size and repl-backlog-ttl of the server.",
    ),
}
"""Code → its entry."""
