"""Offset maps of mirrors, against a model: two logs, two mirrors, and a reader that changes sides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from databus.core.positions.offset_map import UNKNOWN, Image, MappedRange, known, merged
from databus.core.positions.offsets import KafkaOffsets
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.ops.mirror.offset_map import OffsetMap
from databus.ops.mirror.translate import Translation

T, W = ("t", 0), ("west.t", 0)


def entry(offset: KafkaOffsets, *runs: tuple[int, int, int], name: str = "west.t[0]", **more: Any) -> HistoryEntry:
    """A commit that moved `runs`, up to an offset."""
    outputs = {name: {"source": "t[0]", "runs": [list(run) for run in runs], **more}}
    receipts = ({"sink": "mirror", "outputs": outputs},) if runs or more else ()
    return HistoryEntry(
        1, "commit", "run", "", None, offset, 1, Epoch(1), {}, receipts, datetime(2026, 1, 1, tzinfo=UTC)
    )


def upto(position: int) -> KafkaOffsets:
    return KafkaOffsets({"t": {0: position}})


def test_positions_are_translated_exactly_and_holes_go_to_the_next_record() -> None:
    known = OffsetMap([entry(upto(7), (0, 100, 3), (5, 103, 2)), entry(upto(11), (7, 110, 4))])
    there = Translation(known, None)
    expected = {0: 100, 2: 102, 3: 103, 4: 103, 5: 103, 6: 104, 7: 110, 10: 113, 11: 114, 99: 114}
    assert {p: there(T, p) for p in expected} == {p: (W, o) for p, o in expected.items()}
    assert there(("t", 1), 0) is None
    back = Translation(None, known)
    assert [back(W, p) for p in (0, 102, 105, 109, 113)] == [(T, 0), (T, 2), (T, 7), (T, 7), (T, 10)]


def test_behind_the_last_record_the_mirror_itself_goes_on() -> None:
    known = OffsetMap([entry(upto(9), (0, 0, 3))])
    assert Translation(None, known)(W, 3) == (T, 9)


def test_a_topic_made_anew_forgets_and_a_rewind_counts_the_newest() -> None:
    known = OffsetMap([entry(upto(5), (0, 0, 5)), entry(upto(5), (0, 5, 5))])  # rewound: mirrored once more
    assert Translation(known, None)(T, 2) == (W, 7)
    known.add(entry(KafkaOffsets({"t": {0: 0}}, generations={"t": {0: 1}})))
    assert known.to_target(T, 2) is None


def test_of_what_no_broker_told_the_neighbours_give_bounds_and_nothing_is_missed() -> None:
    """A killed run wrote 5..9 to somewhere between: readers of either side go on before all of it."""
    lost = entry(upto(10), unsure=[[5, 10, UNKNOWN, UNKNOWN]])
    open_ended = OffsetMap([entry(upto(5), (0, 100, 5)), lost])
    assert [open_ended.to_target(T, p) for p in (4, 5, 7, 10)] == [
        Image(W, 104, exact=True),
        Image(W, 105, exact=False),
        Image(W, 105, exact=False),
        Image(W, 105, exact=False, end=True),
    ]
    assert [open_ended.to_source(W, p) for p in (105, 4000)] == [Image(T, 5, exact=False)] * 2
    open_ended.add(entry(upto(12), (10, 120, 2)))
    assert [open_ended.to_target(T, p) for p in (7, 10)] == [Image(W, 105, exact=False), Image(W, 120, exact=True)]
    assert [open_ended.to_source(W, p) for p in (119, 120)] == [Image(T, 5, exact=False), Image(T, 10, exact=True)]


def test_receipts_from_before_unsure_stretches_were_told_are_bounded_by_their_batch() -> None:
    old = replace(entry(upto(9), records=3, first_offset=20, last_offset=30), previous=upto(4))
    del old.receipts[0]["outputs"]["west.t[0]"]["runs"]
    known = OffsetMap([old])
    assert [known.to_target(T, p) for p in (4, 8)] == [Image(W, 20, exact=False)] * 2
    assert known.to_source(W, 25) == Image(T, 4, exact=False)


def test_runs_that_touch_are_told_as_one() -> None:
    found = OffsetMap([entry(upto(5), (0, 10, 5)), entry(upto(9), (5, 15, 2), (8, 17, 1))]).living()
    spans: list[MappedRange] = list(found)
    assert [(s.begin, s.upto, s.image) for s in merged(known(spans))] == [(0, 7, 10), (8, 9, 17)]


@given(steps=st.lists(st.sampled_from("ewWE"), max_size=30), at=st.integers(0, 40), to_west=st.booleans())
def test_a_reader_that_changes_sides_misses_nothing(steps: list[str], at: int, *, to_west: bool) -> None:
    """e, w: a record is written there; W, E: the mirror to that side moves what is new."""
    logs: dict[str, list[tuple[str, int]]] = {"e": [], "w": []}
    maps = {"w": OffsetMap(), "e": OffsetMap()}
    done = {"w": 0, "e": 0}
    for number, step in enumerate(steps):
        if step in logs:
            logs[step].append((step, number))
            continue
        to = step.lower()
        origin = "e" if to == "w" else "w"
        for place in range(done[to], len(logs[origin])):
            record = logs[origin][place]
            if record[0] == origin:
                maps[to].add(entry(upto(place + 1), (place, len(logs[to]), 1), name="t[0]"))
                logs[to].append(record)
        done[to] = len(logs[origin])
        maps[to].add(entry(upto(done[to])))
    here, other = ("e", "w") if to_west else ("w", "e")
    seen = set(logs[here][:at])
    found = Translation(maps[other], maps[here])(T, min(at, len(logs[here])))
    if found is not None:
        assert set(logs[other][: found[1]]) <= seen
