"""A flow that cannot go on until a person acts: its sinks that are behind come as far as it first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from databus.core.errors import DecodeError
from databus.sources.mock.source import MockSource
from tests.spark.replay_desk import Desk, FolderSink, _soon  # noqa: F401 - a fixture


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A flow that stands before what it cannot read, with a sink behind that is there again, and answers slowly."""
    nothing: Any = None
    desk = Desk(tmp_path, nothing)
    desk.down(away=True)
    desk.run()
    desk.down(away=False)
    plan, preflight = MockSource.plan, FolderSink.preflight

    def stopped(self: MockSource, after: Any, limit: Any) -> Any:
        if str(after) == "10":
            raise DecodeError("INSERT \u2026: changes rows by statement", hint="checkpoint skip shop FILE:POS")
        return plan(self, after, limit)

    def slowly(self: FolderSink) -> Any:
        time.sleep(0.2)
        return preflight(self)

    monkeypatch.setattr(MockSource, "plan", stopped)
    monkeypatch.setattr(FolderSink, "preflight", slowly)
    return desk


def test_sinks_that_are_behind_join_before_it_stops(desk: Desk) -> None:
    """Else no person could pass it: an amendment is refused while a sink is behind."""
    with pytest.raises(DecodeError):
        desk.run()
    with desk.services() as services:
        assert services.store.sinks_behind("shop") == ()
    assert desk.given("b") == desk.given("a")


def test_one_that_is_away_still_is_not_waited_for(desk: Desk) -> None:
    desk.down(away=True)
    with pytest.raises(DecodeError):
        desk.run()
    with desk.services() as services:
        assert services.store.sinks_behind("shop") == ("b",)
