"""Entries of error codes: programs that read changes."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "consumer_error": ErrorEntry(
        "Reading changes failed in a way that has no code of its own.",
        "Read the message; what was not acknowledged is read again.",
    ),
    "consumer_format": ErrorEntry(
        "A record is in none of the forms that `databus.consumer` reads; the message names its place.",
        "Read topics of row changes alone, and name the topic of BEGIN and END as transaction_topic.",
    ),
    "consumer_row": ErrorEntry(
        "A row lacks a column of the class that it was to become, or has a value that does not fit the field's type.",
        "Give the field a default or another type; the message names table, column and value's type.",
    ),
    "consumer_place_gone": ErrorEntry(
        "The topic no longer has the records at the consumer's checkpoint: its retention has passed them.",
        "Rows in between are lost to it. Let the flow take a snapshot of its tables, then begin with a new group or "
        "checkpoint.",
    ),
    "consumer_checkpoint_moved": ErrorEntry(
        "The checkpoint in the database is not the one that this consumer goes on from: another consumer of that name "
        "has moved it, or the transaction of a former save was rolled back.",
        "Roll the transaction back and call changes.rewind().",
        retried=True,
    ),
    "consumer_checkpoint": ErrorEntry(
        "A checkpoint of a consumer cannot be read or written: no table, a damaged file, a file of another name.",
        "Run checkpoint.create(cursor) once for a database; put a damaged file back, or delete it to begin anew.",
    ),
    "consumer_checkpoint_busy": ErrorEntry(
        "Another process has this checkpoint file open.",
        "Stop it, or give each process a file of its own and a share of the partitions.",
    ),
    "consumer_spill_full": ErrorEntry(
        "Open transactions take more disk than disk_bytes allows.",
        "Raise disk_bytes, or lower patience_s so that incomplete transactions are given up sooner.",
    ),
    "consumer_state_topic": ErrorEntry(
        "A state topic is missing, is not compacted alone, has other partitions or keys than the topic of changes, or "
        "records without an event id.",
        "The message names it. Let a second Kafka sink of the flow keep it, with the partitions and keys of the first.",
    ),
    "consumer_state_behind": ErrorEntry(
        "The markers of the flow's two sinks, the state's and the changes', were not seen at the same batch within "
        "patience_s.",
        "Look whether the flow runs and both sinks are up; compare flow, sinks and installation of StateTopic with it.",
        retried=True,
    ),
    "consumer_state_lost": ErrorEntry(
        "Reading the state took longer than the topic of changes keeps what comes behind it, or than the state topic "
        "keeps tombstones, as often as `rounds` says.",
        "Raise retention.ms or delete.retention.ms of the topic that the message names, or share the partitions out.",
        retried=True,
    ),
}
"""Code → its entry."""
