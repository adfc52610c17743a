"""What is stored of places is what was stored, whichever way it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.records.ledger.stored_places import PlacesError, difference, packed, patched, unpacked

VALUES = st.integers(0, 3) | st.text("ab", max_size=2)
OBJECTS = st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4), max_leaves=12)
OBJECT = st.dictionaries(st.sampled_from("abcd"), OBJECTS, max_size=4)


@given(OBJECT, OBJECT)
def test_a_patch_makes_one_the_other(one: dict, other: dict) -> None:
    assert patched(one, difference(one, other)) == other
    assert difference(one, one) == {}


def place(first: int, partitions: int = 40) -> dict:
    return {"kind": "kafka", "positions": {"t": {str(p): first + p for p in range(partitions)}}, "ids": {"t": "x"}}


def moved(before: dict, partition: int) -> dict:
    return patched(before, {"positions": {"t": {str(partition): 1_000}}})


def test_a_page_holds_what_moved() -> None:
    before, after = place(5), moved(place(5), 7)
    entry = {"v": 1, "number": 9, "previous": before, "offset": after}
    stored, chained = packed(entry, chained=True)
    assert chained
    assert len(str(stored)) < 200
    assert unpacked(stored, before) == entry
    with pytest.raises(PlacesError, match="the page before"):
        unpacked(stored, None)
    alone, chained = packed(entry, chained=False)
    assert not chained
    assert unpacked(alone, None) == entry


@pytest.mark.parametrize("previous", [None, place(5, 16), {"kind": "binlog", "file": "b.000001", "pos": 4}])
def test_small_places_are_stored_whole(previous: dict | None) -> None:
    entry = {"previous": previous, "offset": place(7, 40)}
    assert packed(entry, chained=True) == (entry, False)
    assert unpacked(entry, None) == entry
