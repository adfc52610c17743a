"""Regrouping: whatever the order of partitions, transactions come whole, in order, and the checkpoint loses nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databus.consumer.change import Change, Place, Transaction
from databus.consumer.messages import TransactionMark, read
from databus.consumer.regrouping import Numbers, Regrouper
from databus.consumer.spill import SpillRoom, StoredMessage
from databus.core.errors import SpillFullError
from tests.unit.consumer.records import change_record, record

BOUNDARIES = ("transactions", 0)
Log = dict[Place, list[StoredMessage]]


def room(memory: int = 10_000, disk: int = 1 << 20, folder: Path | None = None) -> SpillRoom:
    return SpillRoom(memory, disk, folder, read)  # type: ignore[arg-type]


def boundary(status: str, name: str, count: int, offset: int, quarantined: int = 0) -> StoredMessage:
    value = {"status": status, "id": name, "event_count": count if status == "END" else None, "ts_ms": 5}
    if quarantined:
        value["quarantined"] = quarantined
    return record(value, topic=BOUNDARIES[0], offset=offset)


def written(sizes: list[int], partitions: int, chance: random.Random, alone: int = 0) -> Log:
    """Return what a flow writes: BEGIN, rows spread over partitions, END; rows of a snapshot in between."""
    log: Log = {BOUNDARIES: [], **{("data", p): [] for p in range(partitions)}}
    for number, size in enumerate(sizes):
        name = f"t{number}"
        log[BOUNDARIES].append(boundary("BEGIN", name, size, len(log[BOUNDARIES]) * 2))
        for order in range(1, size + 1):
            at = chance.randrange(partitions)
            offset = len(log["data", at]) * 3  # offsets have holes
            log["data", at].append(change_record(order, name, partition=at, offset=offset))
            if alone and chance.random() < 0.3:
                offset = len(log["data", at]) * 3
                log["data", at].append(change_record(0, "", partition=at, offset=offset))
        log[BOUNDARIES].append(boundary("END", name, size, len(log[BOUNDARIES]) * 2))
    return log


def interleaved(log: Log, chance: random.Random, begin: dict[Place, int] | None = None) -> Iterator[StoredMessage]:
    """Yield the records of all partitions, each partition's in order."""
    left = {place: [m for m in of if m.offset() >= (begin or {}).get(place, 0)] for place, of in log.items()}
    while places := [place for place, of in left.items() if of]:
        place = chance.choice(places)
        for _ in range(chance.randint(1, 4)):
            if left[place]:
                yield left[place].pop(0)


class Reader:
    """Takes records, and remembers how far each partition was read."""

    def __init__(self, regrouper: Regrouper):
        self.regrouper, self.read = regrouper, dict[Place, int]()

    def take(self, message: StoredMessage, now: float = 0.0) -> None:
        place = (message.topic(), message.partition())
        item = read(message)
        assert isinstance(item, Change | TransactionMark)
        self.read[place] = message.offset() + 1
        self.regrouper.take(item, place, message.offset(), now)

    def checkpoint(self) -> dict[Place, int]:
        return {place: self.regrouper.committable(place, read) for place, read in self.read.items()}


def ids(transactions: list[Transaction]) -> list[str]:
    return [t.id for t in transactions if t.id]


@given(
    sizes=st.lists(st.integers(1, 7), max_size=12),
    partitions=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    memory=st.sampled_from([0, 3, 1000]),
    alone=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_whole_in_order_and_once_through_kills(
    sizes: list[int], partitions: int, seed: int, memory: int, alone: bool
) -> None:
    """A reader that is killed at any place goes on from its checkpoint: nothing is missing, nothing comes twice."""
    chance = random.Random(seed)
    log = written(sizes, partitions, chance, alone)
    came: list[Transaction] = []
    begin: dict[Place, int] = {}
    for _ in range(50):
        kill_at = chance.randrange(1, 40)
        reader = Reader(Regrouper(60, room(memory)))
        reader.read = dict(begin)
        for number, message in enumerate(interleaved(log, chance, begin)):
            if number == kill_at:
                break
            reader.take(message)
            for transaction in reader.regrouper.ready(0, 0):
                came.append(transaction)
                begin = reader.checkpoint()
        else:
            break
    names = [f"t{number}" for number in range(len(sizes))]
    while ids(came) != names:
        reader = Reader(Regrouper(60, room(memory)))
        reader.read = dict(begin)
        for message in interleaved(log, chance, begin):
            reader.take(message)
        more = list(reader.regrouper.ready(0, 0))
        assert more
        came += more
        begin = reader.checkpoint()
    assert all(t.complete and not t.why for t in came)
    for transaction, size in zip([t for t in came if t.id], sizes, strict=True):
        assert [change.order for change in transaction] == list(range(1, size + 1))
        assert (len(transaction), transaction.expected) == (size, size)
    alone_offsets = [(c.partition, c.offset) for t in came if not t.id for c in t]
    assert len(alone_offsets) == len(set(alone_offsets))
    in_order(came)


def in_order(came: list[Transaction]) -> None:
    """Require that each partition's rows of one transaction come behind those of the transactions before."""
    last: dict[int, int] = {}
    for transaction in came:
        offsets: dict[int, list[int]] = {}
        for change in transaction:
            offsets.setdefault(change.partition, []).append(change.offset)
        for partition, found in offsets.items():
            if not transaction.id:
                continue
            assert found[0] > last.get(partition, -1)
            last[partition] = found[-1]


def test_a_snapshots_row_does_not_pass_older_changes_of_its_partition() -> None:
    reader = Reader(Regrouper(60, room()))
    reader.take(change_record(1, "t0", partition=0, offset=0))
    reader.take(change_record(0, "", partition=0, offset=1))
    reader.take(change_record(0, "", partition=1, offset=0))
    assert [(t.id, t.changes[0].partition) for t in reader.regrouper.ready(0, 0)] == [("", 1)]
    reader.take(boundary("END", "t0", 1, 0))
    assert [t.id for t in reader.regrouper.ready(0, 0)] == ["t0", ""]


def test_what_is_missing_is_said_once_patience_is_over_and_all_partitions_were_read() -> None:
    reader = Reader(Regrouper(60, room()))
    reader.take(boundary("BEGIN", "t0", 0, 0), now=10)
    reader.take(change_record(1, "t0", partition=0, offset=0), now=11)
    reader.take(boundary("END", "t0", 2, 2), now=12)
    reader.take(change_record(1, "t1", partition=0, offset=1), now=13)
    reader.take(boundary("END", "t1", 1, 4), now=13)
    assert list(reader.regrouper.ready(69, 69)) == []
    assert list(reader.regrouper.ready(1000, 9)) == [], "a partition was not read to its end since"
    first, second = reader.regrouper.ready(70, 10)
    assert (first.id, first.complete, first.why, len(first)) == ("t0", False, "1 of 2 rows came in 60 s", 1)
    assert (second.id, second.complete) == ("t1", True)
    reader.take(change_record(2, "t0", partition=1, offset=0), now=80)
    assert list(reader.regrouper.ready(100, 100)) == []
    (late,) = reader.regrouper.ready(140, 140)
    assert (late.id, late.complete, late.why, [c.order for c in late]) == ("t0", False, "END did not come in 60 s", [2])
    assert reader.regrouper.waiting == 0
    assert reader.checkpoint() == {BOUNDARIES: 5, ("data", 0): 2, ("data", 1): 1}


def test_held_rows_make_it_incomplete() -> None:
    reader = Reader(Regrouper(60, room()))
    reader.take(boundary("BEGIN", "t0", 0, 0))
    reader.take(boundary("END", "t0", 0, 1, quarantined=3))
    (found,) = reader.regrouper.ready(0, 0)
    assert (found.complete, found.why, found.quarantined) == (False, "checks of the flow hold 3 of its rows back", 3)


def test_repeated_rows_and_boundaries_count_once() -> None:
    reader = Reader(Regrouper(60, room()))
    for offset, order in enumerate((1, 1, 2, 1)):
        reader.take(change_record(order, "t0", offset=offset))
    for offset in (0, 2):
        reader.take(boundary("BEGIN", "t0", 0, offset))
        reader.take(boundary("END", "t0", 2, offset + 1))
    (found,) = reader.regrouper.ready(0, 0)
    assert ([c.order for c in found], found.complete) == ([1, 2], True)


def test_a_backfill_beside_the_live_flow_does_not_block_it() -> None:
    """Slots commit one by one: their partitions may have two flows' transactions in another order than END has."""
    reader = Reader(Regrouper(60, room()))
    for offset, name in enumerate(("old", "new")):
        reader.take(boundary("END", name, 1, offset))
    for offset, name in enumerate(("new", "old")):
        reader.take(change_record(1, name, offset=offset))
    assert sorted(t.id for t in reader.regrouper.ready(0, 0)) == ["new", "old"]


def test_large_transactions_go_to_disk_within_bounds(tmp_path: Path) -> None:
    shared = room(memory=100, disk=10 << 20, folder=tmp_path)
    reader = Reader(Regrouper(60, shared))
    count = 5_000
    for order in range(count, 0, -1):
        reader.take(change_record(order, "t0", offset=count - order))
        assert shared.in_memory <= 100
    assert shared.on_disk > 0
    reader.take(boundary("END", "t0", count, 0))
    (found,) = reader.regrouper.ready(0, 0)
    assert [change.order for change in found] == list(range(1, count + 1))
    assert (found.changes[-1].order, [c.order for c in found.changes[:2]]) == (count, [1, 2])
    assert (shared.in_memory, shared.on_disk) == (0, 0)
    assert [change.event_id for change in found][:1] == [f"t0:1:0:{count - 1}"]

    little = Reader(Regrouper(60, room(memory=10, disk=1000)))
    for order in range(10):
        little.take(change_record(order, "t0", offset=order))
    with pytest.raises(SpillFullError, match="bytes of disk, of 1,000 that they may"):
        little.take(change_record(10, "t0", offset=10))


@given(st.lists(st.integers(0, 10**13)))
def test_numbers_are_a_set(numbers: list[int]) -> None:
    found, known = Numbers(), set[int]()
    for number in numbers:
        assert found.add(number) == (number not in known)
        known.add(number)
    assert found.count == len(known)
