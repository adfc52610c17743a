"""What a run asks Airflow about the runs before it, and which of them it waits for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from databus.airflow.runs.earlier import EarlierRun, earlier_run


class Instance:
    """A task instance whose DAG has earlier runs in some states; it notes which it is asked for."""

    def __init__(self, **runs: str) -> None:
        self.runs, self.asked = runs, list[str]()

    def get_previous_dagrun(self, state: str) -> Any:
        self.asked.append(state)
        return SimpleNamespace(run_id=self.runs[state]) if state in self.runs else None


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def test_one_that_runs_is_waited_for_until_it_is_over() -> None:
    for since in (None, ago(10_000)):
        found = earlier_run(Instance(running="day 1", queued="day 0"), since)
        assert (found, str(found)) == (EarlierRun("day 1", None), "day 1 (running)")
    assert earlier_run(Instance()) is None


def test_one_that_is_queued_is_waited_for_while_it_may_yet_begin(caplog: pytest.LogCaptureFixture) -> None:
    first = earlier_run(Instance(queued="day 1"))
    assert first is not None
    assert first.queued_since is not None
    assert str(first) == "day 1 (queued)"
    assert earlier_run(Instance(queued="day 1"), first.queued_since) == first
    # A backfill that runs backwards: the earlier run begins once this one is over, and never while this one waits.
    assert earlier_run(Instance(queued="day 1"), ago(121)) is None
    assert "day 1 is earlier and queued since" in caplog.text


def test_one_that_begins_between_the_questions_is_seen() -> None:
    instance = Instance(queued="day 1")

    def answer(state: str) -> Any:
        found = Instance.get_previous_dagrun(instance, state)
        instance.runs = {"running": "day 1"}
        return found

    instance.get_previous_dagrun = answer  # type: ignore[method-assign]
    assert earlier_run(instance) == EarlierRun("day 1", None)
    assert instance.asked == ["queued", "running"]


def test_where_airflow_does_not_tell_nothing_goes_on() -> None:
    class Silent:
        def get_previous_dagrun(self, state: str) -> Any:
            raise RuntimeError(f"no answer about {state}")

    with pytest.raises(RuntimeError, match="no answer"):
        earlier_run(Silent())
