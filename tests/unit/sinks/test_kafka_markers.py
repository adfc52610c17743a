from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.core.errors import MarkerDivergedError
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.plan import Plan, SinkPlan
from databus.sinks.kafka.markers import MAX_METADATA_BYTES, Marker, compare

PLAN = Plan(
    "inst",
    "f",
    8,
    OffsetRange(SequenceOffset(1), SequenceOffset(2)),
    {"kafka": SinkPlan(2, (7, 0))},
    "spec",
    datetime(2026, 1, 1, tzinfo=UTC),
)
PREVIOUS = Marker(7, "p" * 16)
MINE = Marker(8, PLAN.hash, done=10, written=12, outputs={"t[0]": (3, 14, 12)})


@pytest.mark.parametrize(
    "marker",
    [
        PREVIOUS,
        MINE,
        replace(MINE, state="abandoned", chunk=-1, last=False),
        replace(MINE, last=False, place=("topic[11]", 1 << 40, 0, 0)),
    ],
)
def test_round_trip(marker: Marker) -> None:
    assert Marker.parse(marker.batch, marker.metadata()) == marker


def test_metadata_fits_one_kilobyte_without_its_outputs() -> None:
    large = replace(MINE, outputs={f"a.topic.with.a.name[{n}]": (1 << 40, 1 << 41, 1 << 20) for n in range(99)})
    assert len(large.metadata().encode()) <= MAX_METADATA_BYTES
    assert Marker.parse(8, large.metadata()) == replace(large, outputs=None)


def test_the_place_of_the_last_row_is_never_left_out() -> None:
    place = ("t" * 249 + "[1000]", 1 << 62, 1 << 31, 3)
    large = replace(MINE, last=False, end={"kind": "kafka", "positions": {"t" * 900: {}}}, at="t" * 900, place=place)
    assert len(large.metadata().encode()) <= MAX_METADATA_BYTES
    assert Marker.parse(8, large.metadata()).place == place


@pytest.mark.parametrize("metadata", [None, "", "{}", "[]", '{"v":2}', "x"])
def test_what_is_no_marker_is_refused(metadata: str | None) -> None:
    with pytest.raises(MarkerDivergedError, match="cannot be read"):
        Marker.parse(8, metadata)


def test_an_offset_that_is_not_the_batch_is_refused() -> None:
    with pytest.raises(MarkerDivergedError):
        Marker.parse(9, MINE.metadata())


def test_write_on_top_of_the_previous_batch() -> None:
    resume = compare(PREVIOUS, PLAN, "kafka", 0)
    assert (resume.finished, resume.chunk, resume.marker) == (False, 0, None)
    assert not compare(None, PLAN, "kafka", 1).finished
    assert not compare(replace(PREVIOUS, state="abandoned", chunk=-1, last=False), PLAN, "kafka", 0).finished


def test_own_marker_means_finished_or_resume() -> None:
    assert compare(MINE, PLAN, "kafka", 0).finished
    resume = compare(replace(MINE, chunk=4, last=False), PLAN, "kafka", 0)
    assert (resume.finished, resume.chunk) == (False, 5)


@pytest.mark.parametrize(
    ("marker", "slot"),
    [
        (None, 0),  # it expired, or the topic is another cluster's
        (PREVIOUS, 1),  # the plan believes that the slot never wrote
        (Marker(6, "x"), 0),
        (Marker(9, "x"), 0),
        (Marker(8, "another plan"), 0),
        (replace(MINE, state="abandoned"), 0),
        (replace(PREVIOUS, last=False), 0),  # the batch before was never finished
    ],
)
def test_anything_else_stops(marker: Marker | None, slot: int) -> None:
    with pytest.raises(MarkerDivergedError) as caught:
        compare(marker, PLAN, "kafka", slot)
    text = str(caught.value)
    assert f"slot {slot}" in text
    assert PLAN.hash in text
    assert (str(marker) if marker else "no marker") in text


def test_a_plan_that_does_not_follow_its_own_base_stops() -> None:
    plan = replace(PLAN, sinks={"kafka": SinkPlan(1, (9,))})
    with pytest.raises(MarkerDivergedError):
        compare(Marker(9, "x"), plan, "kafka", 0)
