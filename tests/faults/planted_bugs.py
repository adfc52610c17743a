"""Bugs to plant, each with what must catch it: a protocol model's size, faults of a harness, or a named test.

A mutant changes the product's code in the process that runs it, never on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.faults import patches
from tests.faults.model_state import Size
from tests.faults.patches import Plant


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
    patch: Callable[[Plant], None]
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


MUTANTS: dict[str, Mutant] = {
    "no epoch check": Mutant("ZooKeeper takes writes of any epoch", patches.no_epoch_check, SMALL),
    "epoch read, not checked": Mutant("the epoch is read but no part of the multi", patches.multi_without_epoch, SMALL),
    "epoch not raised": Mutant("a claim leaves the epoch as it is", patches.epoch_not_raised, SMALL),
    "marker ignored": Mutant("a writer writes whatever its marker says", patches.marker_ignored, SMALL, ("kill both",)),
    "any marker passes": Mutant(
        "an older or newer marker counts as the one before",
        patches.any_marker_is_prev,
        Size(units=2, crashes=1, expiries=0, epochs=2),
    ),
    "chunks forgotten": Mutant(
        "a batch half written is begun again", patches.chunks_forgotten, Size(units=2, crashes=1, expiries=0, epochs=2)
    ),
    "half is whole": Mutant(
        "a batch half written counts as written",
        patches.unfinished_is_finished,
        Size(units=2, crashes=1, expiries=0, epochs=2),
    ),
    "closed slot by slot": Mutant(
        "a changed flow's plan is looked at, then closed slot by slot",
        patches.closed_slot_by_slot,
        Size(units=1, slots=2, crashes=1, expiries=0, epochs=3, definitions=2),
    ),
    "closed slots stay": Mutant(
        "a closing that finds rows leaves the slots that it closed",
        patches.closed_slots_stay,
        Size(units=1, slots=2, crashes=1, expiries=0, epochs=3, definitions=2),
    ),
    "closed plan stays closed": Mutant(
        "a flow changed back leaves slots closed that its change has closed",
        patches.closed_plan_stays_closed,
        Size(units=1, slots=2, crashes=2, expiries=0, epochs=3, definitions=2),
    ),
    "opened by any claim": Mutant(
        "who opens a closed plan again does not ask whether the flow was claimed since",
        patches.closed_by_any_claim,
        Size(units=1, slots=1, crashes=0, expiries=3, epochs=4, definitions=2),
    ),
    "slots forgotten": Mutant(
        "a commit forgets what the slots hold that took no part in it",
        patches.slots_forgotten,
        Size(units=3, slots=2, crashes=0, expiries=0, epochs=1, resized=True),
    ),
    "plan stays": Mutant(
        "a commit leaves the plan in flight", patches.plan_stays, Size(units=2, crashes=0, expiries=0, epochs=2)
    ),
    "plan rewritten": Mutant("a retry plans anew", patches.plan_rewritten, SMALL),
    "plan rewritten, unmarked": Mutant(
        "a retry plans anew and markers are ignored", patches.plan_of_another_in_flight, SMALL
    ),
    "commit before dispatch": Mutant(
        "the checkpoint moves before rows are written",
        patches.commit_before_dispatch,
        faults=("kill executor", "kill both"),
    ),
    "marker apart": Mutant(
        "rows and marker in two transactions", patches.marker_apart, faults=("kill both", "kill executor")
    ),
    "marker not written": Mutant("no marker at all", patches.marker_not_written, faults=("kill at driver point",)),
    "no fencing by id": Mutant(
        "each process has a transactional.id of its own",
        patches.no_fencing_by_id,
        faults=("zombie executor", "zombie both"),
    ),
    "rows before marker": Mutant(
        "rows are visible before the marker",
        patches.not_transactional,
        faults=("kill executor", "kill at executor point"),
    ),
    "partition by row": Mutant("the partition is not the key's", patches.partition_by_row, faults=("kill driver",)),
    "row dropped": Mutant("the last row of a chunk is not produced", patches.row_dropped, faults=("kill driver",)),
    "null headers emptied": Mutant(
        "a mirror makes empty headers of null ones",
        patches.null_headers_emptied,
        faults=("kill driver",),
        loop=MIRROR_LOOP,
    ),
    "aborted records mirrored": Mutant(
        "a mirror reads what was not committed", patches.aborted_mirrored, faults=("kill driver",), loop=MIRROR_LOOP
    ),
    "marker ignored by a mirror": Mutant(
        "a mirror writes whatever its marker says", patches.marker_ignored, faults=("kill both",), loop=MIRROR_LOOP
    ),
    "superseded rows sent": Mutant(
        "a chunk keeps rows that the batch's own range has",
        patches.superseded_sent,
        faults=("kill driver",),
        loop=SNAPSHOT_LOOP,
    ),
    "range ends before the view": Mutant(
        "a chunk goes with a range that ends before it was read",
        patches.range_ends_early,
        faults=("kill driver",),
        loop=SNAPSHOT_LOOP,
    ),
    "cursor stays": Mutant(
        "a commit leaves the snapshot where it stood", patches.cursor_stays, faults=("kill driver",), loop=SNAPSHOT_LOOP
    ),
    "receipts not checked": Mutant(
        "receipts are not compared with what was given",
        patches.receipts_not_checked,
        test="tests/unit/runtime/test_batch_order.py::test_a_row_that_no_receipt_accounts_for_stops_the_batch",
    ),
    "quarantine after commit": Mutant(
        "held rows are stored after the commit",
        patches.quarantine_after_commit,
        test="tests/unit/runtime/test_batch_order.py::"
        "test_rows_held_back_are_stored_before_the_commit_that_counts_them",
    ),
}
