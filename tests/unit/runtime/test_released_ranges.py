"""What a source keeps for a range goes once no sink stands before the range's end."""

from __future__ import annotations

from typing import Any

import pytest

from databus.sources.mock.source import MockSource
from tests.unit.runtime.marked_sinks import BROKERS, ROWS, Installation, brokers

assert brokers  # a fixture that is used by all tests here


def test_while_a_sink_is_behind_nothing_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    for name in ("discard", "release"):
        monkeypatch.setattr(MockSource, name, lambda _, plan, name=name: told.append((name, str(plan.range))))
    flow = Installation("a", "b")

    def run(**limits: Any) -> set[str]:
        told.clear()
        flow.run(**limits)
        return {name for name, _ in told}

    assert run(max_batches=2) == {"release"}
    BROKERS["b"].down = True
    assert run() == {"discard"}
    assert len(told) == (ROWS - 40) // 20
    BROKERS["b"].down = False
    assert run() == {"discard"}  # the sink passes it, and the others have
    assert len(told) == (ROWS - 40) // 20
