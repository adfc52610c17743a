"""Offset maps of mirrors, against a model: two logs, two mirrors, and a reader that changes sides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from databus.core.offsets import KafkaOffsets
from databus.ops.mirror_offsets import OffsetMap, Translation

T = ("t", 0)


def outputs(*runs: tuple[int, int, int]) -> dict[str, dict[str, object]]:
    return {"west.t[0]": {"source": "t[0]", "runs": [list(run) for run in runs]}}


def test_positions_are_translated_exactly_and_holes_go_to_the_next_record() -> None:
    known = OffsetMap()
    known.add(outputs((0, 100, 3), (5, 103, 2)))
    known.add(outputs((7, 110, 4)))
    there = Translation(known, None)
    expected = {0: 100, 2: 102, 3: 103, 4: 103, 5: 103, 6: 104, 7: 110, 10: 113, 11: 114, 99: 114}
    assert {p: there(T, p) for p in expected} == {p: (("west.t", 0), o) for p, o in expected.items()}
    assert there(("t", 1), 0) is None
    back = Translation(None, known)
    assert [back(("west.t", 0), p) for p in (0, 102, 105, 109, 113)] == [(T, 0), (T, 2), (T, 7), (T, 7), (T, 10)]


def test_behind_the_last_record_the_mirror_itself_goes_on() -> None:
    known = OffsetMap()
    known.add(outputs((0, 0, 3)))
    known.commit(KafkaOffsets({"t": {0: 9}}))
    assert Translation(None, known)(("west.t", 0), 3) == (T, 9)


def test_a_topic_made_anew_forgets_and_a_rewind_counts_the_newest() -> None:
    known = OffsetMap()
    known.add(outputs((0, 0, 5)))
    known.commit(KafkaOffsets({"t": {0: 5}}))
    known.add(outputs((0, 5, 5)))  # rewound: mirrored once more
    assert known.to_target(T, 2) is not None
    assert Translation(known, None)(T, 2) == (("west.t", 0), 7)
    known.commit(KafkaOffsets({"t": {0: 0}}, generations={"t": {0: 1}}))
    assert known.to_target(T, 2) is None


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
                maps[to].add({"t[0]": {"source": "t[0]", "runs": [[place, len(logs[to]), 1]]}})
                logs[to].append(record)
        done[to] = len(logs[origin])
        maps[to].commit(KafkaOffsets({"t": {0: done[to]}}))
    here, other = ("e", "w") if to_west else ("w", "e")
    seen = set(logs[here][:at])
    found = Translation(maps[other], maps[here])(T, min(at, len(logs[here])))
    if found is not None:
        assert set(logs[other][: found[1]]) <= seen
