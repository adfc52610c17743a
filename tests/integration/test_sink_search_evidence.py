"""What real search clusters show for the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from databus.core.batches.receipts import WriteReceipt
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.evidence import CommittedState
from tests.integration import search_target as given
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target
NOON = datetime(2026, 1, 1, tzinfo=UTC)


def problems(to: Any, pos: int, *receipts: WriteReceipt) -> tuple[str, ...]:
    end = BinlogOffset("bin.000001", pos)
    checkpoint = Checkpoint(end, len(receipts), Epoch(1), "run", "", {}, None, NOON)
    told = [(number, receipt.to_json()) for number, receipt in enumerate(receipts, start=1)]
    return to.sink.evidence(CommittedState(to.flow, checkpoint, None, {}, told)).problems


def test_an_index_that_holds_what_is_committed_is_sound(target):
    to = target()
    to.prepare()
    first = to.write(change("c", 1, {"n": 1}), change("c", 2, {"n": 1}, ordinal=1))
    second = to.write(change("u", 1, {"n": 2}, 200), change("d", 2, None, 300))
    assert problems(to, 300, first, second) == ()


def test_documents_beyond_the_checkpoint_are_named(target):
    to = target()
    to.prepare()
    first = to.write(change("c", 1, {"n": 1}), change("c", 2, {"n": 1}, ordinal=1))
    to.write(change("u", 2, {"n": 2}, 250))
    (problem,) = problems(to, 249, first)
    assert problem.startswith(f"index {to.index()} is ahead: a document has version ")
    assert problems(to, 250, first) == ()


def test_an_index_that_was_emptied_or_is_gone_is_named(target):
    to = target()
    to.prepare()
    first = to.write(change("c", 1, {"n": 1}))
    to.client.indices.delete(index=to.index())
    (problem,) = problems(to, 100, first)
    assert problem.startswith(f"index {to.index()} is gone")
    to.prepare()
    (problem,) = problems(to, 100, first)
    assert problem == f"index {to.index()} is empty, 1 documents more were created than deleted"


def test_an_index_whose_table_was_emptied_may_be_empty_whatever_a_repeated_attempt_counts(target):
    to = target()
    to.prepare()
    first = to.write(change("c", 1, {"n": 1}), change("c", 2, {"n": 1}, ordinal=1))
    statement = {**change("t", {}, None, 200, statement="TRUNCATE Orders"), "key": None}
    to.write(statement)  # an attempt whose receipt is lost
    second = to.write(statement)
    assert second.outputs == {to.index(): {"emptied": 1}, "": {"statements": 1}}
    assert problems(to, 200, first, second) == ()
    third = to.write(change("c", 3, {"n": 1}, 300))
    assert problems(to, 300, first, second, third) == ()
    to.client.indices.delete(index=to.index())
    to.prepare()
    (problem,) = problems(to, 300, first, second, third)
    assert problem == f"index {to.index()} is empty, 1 documents more were created than deleted"
