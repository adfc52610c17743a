"""Patches of planted bugs: each replaces parts of the product in the process that runs it, never on disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

Plant = Callable[[Any, str, Any], None]
"""Replaces an attribute of an object: (object, attribute, replacement)."""


def no_epoch_check(plant: Plant) -> None:
    no_epoch_read(plant)
    multi_without_epoch(plant)


def no_epoch_read(plant: Plant) -> None:
    from databus.checkpoints.rules import plans as transitions

    plant(transitions, "check_epoch", lambda flow, mine, stored: None)


def multi_without_epoch(plant: Plant) -> None:
    from databus.checkpoints import batches
    from databus.checkpoints.connection.transaction import Operation, OperationKind

    plant(batches, "check", lambda path, version: Operation(OperationKind.CHECK, path))


def epoch_not_raised(plant: Plant) -> None:
    from databus.checkpoints import claimant

    plant(claimant, "Epoch", lambda number: max(1, number - 1))


def marker_ignored(plant: Plant) -> None:
    from databus.sinks.kafka import markers, writer

    def compare(marker: Any, plan: Any, sink: str, slot: int) -> Any:
        return markers.Resume(False, 0, None)

    plant(markers, "compare", compare)
    plant(writer, "compare", compare)


def any_marker_is_prev(plant: Plant) -> None:
    from databus.sinks.kafka import markers

    plant(markers, "_is_prev", lambda marker, prev: True)


def chunks_forgotten(plant: Plant) -> None:
    from databus.sinks.kafka import markers, writer

    right = markers.compare

    def compare(marker: Any, plan: Any, sink: str, slot: int) -> Any:
        resume = right(marker, plan, sink, slot)
        return resume if resume.finished else markers.Resume(False, 0, None)

    plant(markers, "compare", compare)
    plant(writer, "compare", compare)


def unfinished_is_finished(plant: Plant) -> None:
    from databus.sinks.kafka import markers, writer

    right = markers.compare

    def compare(marker: Any, plan: Any, sink: str, slot: int) -> Any:
        resume = right(marker, plan, sink, slot)
        return replace(resume, finished=resume.marker is not None)

    plant(markers, "compare", compare)
    plant(writer, "compare", compare)


def closed_slot_by_slot(plant: Plant) -> None:
    from databus.runtime.takeover import closing, given_up

    def close_unwritten(sinks: Any, pending: Any, _lease: Any) -> Any:
        # As it was: looked at first, then fenced and marked slot by slot, whatever a slot says then.
        held = tuple(name for name, sink in sinks.items() if sink.wrote_any_of(pending))
        if held:
            return closing.ClosingOutcome(held, {})
        return closing.ClosingOutcome(
            (), {name: (pending.batch,) * len(sink.abandon(pending)) for name, sink in sinks.items()}
        )

    plant(given_up, "close_unwritten", close_unwritten)


def closed_plan_stays_closed(plant: Plant) -> None:
    from databus.runtime import plan
    from databus.runtime.takeover import closing

    for module in (plan, closing):
        plant(module, "open_again", lambda sinks, pending, lease: None)


def closed_by_any_claim(plant: Plant) -> None:
    from databus.checkpoints.lease import ZooKeeperLease

    plant(ZooKeeperLease, "confirm", lambda self: None)


def closed_slots_stay(plant: Plant) -> None:
    from databus.sinks.kafka import fenced_plan

    plant(fenced_plan.KafkaFencedPlan, "put_back", lambda self: None)


def slots_forgotten(plant: Plant) -> None:
    from databus.core.state.plan import SinkPlan
    from databus.runtime import commit

    def following(self: Any, known: Any, committed: int) -> Any:
        return replace(self, prev=tuple(known[slot] if slot < len(known) else 0 for slot in range(self.slots)))

    plant(SinkPlan, "following", following)
    plant(commit, "merged_slots", lambda before, after: {**before, **after})


def plan_stays(plant: Plant) -> None:
    from databus.checkpoints import batches
    from databus.checkpoints.connection.transaction import Operation, OperationKind

    plant(batches, "delete", lambda path, version=-1: Operation(OperationKind.CHECK, path))


def plan_rewritten(plant: Plant) -> None:
    from databus.checkpoints import zookeeper
    from databus.checkpoints.rules import plans as transitions

    plant(zookeeper.ZooKeeperCheckpoints, "pending_plan", lambda self, flow: None)
    plant(transitions, "check_plan", lambda plan, stored, pending: None)


def plan_of_another_in_flight(plant: Plant) -> None:
    from databus.checkpoints import zookeeper
    from databus.checkpoints.rules import plans as transitions

    plant(zookeeper.ZooKeeperCheckpoints, "pending_plan", lambda self, flow: None)
    plant(transitions, "check_plan", lambda plan, stored, pending: None)
    plant(transitions, "check_planned", lambda plan, pending, stored: None)
    marker_ignored(plant)


def commit_before_dispatch(plant: Plant) -> None:
    from databus.runtime import batch
    from databus.runtime.pacing.batch_sizing import Pace

    right_plan, right_commit, right_move = batch.next_plan, batch.commit, batch._move  # type: ignore[attr-defined]
    held: list[Any] = []

    def next_plan(session: Any, lease: Any, checkpoint: Any, **told: Any) -> Any:
        held[:] = [lease]
        return right_plan(session, lease, checkpoint, **told)

    def move(session: Any, planned: Any, times: Any) -> Any:
        held.append(right_commit(session, held[0], planned, {}, (), Pace()))
        return right_move(session, planned, times)

    plant(batch, "next_plan", next_plan)
    plant(batch, "_move", move)
    plant(batch, "commit", lambda *_: held[1])


def marker_apart(plant: Plant) -> None:
    from databus.sinks.kafka import session

    def commit(self: Any, marker: Any) -> None:
        self._retry("commit", self.producer.commit_transaction, 20.0)
        time.sleep(0.2)
        self.producer.begin_transaction()
        self._send(marker)
        self._retry("commit", self.producer.commit_transaction, 20.0)

    plant(session.Session, "commit", commit)


def marker_not_written(plant: Plant) -> None:
    from databus.sinks.kafka import markers, session, writer

    plant(session.Session, "_send", lambda self, marker, within_s=0.0: None)
    plant(writer, "compare", lambda marker, plan, sink, slot: markers.Resume(False, 0, None))


def no_fencing_by_id(plant: Plant) -> None:
    from databus.sinks.kafka import markers

    plant(markers.MarkerKey, "transactional_id", lambda self, slot: f"{self.group}.{slot}.{os.getpid()}")


def not_transactional(plant: Plant) -> None:
    from databus.sinks.kafka import writer

    right = writer.KafkaSlotWriter.produce

    def produce(self: Any, session: Any, batch: Any, tally: Any) -> None:
        # Each batch of rows is made visible at once, before the marker.
        right(self, session, batch, tally)
        session.flush()
        session._retry("commit", session.producer.commit_transaction, 20.0)
        session.producer.begin_transaction()

    plant(writer.KafkaSlotWriter, "produce", produce)


def partition_by_row(plant: Plant) -> None:
    import numpy as np

    from databus.sinks.kafka import direct

    right = direct.KafkaEncoder._partitions

    def partitions(self: Any, rows: Any, topics: Any, of_row: Any) -> Any:
        partition, known = right(self, rows, topics, of_row)
        return ((partition + np.asarray(rows["place"]) // 7) % 5).astype(np.int32), known

    plant(direct.KafkaEncoder, "_partitions", partitions)


def row_dropped(plant: Plant) -> None:
    from databus.sinks.kafka import writer
    from databus.sinks.kafka.tally import MessageTally

    right = writer.KafkaSlotWriter.produce

    def produce(self: Any, session: Any, batch: Any, tally: MessageTally) -> None:
        right(self, session, batch.slice(0, max(1, batch.num_rows - 1)), tally)

    plant(writer.KafkaSlotWriter, "produce", produce)


def receipts_not_checked(plant: Plant) -> None:
    from databus.runtime import counts

    plant(counts, "_require_equal", lambda flow, sink, given, confirmed: None)


def quarantine_after_commit(plant: Plant) -> None:
    from databus.runtime import batch

    right = batch.commit  # type: ignore[attr-defined]

    def commit(session: Any, lease: Any, planned: Any, tables: Any, receipts: Any, pace: Any) -> Any:
        done = right(session, lease, planned, tables, receipts, pace)
        rejected = tuple(row for receipt in receipts for row in receipt.rejected)
        session.recorder.quarantine(session.flow.name, planned.plan.batch, rejected)
        return done

    plant(batch, "commit", commit)
    plant(batch._EngineResult, "rejected", property(lambda self: (), lambda self, value: None))


def null_headers_emptied(plant: Plant) -> None:
    from databus.sinks.kafka_mirror import writer

    right = writer.MirrorSlotWriter._headers

    def headers(self: Any, given: Any) -> Any:
        return [None if of is None else [(n, v or b"") for n, v in of] for of in right(self, given)]

    plant(writer.MirrorSlotWriter, "_headers", headers)


def aborted_mirrored(plant: Plant) -> None:
    from databus.sources.kafka import fetch as kafka_fetch

    right = kafka_fetch.Fetcher.__init__

    def opened(self: Any, settings: Any, _isolation: str, extra: Any, stretches: Any) -> None:
        right(self, settings, "read_uncommitted", extra, stretches)

    plant(kafka_fetch.Fetcher, "__init__", opened)


def superseded_sent(plant: Plant) -> None:
    from databus.sources.mysql.snapshot import chunk_planning

    plant(chunk_planning, "without_changed", lambda _, chunks, index, store: [chunk.file for chunk in chunks])


def range_ends_early(plant: Plant) -> None:
    from databus.sources.mysql.dump.range_dumper import RangeDumper

    right = RangeDumper.stage

    def stage(self: Any, after: Any, switch: Any, bounds: Any, deadline: Any) -> Any:
        return None if bounds.through is not None else right(self, after, switch, bounds, deadline)

    plant(RangeDumper, "stage", stage)


def cursor_stays(plant: Plant) -> None:
    from databus.runtime.pacing.snapshot_turns import SnapshotTurns

    right = SnapshotTurns.plan

    def stood(self: Any, *given: Any) -> Any:
        before = self._known
        planned = right(self, *given)
        if planned is None or planned[1] is None or before is None or planned[1].snapshot.number % 2 == 0:
            return planned
        return planned[0], replace(planned[1], snapshot=replace(before, tables=_done_after(before.tables)))

    def _done_after(tables: Any) -> Any:
        """Count a chunk and leave the cursor; all is done after twenty, so that the snapshot ends."""
        done = sum(table.chunks for table in tables) > 20
        return tuple(replace(table, chunks=table.chunks + 1, state="done" if done else table.state) for table in tables)

    plant(SnapshotTurns, "plan", stood)
