"""The cyclic collector rests while rows are moved."""

from __future__ import annotations

import gc

import pytest

from databus.runtime.direct.read_ahead import collector_at_rest


def _collections(made: int) -> int:
    """Return how often the collector ran by itself while so many tuples were made and kept."""
    seen: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        seen.append(phase)

    gc.callbacks.append(note)
    try:
        kept = [(n, str(n)) for n in range(made)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == made
    return seen.count("start")


def test_nothing_is_collected_meanwhile_and_it_works_again_afterwards() -> None:
    assert gc.isenabled()
    assert _collections(50_000) > 0
    with collector_at_rest():
        assert _collections(50_000) == 0
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    with pytest.raises(LookupError), collector_at_rest():
        raise LookupError
    assert gc.isenabled()


def test_one_that_rested_before_goes_on_resting() -> None:
    gc.disable()
    try:
        with collector_at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
