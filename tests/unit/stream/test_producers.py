"""Sequences of producers: each is written once, whatever is repeated, lost or sent by two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import StreamFullError, StreamProducerConflictError, StreamSequenceError
from databus.stream.producers import NEW, WINDOW, Offsets, Producers, ProducerState, WrittenRequest, judge

KEY = ("orders", "writer-1")


def state_of(*sequences: int) -> ProducerState:
    state = NEW
    for number in sequences:
        state = state.after(WrittenRequest(number, f"d{number}", {0: Offsets(number, number, 1)}), number)
    return state


@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["a", "b"])), max_size=40))
def test_each_sequence_is_written_once_and_in_order(sent: list[tuple[int, str]]) -> None:
    state, log = NEW, []
    for sequence, digest in sent:
        try:
            found = judge(state, KEY, sequence, digest)
        except StreamSequenceError:
            assert sequence > len(log) or sequence < len(log) - WINDOW
        except StreamProducerConflictError:
            assert log[sequence][0] != digest
        else:
            if found is None:
                log.append((digest, len(log) * 10))
                state = state.after(WrittenRequest(sequence, digest, {0: Offsets(log[-1][1], log[-1][1], 1)}), 0)
            else:
                assert log[sequence] == (digest, found.offsets[0].first)
    assert [one.sequence for one in state.window] == list(range(len(log)))[-WINDOW:]
    assert ProducerState.from_bytes(state.to_bytes()) == state


def test_a_repeat_with_other_records_is_refused() -> None:
    with pytest.raises(StreamProducerConflictError, match="sequence 1 of producer writer-1"):
        judge(state_of(0, 1, 2), KEY, 1, "other")


def test_what_is_older_than_the_window_is_not_taken_for_new() -> None:
    with pytest.raises(StreamSequenceError, match="not known any more") as caught:
        judge(state_of(*range(9)), KEY, 2, "d2")
    assert caught.value.expected == 9


def test_ids_are_bounded_in_number_and_by_idle_time() -> None:
    producers = Producers(most=2, idle_ms=100)
    producers.keep(("t", "a"), state_of(0))
    producers.keep(("t", "b"), ProducerState(state_of(0).window, 90))
    assert producers.of(("t", "a"), 50).window
    with pytest.raises(StreamFullError, match="2 producer ids"):
        producers.of(("t", "c"), 50)
    assert producers.of(("t", "c"), 150) is NEW
    assert list(producers) == [("t", "b")]
    assert producers.of(("t", "b"), 191) is NEW
    assert len(producers) == 0


@pytest.mark.parametrize("stored", [b"{}", b"[]", b'{"v":2,"at_ms":0,"window":[]}', b"x"])
def test_what_is_no_state_is_refused(stored: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        ProducerState.from_bytes(stored)
