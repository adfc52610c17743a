"""Lives of topics: the newest record of a key wins by life and offset, whatever happened to the topic."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.positions.offset_ranges import later, without
from databus.core.positions.offsets import KafkaOffsets, OffsetRange, offset_from_json
from databus.core.positions.topic_lives import MOST_BOUNDARIES, Lives, grown, life_at, newer
from databus.sources.kafka.positions import LogState, advanced, behind_gaps, gaps

PARTITIONS = 3


class Topic:
    """A topic that one producer writes to by key, and a flow that reads it as far as it likes."""

    def __init__(self) -> None:
        self.id, self.partitions, self.logs = 0, PARTITIONS, {p: list[tuple[str, int]]() for p in range(PARTITIONS)}
        self.written = 0
        self.at = KafkaOffsets({})
        self.documents: dict[str, tuple[tuple[int, int], int]] = {}

    def state(self) -> LogState:
        ends = {("t", p): len(log) for p, log in self.logs.items()}
        return LogState({"t": f"id{self.id}"}, dict.fromkeys(ends, 0), ends, {})

    def write(self, key: str) -> None:
        self.written += 1
        self.logs[crc32(key.encode()) % self.partitions].append((key, self.written))

    def read(self, shares: list[int]) -> None:
        """Read up to so many records of each partition, the last partitions first, and write documents."""
        state = self.state()
        if missing := gaps(self.at, state):
            self.at = behind_gaps(self.at, state, missing, "earliest")
        self.at = replace(self.at, passed=False)
        begun = self.at
        left = {(t, p): end - begun.positions.get(t, {}).get(p, 0) for (t, p), end in state.ends.items()}
        taken = {place: min(left[place], shares[place[1] % len(shares)]) for place in left}
        self.at = offset_from_json(advanced(begun, state, taken).to_json())  # type: ignore[assignment]
        for topic, partition in sorted(taken, reverse=True):
            first = begun.positions.get(topic, {}).get(partition, 0)
            for offset in range(first, first + taken[topic, partition]):
                key, number = self.logs[partition][offset]
                version = (life_at(self.at.lives_of(topic), partition, offset), offset)
                if key not in self.documents or version >= self.documents[key][0]:
                    self.documents[key] = version, number


SHARES = st.lists(st.integers(0, 6), min_size=2, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.lists(st.sampled_from([f"k{n}" for n in range(6)]), min_size=1, max_size=12)),
    st.tuples(st.just("read"), SHARES),
    st.tuples(st.just("double"), st.just(None)),
    st.tuples(st.just("anew"), st.just(None)),
)


@given(st.lists(STEPS, max_size=25))
def test_documents_show_the_newest_record_of_each_key(steps: list[tuple[str, list[str] | list[int] | None]]) -> None:
    topic = Topic()
    topic.read([0])
    newest: dict[str, int] = {}
    for step, given_ in steps:
        if step == "write":
            for key in given_ or ():
                topic.write(str(key))
                newest[str(key)] = topic.written
        elif step == "read":
            topic.read([int(n) for n in given_ or ()])
        elif step == "double" and topic.partitions < 24:
            topic.read([0])  # what is read of the new partitions begins with their first records
            topic.logs |= {p: [] for p in range(topic.partitions, topic.partitions * 2)}
            topic.partitions *= 2
        elif step == "anew":
            topic.read([10_000])  # what nobody read is gone; nothing can show it
            topic.id, topic.partitions, topic.logs = topic.id + 1, PARTITIONS, {p: [] for p in range(PARTITIONS)}
    topic.read([10_000])
    assert {key: number for key, (_, number) in topic.documents.items()} == newest


def state(ends: dict[int, int], name: str = "id", lives: dict[str, Lives] | None = None) -> LogState:
    places = {("t", p): end for p, end in ends.items()}
    return LogState({"t": name}, dict.fromkeys(places, 0), places, {}, {} if lives is None else lives)


AFTER = KafkaOffsets({"t": {0: 5, 1: 8}}, {"t": "id"})


def test_a_partition_more_begins_a_life_with_its_first_record() -> None:
    empty = advanced(AFTER, state({0: 9, 1: 8, 2: 0}), {("t", 0): 1})
    assert (empty.positions, empty.lives) == ({"t": {0: 6, 1: 8}}, {})
    filled = advanced(empty, state({0: 9, 1: 8, 2: 1}), {})
    assert (filled.positions, filled.lives) == ({"t": {0: 6, 1: 8, 2: 0}}, {"t": {1: {0: 9, 1: 8, 2: 0}}})
    assert [life_at(filled.lives_of("t"), *place) for place in [(0, 8), (0, 9), (1, 8), (2, 0)]] == [0, 1, 1, 1]
    assert advanced(filled, state({0: 99, 1: 8, 2: 50}), {}).lives == filled.lives
    assert offset_from_json(filled.to_json()) == filled


def test_a_topic_that_is_cut_back_or_made_anew_begins_a_life() -> None:
    cut = state({0: 3, 1: 8})
    behind = behind_gaps(AFTER, cut, gaps(AFTER, cut), "earliest")
    assert behind.lives == {"t": {1: {0: 3}}}
    anew = state({0: 2, 1: 0, 2: 4}, "another")
    again = behind_gaps(behind, anew, gaps(behind, anew), "latest")
    assert again.lives == {"t": {2: {0: 0, 1: 0, 2: 0}}}


def test_an_offset_from_before_lives_were_known_has_one_for_each_replaced_log() -> None:
    old = replace(AFTER, generations={"t": {0: 2, 1: 1}})
    assert life_at(old.lives_of("t"), 1, 3) == 2
    assert advanced(old, state({0: 5, 1: 8, 2: 1}), {}).lives["t"] == {2: {0: 0, 1: 0}, 3: {0: 5, 1: 8, 2: 0}}


def test_a_view_of_a_range_keeps_to_the_lives_of_its_end() -> None:
    known = {"t": {1: {0: 7, 1: 7, 2: 0}}}
    assert advanced(AFTER, state({0: 6, 1: 8, 2: 4}, lives=known), {}).lives == known


def test_records_that_are_moved_as_they_are_have_no_lives() -> None:
    raw = replace(state({0: 9, 1: 8, 2: 4}), lives=None)
    assert advanced(AFTER, raw, {}).lives == {}
    anew = replace(raw, ids={"t": "new"})
    assert behind_gaps(AFTER, anew, gaps(AFTER, anew), "latest").lives == {}


def test_lives_are_carried_through_ranges_and_amendments() -> None:
    end = KafkaOffsets({"t": {0: 9, 1: 8, 2: 4}}, {"t": "id"}, lives={"t": {1: {0: 7, 1: 8, 2: 0}}})
    (piece,) = without(OffsetRange(AFTER, end), ())
    assert isinstance(piece.end, KafkaOffsets)
    assert piece.end.lives == end.lives
    assert later(AFTER, end).lives == later(end, AFTER).lives == end.lives  # type: ignore[attr-defined]
    assert AFTER.of_generations(end).lives == end.lives
    assert replace(AFTER, ids={"t": "new"}).of_generations(end).lives == {"t": {2: {0: 0, 1: 0}}}


def test_growth_raises_no_life_more_where_too_much_would_have_to_be_kept() -> None:
    first = grown({}, {MOST_BOUNDARIES: 0}, dict.fromkeys(range(MOST_BOUNDARIES), 9))
    more = grown(first, {MOST_BOUNDARIES + 1: 0}, dict.fromkeys(range(MOST_BOUNDARIES + 1), 20))
    assert more == {1: {**first[1], MOST_BOUNDARIES + 1: 0}}
    assert newer({"t": first}, {"t": more, "u": {1: {0: 0}}}) == {"t": more, "u": {1: {0: 0}}}


@pytest.mark.parametrize("partition", [0, 1])
def test_a_record_before_every_life_is_of_life_0(partition: int) -> None:
    assert life_at({1: {0: 4}}, partition, 3) == 0
