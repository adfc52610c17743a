"""Which outputs are not those that were written to, and what a flow knows of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.known_outputs import NOTHING_KNOWN, changed_outputs, known_outputs, merged_outputs

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
STANDING = Checkpoint(
    SequenceOffset(5), 7, Epoch(1), "r", "h", {}, None, NOON, output_ids={"kafka": {"a": "a1", "b": "b1"}}
)


def test_one_that_is_gone_and_one_in_another_s_place_are_told_and_no_other() -> None:
    known = {"same": "1", "gone": "2", "anew": "3"}
    found = {"same": "1", "anew": "9", "new": "4"}
    assert [str(changed) for changed in changed_outputs(known, found)] == [
        "anew (id 3) was deleted, another one is there now (id 9)",
        "gone (id 2) was deleted, none is there now",
    ]


def test_without_ids_only_absence_can_be_told() -> None:
    assert changed_outputs({"a": "", "b": "1", "c": ""}, {"a": "2", "b": ""}) == changed_outputs({"c": ""}, {})


def test_a_checkpoint_tells_what_is_known_and_since_when() -> None:
    known = known_outputs(STANDING, "kafka")
    assert (known.ids, known.since) == ({"a": "a1", "b": "b1"}, "batch 7 was committed at 2026-11-25T12:00:00+00:00")
    assert known_outputs(STANDING, "other") == known_outputs(None, "kafka") == NOTHING_KNOWN


def test_exact_names_are_known_with_or_without_ids() -> None:
    named = replace(STANDING, output_ids={}, output_names={"kafka": {"a_b": "a$b"}})
    assert known_outputs(named, "kafka").names == {"a_b": "a$b"}
    assert known_outputs(STANDING, "kafka", named).names == {"a_b": "a$b"}
    assert known_outputs(STANDING, "kafka", named).ids == STANDING.output_ids["kafka"]


def test_beside_a_live_flow_what_that_one_knows_wins() -> None:
    live = replace(STANDING, batch=9, output_ids={"kafka": {"a": "a2"}, "x": {"y": "z"}})
    known = known_outputs(STANDING, "kafka", live)
    assert known.ids == {"a": "a2", "b": "b1"}
    assert known.since.startswith("batch 9 ")
    assert known_outputs(None, "kafka", live).ids == {"a": "a2"}
    assert known_outputs(STANDING, "kafka", replace(live, output_ids={})) == known_outputs(STANDING, "kafka")


def test_a_batch_adds_what_it_wrote_to() -> None:
    before = {"kafka": {"a": "a1"}, "former": {"x": "x1"}}
    after = merged_outputs(before, {"kafka": {"b": "b1"}, "search": {}})
    assert after == {"kafka": {"a": "a1", "b": "b1"}, "former": {"x": "x1"}}
