"""Deliveries: nothing is passed over, whatever is acknowledged, late or never."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.errors import StreamDeliveryError
from databus.stream.deliveries import Deliveries, OpenDelivery

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.dictionaries(st.integers(0, 2), st.integers(1, 5), min_size=1)),
        st.tuples(st.just("acknowledge"), st.integers(0, 20)),
        st.tuples(st.just("late"), st.integers(0, 20)),
        st.tuples(st.just("pass"), st.integers(1, 10)),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_place_is_behind_acknowledged_records_only(steps: list[tuple[str, Any]]) -> None:
    deliveries, now = Deliveries("d"), 0.0
    deliveries.begin({0: 100, 1: 0, 2: 7})
    begun = dict(deliveries.places)
    made: list[OpenDelivery] = []
    acknowledged: Counter[tuple[int, int]] = Counter()
    for what, given_value in steps:
        if what == "deliver":
            ends = {p: deliveries.next[p] + size for p, size in given_value.items()}
            made.append(deliveries.deliver(ends, now + 5))
        elif what == "late" and (late := deliveries.expired(now)) is not None:
            made.append(deliveries.again(late, now + 5))
            assert made[-1].attempt == late.attempt + 1
            with pytest.raises(StreamDeliveryError):
                deliveries.acknowledge(late.id)
        elif what == "pass":
            now += given_value
        elif what == "acknowledge" and made:
            one = made[given_value % len(made)]
            if not deliveries.is_open(one):
                with pytest.raises(StreamDeliveryError):
                    deliveries.after(one.id)
                continue
            moved = deliveries.after(one.id)
            stored = deliveries.acknowledge(one.id)
            assert moved.items() <= deliveries.places.items()
            assert stored == all(deliveries.places[p] >= end for p, (_, end) in one.spans.items())
            acknowledged.update((p, offset) for p, (start, end) in one.spans.items() for offset in range(start, end))
    assert set(acknowledged.values()) <= {1}
    for partition, place in deliveries.places.items():
        done = {offset for p, offset in acknowledged if p == partition}
        assert set(range(begun[partition], place)) <= done
        assert place not in done
    while (late := deliveries.expired(now + 1000)) is not None:
        deliveries.acknowledge(deliveries.again(late, now).id)
    assert deliveries.places == deliveries.next
    assert len(deliveries) == 0
    assert deliveries.first_deadline_s is None


def test_a_delivery_is_stored_once_it_is_in_all_its_partitions() -> None:
    deliveries = Deliveries("d")
    deliveries.begin({0: 0, 1: 0})
    first, second = deliveries.deliver({1: 5}, 1.0), deliveries.deliver({0: 5, 1: 10}, 1.0)
    assert deliveries.acknowledge(second.id) is False
    assert deliveries.places == {0: 5, 1: 0}
    assert deliveries.acknowledge(first.id) is True
    assert deliveries.places == {0: 5, 1: 10}


def test_moved_partitions_forget_what_was_delivered() -> None:
    deliveries = Deliveries("d")
    deliveries.begin({0: 0, 1: 0})
    both, other = deliveries.deliver({0: 5, 1: 5}, 1.0), deliveries.deliver({1: 9}, 1.0)
    deliveries.acknowledge(other.id)
    deliveries.begin({0: 3})
    assert deliveries.next == {0: 3, 1: 9}
    assert deliveries.places == {0: 3, 1: 0}
    # Its records of the other partition are still out, and come again.
    assert deliveries.expired(2.0).spans == {1: (0, 5)}
    deliveries.acknowledge(both.id)
    assert deliveries.places == {0: 3, 1: 9}
    gone = deliveries.deliver({0: 4}, 1.0)
    deliveries.begin({0: 3})
    assert not deliveries.is_open(gone)
