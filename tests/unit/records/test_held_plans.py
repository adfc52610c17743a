"""Plans of entries of the quarantine: none says the batch of one and the hash of another."""

from __future__ import annotations

from pathlib import Path

from databus.core.batches.receipts import CHECK, RejectedRow
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.recorder import SqlRecorder


def test_a_replay_of_a_former_batch_leaves_no_plan_of_another(tmp_path: Path) -> None:
    """A replay of batch 5 is killed, the flow set back, and batch 12 holds the row anew; then the replay is finished
    and the check holds the row again: batch 5 with the plan of batch 12 is no batch that was ever committed."""
    row = RejectedRow("e", "shop.orders", None, "a cause", CHECK, "p", "{}")
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        recorder.quarantine("shop", 5, [row], "plan of 5")
        recorder.quarantine("shop", 12, [row], "plan of 12")
        recorder.quarantine("shop", 5, [row])
        (held,) = HeldRows(recorder.store, "shop").select(Selection())
    assert (held.batch, held.plan_hash) == (5, "")


def test_what_another_sink_refused_of_the_same_event_keeps_its_plan(tmp_path: Path) -> None:
    """A replay to one sink decides nothing about the entry of the other, which is of a later batch."""
    to_a, to_b = (RejectedRow("e", "shop.orders", None, "too large", sink, "p", "{}") for sink in "ab")
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        recorder.quarantine("shop", 5, [to_a], "plan of 5")
        recorder.quarantine("shop", 12, [to_b], "plan of 12")
        recorder.quarantine("shop", 5, [to_a])
        held = HeldRows(recorder.store, "shop").select(Selection())
    assert [(row.batch, row.plan_hash) for row in held] == [(5, "plan of 5"), (12, "plan of 12")]
