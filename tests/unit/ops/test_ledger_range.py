"""What bears on a range is found by search: the same coverage as of the whole history, of a few pages of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import Flow, Mock, Noop
from databus.connections.environment import EnvironmentConnections
from databus.core.batches.counts import TableCounts
from databus.core.positions.offset_ranges import without
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, OffsetRange, Ordering, SequenceOffset
from databus.core.settings import Settings
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.core.state.ledger import LedgerSpan, SpanState
from databus.core.times import SystemClock
from databus.ops.ledger.range import spans_over
from databus.ops.ledger.show import read_ledger
from databus.records import tables as t
from databus.records.ledger import page_rows
from databus.records.ledger.merged_pages import MergedPages
from databus.records.recorder import SqlRecorder
from databus.runtime.context import Services

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
FLOW = Flow(name="orders", source=Mock(tables=("shop.orders",), rows=1), sinks=(Noop(),))
COUNTS = {"shop.orders": TableCounts(1, 1)}
_Places = Callable[[Sequence[int]], Offset]


@dataclass
class Kept:
    """A checkpoint store that has the newest entries of a history."""

    entries: list[HistoryEntry]

    def history(self, _flow: str, last: int) -> Sequence[HistoryEntry]:
        return tuple(reversed(self.entries[-last:])) if last else ()

    def gaps(self, _flow: str) -> Sequence[Any]:
        return ()

    def load(self, _flow: str) -> Offset:
        return self.entries[-1].offset

    pending_plan = gaps

    def of_sink(self, _sink: str) -> Kept:
        return Kept([])  # none was ever behind


class Chain:
    """A history that commits, skips, and is set back."""

    def __init__(self, place: _Places, partitions: int, seed: int, setbacks: float = 0.0) -> None:
        self.place, self.chosen = place, random.Random(seed)
        self.at = [0] * partitions
        self.setbacks = setbacks
        self.entries = [self._entry("start", None, place(self.at))]

    def grow(self, entries: int) -> Chain:
        for _ in range(entries):
            before, luck = self.place(self.at), self.chosen.random()
            if luck < self.setbacks:
                to = self.chosen.choice(self.entries[-10:]).offset
                order = to.compare(before)
                if order not in (Ordering.BEFORE, Ordering.EQUAL):
                    continue
                self.at = self.positions(to)
                self.entries.append(self._entry("rewind", before, to))
                continue
            # Of many logs, some stand still and some run ahead.
            self.at = [p + self.chosen.choice((0, 1, 1, 3)) for p in self.at]
            action = "skip" if luck > 1 - self.setbacks / 2 else "commit"
            self.entries.append(self._entry(action, before, self.place(self.at)))
        return self

    def positions(self, offset: Offset) -> list[int]:
        if isinstance(offset, KafkaOffsets):
            return list(offset.positions["t"].values())
        return [offset.sequence if isinstance(offset, SequenceOffset) else offset.pos - 4]  # type: ignore[attr-defined]

    def _entry(self, action: str, previous: Offset | None, offset: Offset) -> HistoryEntry:
        number = len(self.entries) + 1 if hasattr(self, "entries") else 1
        counts = COUNTS if action == "commit" else {}
        return HistoryEntry(
            number, action, "run", "", previous, offset, number, Epoch(1), counts, (), NOON, f"hash-{number}", None, 10
        )


def sequence(at: Sequence[int]) -> Offset:
    return SequenceOffset(at[0])


def binlog(at: Sequence[int]) -> Offset:
    return BinlogOffset("bin.000001", 4 + at[0])


def partitions(at: Sequence[int]) -> Offset:
    return KafkaOffsets({"t": dict(enumerate(at))})


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[SqlRecorder]:
    with SqlRecorder.open(f"sqlite:///{tmp_path / 'records.db'}") as recorder:
        yield recorder


@pytest.fixture
def opened(recorder: SqlRecorder, tmp_path: Path) -> Callable[..., Services]:
    """Page a history but for its newest entries, and keep as many in the checkpoint store as the flow would."""

    def services(entries: list[HistoryEntry], unpaged: int = 7, kept: int = 20) -> Services:
        recorder.page(FLOW.name, entries[: len(entries) - unpaged])
        settings = Settings("test", str(tmp_path), f"sqlite:///{tmp_path / 'records.db'}")
        store: Any = Kept(entries[-kept:])
        return Services(settings, EnvironmentConnections({}), store, None, recorder, SystemClock())

    return services


def missing(wanted: OffsetRange, spans: Sequence[LedgerSpan]) -> tuple[OffsetRange, ...]:
    moved = [OffsetRange(s.start, s.end) for s in spans if s.state is SpanState.FILTERED]
    return without(wanted, moved)


def ranges(chain: Chain, count: int) -> Iterator[OffsetRange]:
    """Yield ranges between any two places, also such that lie between those where batches ended."""
    top = chain.positions(chain.entries[-1].offset)
    for _ in range(count):
        ends = [sorted((chain.chosen.randint(0, most), chain.chosen.randint(0, most))) for most in top]
        yield OffsetRange(*(chain.place([end[side] for end in ends]) for side in (0, 1)))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("place", "logs"), [(sequence, 1), (binlog, 1), (partitions, 3)])
def test_what_is_missing_is_the_same_as_by_the_whole_history(
    opened: Callable[..., Services], place: _Places, logs: int, seed: int
) -> None:
    chain = Chain(place, logs, seed, setbacks=0.06).grow(250)
    services = opened(chain.entries)
    whole = read_ledger(FLOW, services).ledger.spans
    wanted = list(ranges(chain, 20))
    assert [missing(one, spans_over(FLOW, services, one)) for one in wanted] == [missing(o, whole) for o in wanted]
    assert any(missing(one, whole) for one in wanted)


@pytest.mark.parametrize(("place", "logs"), [(sequence, 1), (partitions, 4)])
def test_the_pages_that_are_read_do_not_grow_with_the_history(
    recorder: SqlRecorder, opened: Callable[..., Services], monkeypatch: pytest.MonkeyPatch, place: _Places, logs: int
) -> None:
    read, really = 0, page_rows._read

    def counted(*row: Any) -> Any:
        nonlocal read
        read += 1
        return really(*row)

    monkeypatch.setattr(page_rows, "_read", counted)
    chain, counts = Chain(place, logs, seed=1), {}
    for length in (250, 2_000):
        chain.grow(length - len(chain.entries))
        services = opened(chain.entries)
        ends = (chain.entries[100].offset, chain.entries[110].offset)
        read = 0
        assert missing(OffsetRange(*ends), spans_over(FLOW, services, OffsetRange(*ends))) == ()
        counts[length] = read
    # Bisection of eight times as many pages takes three steps more, at each end of the range.
    assert counts[2_000] <= counts[250] + 6
    assert counts[2_000] < 60


def test_what_cannot_be_searched_is_read_whole(recorder: SqlRecorder, opened: Callable[..., Services]) -> None:
    chain = Chain(sequence, 1, seed=2).grow(60)
    services = opened(chain.entries)
    wanted = OffsetRange(chain.entries[10].offset, chain.entries[20].offset)
    # The flow was made anew and has no page yet: pages are of its earlier life.
    anew = [replace(entry, who="anew") for entry in chain.entries[:10]]
    services.store.entries = anew  # type: ignore[attr-defined]
    assert missing(wanted, spans_over(FLOW, services, wanted)) == (wanted,)
    # A page that cannot be read is a hole: what it told is missing.
    services.store.entries = chain.entries[-20:]  # type: ignore[attr-defined]
    with recorder.store.transaction() as connection:
        connection.execute(t.ledger.update().where(t.ledger.c.number == 15).values(entry={"v": 9}))
    hole = OffsetRange(chain.entries[13].offset, chain.entries[14].offset)
    assert missing(wanted, spans_over(FLOW, services, wanted)) == (hole,)


def test_merged_pages_show_the_same_coverage(recorder: SqlRecorder, opened: Callable[..., Services]) -> None:
    chain = Chain(partitions, 3, seed=5, setbacks=0.04).grow(150)
    services = opened(chain.entries)
    whole, wanted = read_ledger(FLOW, services).ledger.spans, list(ranges(chain, 20))
    assert MergedPages(recorder.store, newest_kept=10).merge(datetime.now(UTC) + timedelta(days=1)).gone > 50
    assert [missing(one, spans_over(FLOW, services, one)) for one in wanted] == [missing(o, whole) for o in wanted]
