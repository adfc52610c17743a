"""The snapshot protocol holds in random histories of its model, and each rule left out is found."""

from __future__ import annotations

import pytest

from tests.faults.snapshot_model.histories import first_wrong, play, wrong
from tests.faults.snapshot_model.rules import HOLDS, PROTOCOL, WEAKENED, Rules

OTHERS = {name: rules for name, rules in HOLDS.items() if rules != PROTOCOL}
LONG = 20_000


HAPPENS = (
    "killed after the read", "killed after the chunk file", "killed after the plan", "killed in the sink",
    "killed after the sink", "killed before the commit", "gave up", "fell behind", "joined", "paused", "cancelled",
    "asked again", "threw chunks away", "lost a view", "planned an empty range with chunks",
)  # fmt: skip
"""Beginnings of steps that histories are to have."""


@pytest.mark.parametrize("first", range(0, 6_000, 2_000))
def test_the_protocol_holds(first: int) -> None:
    assert wrong(range(first, first + 2_000)) == {}


@pytest.mark.parametrize("first", range(LONG, 6 * LONG, LONG))
def test_the_protocol_holds_in_many_histories(first: int) -> None:
    assert wrong(range(first, first + LONG)) == {}


@pytest.mark.parametrize("rules", OTHERS.values(), ids=OTHERS)
def test_another_form_holds(rules: Rules) -> None:
    assert wrong(range(400), rules) == {}


@pytest.mark.parametrize("rules", OTHERS.values(), ids=OTHERS)
def test_another_form_holds_in_many_histories(rules: Rules) -> None:
    assert wrong(range(LONG), rules) == {}


@pytest.mark.parametrize("rules", WEAKENED.values(), ids=WEAKENED)
def test_a_rule_left_out_is_found(rules: Rules) -> None:
    assert first_wrong(range(4_000), rules)[1]


def test_a_seed_decides_a_history() -> None:
    steps: list[list[str]] = [[], []]
    assert play(7, trace=steps[0]) == play(7, trace=steps[1]) == ""
    assert steps[0] == steps[1]
    assert any("committed" in step for step in steps[0])


def test_histories_have_every_fault() -> None:
    steps: list[str] = []
    for seed in range(300):
        play(seed, trace=steps)
    assert [text for text in HAPPENS if not any(step.startswith(text) for step in steps)] == []
