from __future__ import annotations

from datetime import UTC, datetime

import pytest

from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint import Epoch, HistoryEntry, ReplacedOutputs
from databus.ops.checkpoint.show import why_of

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


def accepted(why: str, replaced: ReplacedOutputs | None) -> HistoryEntry:
    at = SequenceOffset(1)
    return HistoryEntry(2, "accept", "ada", why, at, at, 1, Epoch(1), {}, (), NOON, replaced=replaced)


@pytest.mark.parametrize(
    ("why", "outputs", "told"),
    [
        ("rows moved", {}, "rows moved"),
        ("gone", {"kafka": {"b": "B", "a": None}}, "gone; kafka: a deleted, b made anew"),
        ("", {"search": {"x": "X"}, "kafka": {"a": None}}, "kafka: a deleted; search: x made anew"),
        (
            "all",
            {"kafka": {f"t{n}": None for n in range(7)}},
            "all; kafka: t0 deleted, t1 deleted, t2 deleted, t3 deleted, t4 deleted and 2 more",
        ),
    ],
)
def test_the_reason_names_the_topics_that_were_accepted(
    why: str, outputs: dict[str, dict[str, str | None]], told: str
) -> None:
    assert why_of(accepted(why, ReplacedOutputs(1, outputs) if outputs else None)) == told
