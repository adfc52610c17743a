"""Entries of error codes: sinks, mirrors, comparisons."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "sink_error": ErrorEntry(
        "Writing to a sink failed in a way that has no code of its own.",
        "Read the message; the batch is not committed and is taken up again from its plan.",
    ),
    "sink_unavailable": ErrorEntry(
        "A sink cannot be reached.",
        "Start it, or correct its connection. With several sinks the others go on, and this one catches up by itself.",
        exits=(4,),
        retried=True,
    ),
    "sink_access_denied": ErrorEntry(
        "A sink refused the login, or the account lacks a privilege.",
        "Correct login and password of the connection, or give the right that the message names.",
    ),
    "sink_setting": ErrorEntry(
        "Settings or objects of a sink (topic, index) do not allow what the flow wants.",
        "Change the setting that the message names, in the flow or on the server.",
        exits=(1, 2),
    ),
    "lane_required": ErrorEntry(
        "A sink writes messages in a form that only the direct lane can write, and the flow's rows go through Spark.",
        "Take out the transform, check or option that the message names, or choose a form that both lanes write.",
        exits=(1, 2),
    ),
    "sink_backpressure": ErrorEntry(
        "A sink asks for a slower pace.",
        "Nothing: the writer waits and goes on. If it goes on so, give the sink more room.",
        retried=True,
    ),
    "sink_fenced": ErrorEntry(
        "A newer run writes to this sink, so this one must stop.",
        "Nothing: the newer run has the batch.",
        retried=True,
    ),
    "sink_transaction_hanging": ErrorEntry(
        "A Kafka transaction that nobody holds keeps a marker back: the broker lost its end.",
        "Abort it with kafka-transactions.sh, as the hint says.",
        exits=(4,),
        retried=True,
    ),
    "sink_schema_incompatible": ErrorEntry(
        "A table's definition makes a schema that the registry refuses beside those before it.",
        "Nothing of the batch was read. Bring the table back, hide the change with a transform, loosen the subject's "
        "compatibility for a moment, or give the sink another topic.",
    ),
    "sink_avro_name": ErrorEntry(
        "Two columns of a table have one name in Avro or Protobuf, which allow letters, digits and _ alone.",
        "Rename or drop one of them in the flow's transforms.",
    ),
    "sink_key_changed": ErrorEntry(
        "A table's new primary key makes other document ids than those in the sink.",
        "Decide with on_key_change, or fill a new index by a flow of another name.",
    ),
    "sink_output_changed": ErrorEntry(
        "An output that the flow has written to was deleted, and nothing or another one stands there.",
        "If it was meant: `databus checkpoint accept`; see docs/runbooks/topic-deleted.md.",
    ),
    "sink_marker_diverged": ErrorEntry(
        "A sink's marker is neither this batch nor the one before: writing could lose or repeat rows.",
        "Compare `databus checkpoint show` with the marker named, before any rewind.",
    ),
    "sink_conflict": ErrorEntry(
        "A sink holds a row from behind the end of the batch: somebody else wrote it, or the flow was set back.",
        "Nothing was overwritten. Compare `databus checkpoint show` with the version named; find the other writer.",
    ),
    "sink_record_rejected": ErrorEntry(
        'A sink refused rows for good, and the flow is to stop at that (on_reject="fail").',
        'Mend mapping or size, or set on_reject="quarantine" to hold such rows back.',
    ),
    "sink_behind": ErrorEntry(
        "A sink fell behind the others and catches up by itself.",
        "Nothing once it answers; `databus checkpoint show` says where it stands. See docs/runbooks/sink_behind.md.",
        exits=(),
    ),
    "sink_ids_meet": ErrorEntry(
        "A table has a colon in its name, and its documents could have the ids of another table's.",
        'Rename the table, or give it an index of its own with ids="key".',
    ),
    "sink_index_refused": ErrorEntry(
        "The search server refused to create an index.",
        "Check `mapping` and `settings` of the sink.",
    ),
    "sink_index_shared": ErrorEntry(
        "Rows of two tables would go to one index under equal ids.",
        'Put {database} and {table} into the index template, or set ids="table_key".',
    ),
    "sink_topic_shared": ErrorEntry(
        "Two tables would share a topic, as Kafka allows only letters, digits and ._- in names.",
        "Give one of them another route with a Route transform.",
    ),
    "sink_no_primary_key": ErrorEntry(
        "A table without a primary key is to be indexed, so its rows have no document id.",
        "Leave it out of the source or of the sink's routes, or add a primary key to it.",
    ),
    "sink_key_chosen": ErrorEntry(
        "A KeyBy gives rows a key under which a sink cannot take them: search keeps rows by the source's key, and in a "
        "compacted topic, or behind a tombstone, rows that share a key end together.",
        "Leave the table out of the KeyBy or the sink's routes; of Kafka set tombstones=False and no compaction, or "
        "KeyBy(unique=True) where no two rows share a key.",
    ),
    "sink_transaction_topic_shared": ErrorEntry(
        "Two flows write the boundaries of transactions to one topic: readers find each transaction several times.",
        "Put {flow} into transaction_topic, or name a topic for each flow.",
        exits=(2,),
    ),
    "sink_transforms_not_compared": ErrorEntry(
        "A sink has transforms of its own, and `databus validate` compares rows as the flow's transforms leave them.",
        "Compare the other sinks, each by --sink; the ledger and the receipts tell what this one confirmed.",
        exits=(2,),
    ),
    "sink_order_lost": ErrorEntry(
        "A backfill would write rows that count as newer than those from a former server.",
        "Replay them beside the live outputs, under a suffix of their own.",
    ),
    "sink_refuses_move": ErrorEntry(
        "A sink cannot bear that rows come again or out of order.",
        "Accept it (--accept) if its readers can bear it, or fill a new output by a flow of another name.",
    ),
    "sink_reserved_column": ErrorEntry(
        "A table has a column with a name that the sink keeps for members of its own.",
        "Put RenameColumns or DropColumns for it into the flow's transforms.",
    ),
    "sink_key_column_lost": ErrorEntry(
        "A transform renames, drops or changes a key column that the sink's messages name in the row.",
        'Leave the key column as it is, or take types="iso" with envelope="debezium" or "row".',
    ),
    "sink_truncated": ErrorEntry(
        'A table was emptied, and the flow is to stop at that (on_truncate="fail").',
        'Decide: on_truncate="delete" removes its documents, "ignore" leaves them.',
    ),
    "sink_truncate_untold": ErrorEntry(
        "A table was emptied, and nothing in the index tells its documents from others.",
        'Set ids="table_key" or name the table in the index template, for a new index; or on_truncate="ignore".',
    ),
    "sink_partial_image": ErrorEntry(
        "The log holds part of a row's columns only, and the sink needs whole rows.",
        "SET GLOBAL binlog_row_image='FULL', and reconnect sessions that write.",
    ),
    "sink_version_overflow": ErrorEntry(
        "A number of the log does not fit into a document's version.",
        "Index the rows anew into an index of another name.",
    ),
    "mirror_loop": ErrorEntry(
        "Mirrors would copy a topic into itself, or round and round.",
        "Say two_way= in both (origin=True in each of a ring), use policy='prefix', or name connections of two "
        "clusters.",
        exits=(1, 2),
    ),
    "mirror_twice": ErrorEntry(
        "Records of a topic would come to another twice, by two ways of mirrors.",
        "Say forward=False in mirrors that stand beside a direct one, or leave the topic out of one.",
        exits=(2,),
    ),
    "mirror_fewer_partitions": ErrorEntry(
        "A topic at the target has fewer partitions than at the source.",
        "Add partitions there, or set grow=True.",
    ),
    "mirror_record_too_large": ErrorEntry(
        "A record is larger than the target's topic takes.",
        'Raise max.message.bytes there, or choose too_large="quarantine" or "large_value".',
    ),
    "mirror_rename_clash": ErrorEntry(
        "Two topics would have the same name at the target.",
        "Rename one of them otherwise, or exclude it.",
    ),
    "validation_refused": ErrorEntry(
        "A sink's outputs keep no state that could be compared with the source's tables.",
        "Compare another sink: one that keeps the newest row of each key.",
    ),
    "validation_behind": ErrorEntry(
        "The flow does not reach the place up to which its sinks are to be compared.",
        "Let it run (`databus lag` shows how far), then validate again.",
        exits=(3,),
        retried=True,
    ),
}
"""Code → its entry."""
