"""The cyclic collector rests while rows are moved; memory that malloc keeps free goes back to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pyarrow as pa
import pytest

from databus.runtime.direct import task
from databus.runtime.direct.read_ahead import collector_at_rest, return_free_memory
from databus.sources.mock import split
from tests.unit.runtime.test_direct import Counting, Halves, dispatched

glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another malloc")
_HOLES = 100 << 20


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)


def _with_holes() -> list[bytes]:
    """Take 100 MB from malloc in pieces that it does not map, and free all but every fiftieth."""
    made = [b"x" * (64 << 10) for _ in range(_HOLES >> 16)]
    return made[49::50]


@pytest.fixture(autouse=True)
def _default_thresholds() -> Iterator[None]:
    """A test that calls the command in this process leaves the thresholds of the command behind."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


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


@glibc
def test_holes_in_the_heap_are_returned() -> None:
    return_free_memory()  # else those of earlier tests are filled first, and nothing grows
    before = _resident()
    pins = _with_holes()
    assert _resident() - before > _HOLES // 2, "malloc returned them by itself"
    return_free_memory()
    assert _resident() - before < _HOLES // 4
    assert pins


@dataclass(frozen=True)
class _Holing(Halves):
    """Encoder that leaves holes in the heap."""

    resident: list[int] = field(default_factory=list)
    pins: list[bytes] = field(default_factory=list)

    def encode(self, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
        self.resident.append(_resident())
        self.pins.extend(_with_holes())
        return super().encode(rows, slot)


@glibc
def test_a_task_returns_them_between_its_rows_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_ROWS_BETWEEN_TRIMS", 1)
    monkeypatch.setattr(split, "_BATCH_ROWS", 20)
    encoder = _Holing()
    dispatched(monkeypatch, encoder, Counting())
    seen = [*encoder.resident, _resident()]
    assert len(seen) > 4  # pieces in each slot, and what is left
    assert max(seen) - seen[0] < _HOLES // 2
