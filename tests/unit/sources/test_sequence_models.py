"""Rules by which a `SequenceTable` decides what can be read, against writers that commit late; weaker rules fail."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from databus.core.positions.offsets import Ordering, offset_from_json
from databus.core.positions.pg_snapshot import NOTHING, PgSnapshot, PgSnapshotOffset
from databus.sources.sequence_table.decided import DecidedNumbers
from databus.sources.sequence_table.windows import SnapshotWindow, windows

SEEDS = range(60)


@dataclass
class Server:
    """Numbers, transaction ids, locks of rows and of the table, and committed rows (number, transaction, key)."""

    number: int = 0
    transaction: int = 2
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    locks: set[str] = field(default_factory=set)
    keys: dict[int, str] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    inserted: set[str] = field(default_factory=set)

    def newest(self) -> int:
        return max((number for number, _, _ in self.rows), default=0)

    def snapshot(self) -> PgSnapshot:
        xmax = self.transaction + 1
        return PgSnapshot(min(self.open, default=xmax), xmax, frozenset(self.open))


def writer(server: Server, name: str, choose: random.Random) -> Iterator[None]:
    """Insert rows in one transaction; each `yield` lets others in."""
    server.locks.add(name)
    yield
    server.transaction += 1
    mine = server.transaction
    server.open.add(mine)
    rows, held = [], []
    for key in sorted(choose.sample(range(4), choose.randint(1, 3))):
        while server.keys.get(key, name) != name:
            yield
        server.keys[key] = name
        held.append(key)
        yield
        server.number += 1
        number = server.number
        yield
        rows.append((number, mine, key))
        server.inserted.add(name)
        yield
    for _ in range(choose.choice((0, 0, 3, 40))):
        yield
    if choose.random() < 0.8:
        server.rows += rows
    server.open.discard(mine)
    for key in held:
        del server.keys[key]
    server.locks.discard(name)
    server.inserted.discard(name)


def play(seed: int, reader: Callable[[Server], Iterator[None]]) -> Server:
    """Interleave thirty transactions, five at a time, with a reader that goes on until all is still."""
    choose, server, names = random.Random(seed), Server(), iter(range(30))
    running: list[Iterator[None]] = [writer(server, f"w{next(names)}", choose) for _ in range(5)]
    reading = reader(server)
    while running:
        if choose.random() < 0.3:
            next(reading)
            continue
        one = choose.choice(running)
        try:
            next(one)
        except StopIteration:
            running.remove(one)
            if (name := next(names, None)) is not None:
                running.append(writer(server, f"w{name}", choose))
    for _ in range(30):
        next(reading)
    return server


def by_number(got: list[int], rule: str) -> Callable[[Server], Iterator[None]]:
    """Read by decided numbers, in steps as a real reader takes them."""

    def reader(server: Server) -> Iterator[None]:
        decided, place = DecidedNumbers(), 0
        while True:
            holders = server.inserted if rule == "locks of rows" else server.locks
            writers, newest = set(holders), server.newest()
            for _ in range(5):
                yield
            if rule == "writers first":
                newest = server.newest()
            else:
                writers = set(holders)
            upto = newest if rule == "highest number" else decided.look(newest, writers)
            if upto is not None and upto > place:
                yield
                got.extend(sorted(number for number, _, _ in server.rows if place < number <= upto))
                place = upto
            yield

    return reader


def numbers_missed(rule: str) -> int:
    missed = 0
    for seed in SEEDS:
        got: list[int] = []
        server = play(seed, by_number(got, rule))
        assert len(got) == len(set(got))
        assert got == sorted(got)
        missed += len({number for number, _, _ in server.rows} - set(got))
    return missed


def test_no_number_is_missed_however_late_it_is_committed() -> None:
    assert numbers_missed("decided") == 0


@pytest.mark.parametrize("rule", ["highest number", "writers first", "locks of rows"])
def test_a_weaker_rule_misses_numbers(rule: str) -> None:
    assert numbers_missed(rule) > 0


def by_snapshot(got: list[tuple[int, int, int]], rule: str, most: int) -> Callable[[Server], Iterator[None]]:
    """Read windows between snapshots, in batches of few rows, as plans cut them."""

    def reader(server: Server) -> Iterator[None]:
        place = PgSnapshotOffset(str(NOTHING))
        while True:
            now = server.snapshot()
            if rule == "below xmin":
                now = PgSnapshot(now.xmin, now.xmin)
            yield
            end = PgSnapshotOffset(place.within) if place.within else PgSnapshotOffset(str(now))
            for window in windows(place, end):
                rows = window.ordered((number, transaction) for number, transaction, _ in server.rows)
                if rule == "by transaction":
                    rows.sort(key=lambda row: (row[2], row[1]))
                batch = rows
                while batch and batch[-1][0] != batch[0][0] and len(batch) > most:
                    batch = [row for row in batch if row[0] != batch[-1][0]]
                got.extend(batch)
                place = end if batch == rows else window.offset(batch[-1][0])
                place = offset_from_json(place.to_json())  # type: ignore[assignment]
            yield

    return reader


def faults_of(rule: str) -> tuple[int, int]:
    """Return how many rows were missed, and how many changes of a key came after newer ones."""
    missed = disordered = 0
    for seed in SEEDS:
        got: list[tuple[int, int, int]] = []
        server = play(seed, by_snapshot(got, rule, most=4))
        keys = {number: key for number, _, key in server.rows}
        numbers = [number for _, number, _ in got]
        assert len(numbers) == len(set(numbers))
        missed += len(keys.keys() - set(numbers))
        for key in range(4):
            mine = [number for number in numbers if keys[number] == key]
            disordered += mine != sorted(mine)
        if rule == "windows":
            order = [transaction for _, _, transaction in got]
            runs = [one for number, one in enumerate(order) if not number or order[number - 1] != one]
            assert len(runs) == len(set(runs)), "a transaction is cut"
    return missed, disordered


def test_windows_miss_nothing_and_keep_the_order_of_each_key() -> None:
    assert faults_of("windows") == (0, 0)


@pytest.mark.parametrize("rule", ["below xmin", "by transaction"])
def test_a_simpler_order_puts_older_changes_behind_newer_ones(rule: str) -> None:
    _, disordered = faults_of(rule)
    assert disordered > 0


def test_looks_at_writers_that_never_rest_stay_few() -> None:
    decided = DecidedNumbers()
    for number in range(1, 500):
        assert decided.look(number, {"slow", f"w{number}"}) is None
    assert decided.waits_for == {"slow"}
    assert decided.look(500, {"w499"}) == 99
    assert decided.look(501, ()) == 501


def test_a_transaction_that_changes_hands_is_waited_for() -> None:
    """A prepared one loses its session, and another session ends it: its lock gets a new name each time."""
    decided = DecidedNumbers()
    assert decided.look(6, {"n1"}) is None
    assert decided.look(7, {"n2", "w"}, doubtful={"n2"}) is None
    assert decided.look(8, {"n3", "v"}, doubtful={"n3"}) is None
    assert decided.look(9, {"v"}) == 7
    assert decided.look(9, ()) == 9


class TestOffsets:
    def test_order(self) -> None:
        early, late = PgSnapshotOffset("10:12:10"), PgSnapshotOffset("13:15:13")
        inside = PgSnapshotOffset("10:12:10", "13:15:13", 7)
        further = PgSnapshotOffset("10:12:10", "13:15:13", 9)
        rising = [PgSnapshotOffset(str(NOTHING)), early, inside, further, late]
        for number, one in enumerate(rising):
            for other, two in enumerate(rising):
                wanted = Ordering.EQUAL if number == other else Ordering.BEFORE if number < other else Ordering.AFTER
                assert one.compare(two) is wanted, (one, two)

    def test_what_cannot_be_ordered(self) -> None:
        one = PgSnapshotOffset("10:12:10")
        assert one.compare(PgSnapshotOffset("10:12:11")) is Ordering.DIVERGED
        assert PgSnapshotOffset("1:1:", "10:12:10", 4).compare(PgSnapshotOffset("5:5:")) is Ordering.DIVERGED

    def test_the_same_transactions_in_other_words_are_equal(self) -> None:
        assert PgSnapshotOffset("12:12:").compare(PgSnapshotOffset("10:12:")) is Ordering.EQUAL

    @pytest.mark.parametrize("seed", range(20))
    def test_a_later_snapshot_reaches_the_earlier_one(self, seed: int) -> None:
        seen: list[PgSnapshot] = []

        def reader(server: Server) -> Iterator[None]:
            while True:
                seen.append(server.snapshot())
                yield

        play(seed, reader)
        for early, late in itertools.pairwise(seen):
            assert late.reaches(early)
            new = [n for n in range(early.xmin, late.xmax) if SnapshotWindow(early, late).has(n)]
            assert early.reaches(late) == (not new)
