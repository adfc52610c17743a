"""Found by reading: backfills that pass transactions by statement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databus.core.errors import DecodeError, LeaseBusyError
from databus.ops import mediation
from tests.unit.ops.test_backfill_passing import Passing, at, gap


def test_found_what_a_sink_alone_gave_up_is_no_decision_of_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """`skip --sink b` names its gap among the flow's; the flow itself was never moved over it."""
    passing = Passing(monkeypatch, replace(gap(at(5), at(50)), cause="sink b: skip"))
    with pytest.raises(DecodeError):
        passing.run()
    assert not passing.done


def test_found_two_who_run_one_backfill_do_not_fail_over_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has the piece's lease again, and passes the statement: this one has to look again, not to fail."""
    passing = Passing(monkeypatch, gap(at(10), at(20)))

    def busy(*_: Any) -> None:
        raise LeaseBusyError("the other one holds it")

    monkeypatch.setattr(mediation, "execute", busy)
    passing.run()
