"""Bugs to plant, each with what must catch it: a protocol model's size, faults of a harness, or a named test.

A mutant changes the product's code in the process that runs it, never on disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.faults.model_state import Size

Patch = Callable[[Callable[[Any, str, Any], None]], None]


@dataclass(frozen=True)
class Mutant:
    """A planted bug.

    Attributes:
        what: in words.
        patch: calls its argument with (object, attribute, replacement) for each change.
        model: size at which the model finds it; None where the model cannot see it.
        faults: faults under which the harness finds it, () where it is not asked.
        test: node id of a test that fails.
        loop: the harness that is asked, a module.
    """

    what: str
    patch: Patch
    model: Size | None = None
    faults: tuple[str, ...] = ()
    test: str = ""
    loop: str = "tests.faults"

    def apply(self) -> None:
        """Change this process for good.

        Raises:
            AttributeError: what it changes is not there any more: the bug was not planted.
        """
        self.patch(replace_known)


def replace_known(target: Any, name: str, value: Any) -> None:
    """Replace an attribute or a field that is there.

    Raises:
        AttributeError: it is not.
    """
    if not hasattr(target, name) and name not in getattr(target, "__annotations__", {}):
        raise AttributeError(f"{target!r} has no {name}")
    setattr(target, name, value)


MIRROR_LOOP = "tests.faults.mirror"
SNAPSHOT_LOOP = "tests.faults.snapshots"
SMALL = Size(units=1, crashes=1, expiries=1, epochs=3)


def _no_epoch_check(plant: Callable[[Any, str, Any], None]) -> None:
    _no_epoch_read(plant)
    _multi_without_epoch(plant)


def _no_epoch_read(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints.rules import plans as transitions

    plant(transitions, "check_epoch", lambda flow, mine, stored: None)


def _multi_without_epoch(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints import batches
    from databus.checkpoints.connection.transaction import Operation, OperationKind

    plant(batches, "check", lambda path, version: Operation(OperationKind.CHECK, path))


def _epoch_not_raised(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints import claimant

    plant(claimant, "Epoch", lambda number: max(1, number - 1))


def _marker_ignored(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import markers, writer

    def compare(marker: Any, plan: Any, sink: str, slot: int) -> Any:
        return markers.Resume(False, 0, None)

    plant(markers, "compare", compare)
    plant(writer, "compare", compare)


def _any_marker_is_prev(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import markers

    plant(markers, "_is_prev", lambda marker, prev: True)


def _chunks_forgotten(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import markers, writer

    right = markers.compare

    def compare(marker: Any, plan: Any, sink: str, slot: int) -> Any:
        resume = right(marker, plan, sink, slot)
        return resume if resume.finished else markers.Resume(False, 0, None)

    plant(markers, "compare", compare)
    plant(writer, "compare", compare)


def _unfinished_is_finished(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import markers, writer

    right = markers.compare

    def compare(marker: Any, plan: Any, sink: str, slot: int) -> Any:
        resume = right(marker, plan, sink, slot)
        return replace(resume, finished=resume.marker is not None)

    plant(markers, "compare", compare)
    plant(writer, "compare", compare)


def _closed_slot_by_slot(plant: Callable[[Any, str, Any], None]) -> None:
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


def _closed_plan_stays_closed(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.runtime import plan
    from databus.runtime.takeover import closing

    for module in (plan, closing):
        plant(module, "open_again", lambda sinks, pending, lease: None)


def _closed_by_any_claim(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints.lease import ZooKeeperLease

    plant(ZooKeeperLease, "confirm", lambda self: None)


def _closed_slots_stay(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import fenced_plan

    plant(fenced_plan.KafkaFencedPlan, "put_back", lambda self: None)


def _slots_forgotten(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.core.state.plan import SinkPlan
    from databus.runtime import commit

    def following(self: Any, known: Any, committed: int) -> Any:
        return replace(self, prev=tuple(known[slot] if slot < len(known) else 0 for slot in range(self.slots)))

    plant(SinkPlan, "following", following)
    plant(commit, "merged_slots", lambda before, after: {**before, **after})


def _plan_stays(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints import batches
    from databus.checkpoints.connection.transaction import Operation, OperationKind

    plant(batches, "delete", lambda path, version=-1: Operation(OperationKind.CHECK, path))


def _plan_rewritten(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints import zookeeper
    from databus.checkpoints.rules import plans as transitions

    plant(zookeeper.ZooKeeperCheckpoints, "pending_plan", lambda self, flow: None)
    plant(transitions, "check_plan", lambda plan, stored, pending: None)


def _plan_of_another_in_flight(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.checkpoints import zookeeper
    from databus.checkpoints.rules import plans as transitions

    plant(zookeeper.ZooKeeperCheckpoints, "pending_plan", lambda self, flow: None)
    plant(transitions, "check_plan", lambda plan, stored, pending: None)
    plant(transitions, "check_planned", lambda plan, pending, stored: None)
    _marker_ignored(plant)


def _commit_before_dispatch(plant: Callable[[Any, str, Any], None]) -> None:
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


def _marker_apart(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import session

    def commit(self: Any, marker: Any) -> None:
        self._retry("commit", self.producer.commit_transaction, 20.0)
        time.sleep(0.2)
        self.producer.begin_transaction()
        self._send(marker)
        self._retry("commit", self.producer.commit_transaction, 20.0)

    plant(session.Session, "commit", commit)


def _marker_not_written(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import markers, session, writer

    plant(session.Session, "_send", lambda self, marker, within_s=0.0: None)
    plant(writer, "compare", lambda marker, plan, sink, slot: markers.Resume(False, 0, None))


def _no_fencing_by_id(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import markers

    plant(markers.MarkerKey, "transactional_id", lambda self, slot: f"{self.group}.{slot}.{os.getpid()}")


def _not_transactional(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import writer

    right = writer.KafkaSlotWriter.produce

    def produce(self: Any, session: Any, batch: Any, tally: Any) -> None:
        # Each batch of rows is made visible at once, before the marker.
        right(self, session, batch, tally)
        session.flush()
        session._retry("commit", session.producer.commit_transaction, 20.0)
        session.producer.begin_transaction()

    plant(writer.KafkaSlotWriter, "produce", produce)


def _partition_by_row(plant: Callable[[Any, str, Any], None]) -> None:
    import numpy as np

    from databus.sinks.kafka import direct

    right = direct.KafkaEncoder._partitions

    def partitions(self: Any, rows: Any, topics: Any, of_row: Any) -> Any:
        partition, known = right(self, rows, topics, of_row)
        return ((partition + np.asarray(rows["place"]) // 7) % 5).astype(np.int32), known

    plant(direct.KafkaEncoder, "_partitions", partitions)


def _row_dropped(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka import writer
    from databus.sinks.kafka.tally import MessageTally

    right = writer.KafkaSlotWriter.produce

    def produce(self: Any, session: Any, batch: Any, tally: MessageTally) -> None:
        right(self, session, batch.slice(0, max(1, batch.num_rows - 1)), tally)

    plant(writer.KafkaSlotWriter, "produce", produce)


def _receipts_not_checked(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.runtime import counts

    plant(counts, "_require_equal", lambda flow, sink, given, confirmed: None)


def _quarantine_after_commit(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.runtime import batch

    right = batch.commit  # type: ignore[attr-defined]

    def commit(session: Any, lease: Any, planned: Any, tables: Any, receipts: Any, pace: Any) -> Any:
        done = right(session, lease, planned, tables, receipts, pace)
        rejected = tuple(row for receipt in receipts for row in receipt.rejected)
        session.recorder.quarantine(session.flow.name, planned.plan.batch, rejected)
        return done

    plant(batch, "commit", commit)
    plant(batch._EngineResult, "rejected", property(lambda self: (), lambda self, value: None))


def _null_headers_emptied(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sinks.kafka_mirror import writer

    right = writer.MirrorSlotWriter._headers

    def headers(self: Any, given: Any) -> Any:
        return [None if of is None else [(n, v or b"") for n, v in of] for of in right(self, given)]

    plant(writer.MirrorSlotWriter, "_headers", headers)


def _aborted_mirrored(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sources.kafka import fetch as kafka_fetch

    right = kafka_fetch.Fetcher.__init__

    def opened(self: Any, settings: Any, _isolation: str, extra: Any, stretches: Any) -> None:
        right(self, settings, "read_uncommitted", extra, stretches)

    plant(kafka_fetch.Fetcher, "__init__", opened)


def _superseded_sent(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sources.mysql.snapshot import chunk_planning

    plant(chunk_planning, "without_changed", lambda _, chunks, index, store: [chunk.file for chunk in chunks])


def _range_ends_early(plant: Callable[[Any, str, Any], None]) -> None:
    from databus.sources.mysql.dump.range_dumper import RangeDumper

    right = RangeDumper.stage

    def stage(self: Any, after: Any, switch: Any, bounds: Any, deadline: Any) -> Any:
        return None if bounds.through is not None else right(self, after, switch, bounds, deadline)

    plant(RangeDumper, "stage", stage)


def _cursor_stays(plant: Callable[[Any, str, Any], None]) -> None:
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


MUTANTS: dict[str, Mutant] = {
    "no epoch check": Mutant("ZooKeeper takes writes of any epoch", _no_epoch_check, SMALL),
    "epoch read, not checked": Mutant("the epoch is read but no part of the multi", _multi_without_epoch, SMALL),
    "epoch not raised": Mutant("a claim leaves the epoch as it is", _epoch_not_raised, SMALL),
    "marker ignored": Mutant("a writer writes whatever its marker says", _marker_ignored, SMALL, ("kill both",)),
    "any marker passes": Mutant(
        "an older or newer marker counts as the one before",
        _any_marker_is_prev,
        Size(units=2, crashes=1, expiries=0, epochs=2),
    ),
    "chunks forgotten": Mutant(
        "a batch half written is begun again", _chunks_forgotten, Size(units=2, crashes=1, expiries=0, epochs=2)
    ),
    "half is whole": Mutant(
        "a batch half written counts as written",
        _unfinished_is_finished,
        Size(units=2, crashes=1, expiries=0, epochs=2),
    ),
    "closed slot by slot": Mutant(
        "a changed flow's plan is looked at, then closed slot by slot",
        _closed_slot_by_slot,
        Size(units=1, slots=2, crashes=1, expiries=0, epochs=3, definitions=2),
    ),
    "closed slots stay": Mutant(
        "a closing that finds rows leaves the slots that it closed",
        _closed_slots_stay,
        Size(units=1, slots=2, crashes=1, expiries=0, epochs=3, definitions=2),
    ),
    "closed plan stays closed": Mutant(
        "a flow changed back leaves slots closed that its change has closed",
        _closed_plan_stays_closed,
        Size(units=1, slots=2, crashes=2, expiries=0, epochs=3, definitions=2),
    ),
    "opened by any claim": Mutant(
        "who opens a closed plan again does not ask whether the flow was claimed since",
        _closed_by_any_claim,
        Size(units=1, slots=1, crashes=0, expiries=3, epochs=4, definitions=2),
    ),
    "slots forgotten": Mutant(
        "a commit forgets what the slots hold that took no part in it",
        _slots_forgotten,
        Size(units=3, slots=2, crashes=0, expiries=0, epochs=1, resized=True),
    ),
    "plan stays": Mutant(
        "a commit leaves the plan in flight", _plan_stays, Size(units=2, crashes=0, expiries=0, epochs=2)
    ),
    "plan rewritten": Mutant("a retry plans anew", _plan_rewritten, SMALL),
    "plan rewritten, unmarked": Mutant("a retry plans anew and markers are ignored", _plan_of_another_in_flight, SMALL),
    "commit before dispatch": Mutant(
        "the checkpoint moves before rows are written", _commit_before_dispatch, faults=("kill executor", "kill both")
    ),
    "marker apart": Mutant("rows and marker in two transactions", _marker_apart, faults=("kill both", "kill executor")),
    "marker not written": Mutant("no marker at all", _marker_not_written, faults=("kill at driver point",)),
    "no fencing by id": Mutant(
        "each process has a transactional.id of its own", _no_fencing_by_id, faults=("zombie executor", "zombie both")
    ),
    "rows before marker": Mutant(
        "rows are visible before the marker", _not_transactional, faults=("kill executor", "kill at executor point")
    ),
    "partition by row": Mutant("the partition is not the key's", _partition_by_row, faults=("kill driver",)),
    "row dropped": Mutant("the last row of a chunk is not produced", _row_dropped, faults=("kill driver",)),
    "null headers emptied": Mutant(
        "a mirror makes empty headers of null ones", _null_headers_emptied, faults=("kill driver",), loop=MIRROR_LOOP
    ),
    "aborted records mirrored": Mutant(
        "a mirror reads what was not committed", _aborted_mirrored, faults=("kill driver",), loop=MIRROR_LOOP
    ),
    "marker ignored by a mirror": Mutant(
        "a mirror writes whatever its marker says", _marker_ignored, faults=("kill both",), loop=MIRROR_LOOP
    ),
    "superseded rows sent": Mutant(
        "a chunk keeps rows that the batch's own range has",
        _superseded_sent,
        faults=("kill driver",),
        loop=SNAPSHOT_LOOP,
    ),
    "range ends before the view": Mutant(
        "a chunk goes with a range that ends before it was read",
        _range_ends_early,
        faults=("kill driver",),
        loop=SNAPSHOT_LOOP,
    ),
    "cursor stays": Mutant(
        "a commit leaves the snapshot where it stood", _cursor_stays, faults=("kill driver",), loop=SNAPSHOT_LOOP
    ),
    "receipts not checked": Mutant(
        "receipts are not compared with what was given",
        _receipts_not_checked,
        test="tests/unit/runtime/test_batch_order.py::test_a_row_that_no_receipt_accounts_for_stops_the_batch",
    ),
    "quarantine after commit": Mutant(
        "held rows are stored after the commit",
        _quarantine_after_commit,
        test="tests/unit/runtime/test_batch_order.py::"
        "test_rows_held_back_are_stored_before_the_commit_that_counts_them",
    ),
}
