"""The kept offset map of a mirror answers as its whole history does, whatever was paged, pruned or made anew."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from databus.core.positions.offset_map import UNKNOWN, MappedRange
from databus.core.positions.offsets import KafkaOffsets
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.ops.mirror.offset_map import KeptMap, OffsetMap
from databus.records.ledger.pages import LedgerPages
from databus.records.retention import RecordRetention
from databus.records.store import RecordStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
T, W = ("t", 0), ("w", 0)


class History:
    """What a checkpoint store tells of a flow's history."""

    def __init__(self, entries: Sequence[HistoryEntry]):
        self.entries = entries

    def load(self, flow: str) -> int:
        return len(self.entries)

    def history(self, flow: str, limit: int) -> list[HistoryEntry]:
        return list(reversed(self.entries))[:limit]


class Clock:
    """A day per page."""

    def __init__(self) -> None:
        self.days = 0

    def now(self) -> datetime:
        self.days += 1
        return NOON + timedelta(days=self.days)


def history(steps: Sequence[tuple[str, int]]) -> list[HistoryEntry]:
    """Return entries of: m(ove) so many records, h(ole) of so many offsets, l(ost offsets), r(ewind), n(ew topic)."""
    source, target, life, entries = 0, 0, 0, list[HistoryEntry]()
    for number, (step, size) in enumerate((("s", 0), *steps), 1):
        facts: dict[str, Any] = {}
        before = KafkaOffsets({"t": {0: source}}, generations={"t": {0: life}})
        if step == "m":
            facts = {"runs": [[source, target, size], [source + size + 1, target + size, size]]}
            source, target = source + 2 * size + 1, target + 2 * size + 1
        elif step == "l":
            facts = {"runs": [], "unsure": [[source, source + size, UNKNOWN, UNKNOWN]]}
            source, target = source + size, target + size + 2
        elif step == "h":
            source += size
        elif step == "r":
            source = max(0, source - 3 * size)
        elif step == "n":
            source, life = 0, life + 1
        outputs = {"w[0]": {"source": "t[0]", "records": 1, **facts}} if facts else {}
        entries.append(
            HistoryEntry(
                number, {"s": "start", "r": "rewind"}.get(step, "commit"), "run", "", before,
                KafkaOffsets({"t": {0: source}}, generations={"t": {0: life}} if life else {}), number, Epoch(1), {},
                ({"sink": "mirror", "slot": 0, "outputs": outputs},), NOON + timedelta(seconds=number),
            )
        )  # fmt: skip
    return entries


def services(url: str, entries: Sequence[HistoryEntry]) -> Any:
    return SimpleNamespace(store=History(entries), settings=SimpleNamespace(records_url=url))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('maps') / 'records.db'}"


_flows = iter(range(1_000_000))


# Without shrinking: each example is some hundred queries.
@settings(max_examples=settings.default.max_examples // 4, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    steps=st.lists(st.tuples(st.sampled_from("mmmmhlrn"), st.integers(1, 4)), min_size=1, max_size=14),
    paged=st.integers(0, 15), pruned=st.integers(0, 15),
)  # fmt: skip
@example(steps=[("m", 1), ("n", 1), ("m", 3), ("m", 3), ("l", 1)], paged=15, pruned=7)
def test_rows_pages_and_newest_entries_together_answer_as_the_history_does(
    url: str, steps: list[tuple[str, int]], paged: int, pruned: int
) -> None:
    entries, flow = history(steps), f"mirror_{next(_flows)}"
    with RecordStore(url) as store:
        pages = LedgerPages(store, Clock())
        for entry in entries[:paged]:
            pages.page(flow, [entry])
        RecordRetention(store).prune(NOON + timedelta(days=pruned))
    whole = OffsetMap(entries)
    with closing(KeptMap(flow, services(url, entries))) as kept:
        for position in range(0, 30, 2):
            assert kept.to_target(T, position) == whole.to_target(T, position)
            assert kept.to_source(W, position) == whole.to_source(W, position)
        assert kept.goes_on_at(T) == whole.goes_on_at(T)
        assert kept.stretches(T, (0, 10_000)) == kept.stretches(W, (0, 10_000), back=True) == list(whole.living())


def test_a_reader_that_has_caught_up_is_translated_without_the_pages_however_much_was_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, entries = f"sqlite:///{tmp_path / 'records.db'}", history([("l", 2), *[("m", 4)] * 8])
    with RecordStore(url) as store:
        pages = LedgerPages(store, Clock())
        for entry in entries:
            pages.page("mirror", [entry])
        RecordRetention(store).prune(NOON + timedelta(days=6))
    whole = OffsetMap(entries)
    end, target_end = whole.goes_on_at(T), max(s.target_range[1] for s in whole.living() if s.target_range)
    expected = whole.to_target(T, end), whole.to_source(W, target_end), whole.to_target(T, end - 3)
    monkeypatch.setattr(LedgerPages, "pages", lambda *_: pytest.fail("the whole ledger was read"))
    with closing(KeptMap("mirror", services(url, entries))) as kept:
        assert kept._table.pruned(1)
        assert (kept.to_target(T, end), kept.to_source(W, target_end), kept.to_target(T, end - 3)) == expected


def living(url: str, entries: Sequence[HistoryEntry]) -> list[MappedRange]:
    with closing(KeptMap("mirror", services(url, entries))) as kept:
        return kept.stretches(T, (0, 100))


def test_a_flow_made_anew_does_not_answer_with_its_former_life(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    former, later = history([("m", 4), ("m", 4)]), history([("h", 2), ("m", 1)])
    later[0] = HistoryEntry(**{**vars(later[0]), "who": "another"})
    with RecordStore(url) as store:
        LedgerPages(store).page("mirror", former)
    assert list(OffsetMap(later).living()) == living(url, later)
    with RecordStore(url) as store:
        LedgerPages(store).page("mirror", later)
    assert list(OffsetMap(later).living()) == living(url, later)
