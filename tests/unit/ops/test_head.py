"""A flow's place as sensors judge it."""

from __future__ import annotations

import pytest

from databus.ops.health.head import FlowPosition


@pytest.mark.parametrize(
    ("committed", "lag_bytes", "has_changes"),
    [("", None, True), ("a:4", 0, False), ("a:4", 1, True), ("a:4", None, True)],
)
def test_there_are_changes_unless_the_source_says_there_are_none(
    committed: str, lag_bytes: int | None, has_changes: bool
) -> None:
    assert FlowPosition("orders", committed, "a:9", lag_bytes, 0.0).has_changes is has_changes


@pytest.mark.parametrize(
    ("place", "bounds", "within"),
    [
        (FlowPosition("orders", "a:4", "a:9", 5, 1.0), (1.0, None), True),
        (FlowPosition("orders", "a:4", "a:9", 5, 1.1), (1.0, None), False),
        (FlowPosition("orders", "a:4", "a:9", 5, 1.0), (2.0, 4), False),
        (FlowPosition("orders", "a:4", "a:9", None, 1.0), (None, 4), False),
        (FlowPosition("orders", "", "a:9", None, None), (None, None), False),
    ],
)
def test_lag_is_within_bounds_only_when_it_is_known(
    place: FlowPosition, bounds: tuple[float | None, int | None], within: bool
) -> None:
    assert place.within(*bounds) is within


@pytest.mark.parametrize(
    ("committed", "changed", "has_changes"), [("a:4", False, False), ("a:4", True, True), ("", False, True)]
)
def test_of_a_shared_log_only_own_changes_count(committed: str, changed: bool, has_changes: bool) -> None:
    assert FlowPosition("orders", committed, "a:9", 5, 0.0, changed=changed).has_changes is has_changes
