"""Traces of flows whose offsets are of another package: refused by name, for nothing says which batch read a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from databus.core.positions.offsets import Offset, Ordering
from databus.core.trace import Change
from databus.ops.trace.batches import BatchFinder
from databus.records.provenance import Provenance


@dataclass(frozen=True)
class _Page:
    """An offset of another package."""

    kind: str = "page"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def compare(self, other: Offset) -> Ordering:
        return Ordering.EQUAL if other == self else Ordering.DIVERGED


def test_a_flow_of_foreign_offsets_says_that_its_batches_are_not_found_by_a_change() -> None:
    class Records:
        def streams(self, *_: Any) -> list[str]:
            return []

        def stands_at(self, _: str) -> Offset:
            return _Page()

    finder = BatchFinder("pages", cast("Provenance", Records()))
    change = Change(file="book", position=7)
    assert finder.read(change) == []
    error = finder.not_recorded("book:7", change)
    assert "offsets of the kind 'page' are not found by a change" in error.message
    assert (error.flow, error.code) == ("pages", "trace_not_recorded")
