"""Entries of error codes: checkpoint store, backfills, quarantine."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "checkpoint_error": ErrorEntry(
        "The checkpoint store refused or failed.",
        "Read the message; nothing advances without it.",
    ),
    "checkpoint_unavailable": ErrorEntry(
        "ZooKeeper cannot be reached; nothing advances until it is.",
        'Start it, or correct its connection. on_zookeeper_loss="continue" lets flows with Kafka sinks go on.',
        exits=(4,),
        retried=True,
    ),
    "checkpoint_access_denied": ErrorEntry(
        "ZooKeeper denies access below the installation's root.",
        "Set the login and password that made the root in the connection, or use another root.",
    ),
    "checkpoint_open": ErrorEntry(
        "Znodes may be read or changed by anybody who reaches ZooKeeper.",
        "Set a digest login in the connection before the first run; set ACLs of what is there with zkCli.sh.",
        exits=(),
    ),
    "checkpoint_conflict": ErrorEntry(
        "The stored checkpoint or plan is not the one that this run wrote.",
        "Look at `databus checkpoint history`; the next run goes on from what is stored.",
        exits=(3,),
    ),
    "checkpoint_moved": ErrorEntry(
        "The checkpoint has moved since the page or program that asks for a change has read it.",
        "Look at what changed, preview the change again, and ask with the new version.",
        exits=(3,),
    ),
    "checkpoint_plan_changed": ErrorEntry(
        "The flow's definition changed while sinks hold a part of its unfinished batch.",
        "Finish the batch under the former definition, then change it.",
        exits=(3,),
    ),
    "checkpoint_stale_epoch": ErrorEntry(
        "A newer run has claimed the flow: this one may not write any more.",
        "Nothing: the newer run goes on.",
        exits=(3,),
        retried=True,
    ),
    "checkpoint_busy": ErrorEntry(
        "Another run holds the flow's lease.",
        "Wait for it; `databus checkpoint show` names the holder.",
        exits=(3,),
        retried=True,
    ),
    "checkpoint_paused": ErrorEntry(
        "A person has paused the flow.",
        "`databus checkpoint resume` lets it go on.",
    ),
    "checkpoint_format": ErrorEntry(
        "Stored bytes are of no version that this code reads.",
        "A newer databus may have written them: run that version.",
    ),
    "checkpoint_too_large": ErrorEntry(
        "A write would be larger than ZooKeeper takes safely.",
        "Name fewer topics or tables in one flow.",
    ),
    "checkpoint_behind_sinks": ErrorEntry(
        "Sinks hold batches that ZooKeeper does not know: it was restored from an older copy, say.",
        "`databus checkpoint adopt` moves the checkpoint to the sinks' markers.",
    ),
    "checkpoint_snapshot_unfinished": ErrorEntry(
        "Another snapshot of the flow is unfinished.",
        "Let it finish, or cancel it with `databus snapshot cancel`.",
        exits=(3,),
    ),
    "offset_kind_unknown": ErrorEntry(
        "A stored offset is of a kind that no installed package has.",
        "Install the package of the source that wrote it on every worker, or upgrade databus.",
    ),
    "offset_kind_broken": ErrorEntry(
        "A package's class of offsets cannot be loaded or lacks a method.",
        "Mend or upgrade the package that has it.",
    ),
    "backfill_open": ErrorEntry(
        "A range is not complete yet, or another backfill is to be done first.",
        "Run it again later: it goes on where it stands.",
        retried=True,
    ),
    "backfill_waits": ErrorEntry(
        "Ranges are moved in order, and another one is being moved just now.",
        "Nothing: it is this one's turn afterwards.",
        retried=True,
    ),
    "backfill_incomplete": ErrorEntry(
        "A backfill ended before its ledger shows all of its range.",
        "Run it again: it goes on where it stands.",
        retried=True,
    ),
    "backfill_range": ErrorEntry(
        "The range of a backfill is none: it ends before it begins, or cannot be understood.",
        "Give --from and --to as times or places of the log.",
        exits=(2,),
    ),
    "backfill_future": ErrorEntry(
        "The range of a backfill ends in the future.",
        "Give an end that has passed.",
        exits=(2,),
    ),
    "quarantine_replay_open": ErrorEntry(
        "A replay has taken up some of these rows and is not finished.",
        "`databus quarantine replay` finishes it; then discard what is held still.",
        exits=(3,),
    ),
    "quarantine_changed": ErrorEntry(
        "Rows were held back, replayed or discarded since the page that asks for a decision has counted them.",
        "Look at the rows again, then decide.",
        exits=(3,),
    ),
    "action_key_reused": ErrorEntry(
        "The Idempotency-Key of an action was given to another one before.",
        "Give each action a key of its own, such as a random UUID.",
        exits=(2,),
    ),
    "action_open": ErrorEntry(
        "The same action, with the same Idempotency-Key, is being done.",
        "Repeat the request with the same key: it gets the answer once there is one.",
        exits=(3,),
        retried=True,
    ),
    "request_refused": ErrorEntry(
        "A request of the API lacks a header, or is of a form that is not taken.",
        "Send JSON, an Idempotency-Key, and If-Match with the version that you looked at.",
    ),
    "dag_no_flow": ErrorEntry(
        "The DAG is no flow's, its file is gone, or Airflow has not read it since databus was upgraded.",
        "Name the DAG of a flow; let Airflow's DAG processor read its file once more.",
        exits=(2,),
    ),
    "quarantine_replays_refused": ErrorEntry(
        "Rows of some batches cannot be replayed as things are; the others were.",
        "Read the reason of each; mend it and replay again.",
    ),
    "quarantine_range_unknown": ErrorEntry(
        "Neither a report nor the history says what range a batch had.",
        "`databus quarantine export` gives the rows: write them by hand, then discard them.",
        exits=(2,),
    ),
    "quarantine_sink_behind": ErrorEntry(
        "A sink is behind the rows that are to be replayed.",
        "Run the flow until the sink has caught up, then replay.",
        exits=(3,),
    ),
    "quarantine_moved_again": ErrorEntry(
        "Rows lie behind a rewind, which sends them again or has done so in part.",
        "Run the flow past them, then replay what is held still.",
        exits=(3,),
    ),
    "quarantine_rows_gone": ErrorEntry(
        "Rows to be replayed are no longer in the log.",
        "`databus quarantine export` gives them as they were held: write them by hand, then discard them.",
    ),
    "reason_missing": ErrorEntry(
        "A change of the checkpoint needs who and why.",
        "Give --reason.",
        exits=(2,),
    ),
}
"""Code → its entry."""
