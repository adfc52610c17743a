"""Triggers over places that a test gives: when they fire, when they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.airflow import triggers
from databus.airflow.sensors import ChangesSensor, LagSensor
from databus.core.errors import SourceUnavailableError
from databus.ops import head
from databus.ops.head import Place

FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)), sinks=(Noop(),))


def place(committed: str, behind: int, *, running: bool = False) -> Place:
    return Place("orders", committed, "a:9", behind, float(behind), running)


def fired(trigger: Any, seen: Sequence[Place | Exception], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    async def given(
        _flow: Flow, _poll_s: float, _patience: int | None, *, of_changes: bool = False
    ) -> AsyncIterator[Place]:
        assert of_changes == isinstance(again, triggers.ChangesTrigger)
        for one in seen:
            if isinstance(one, Exception):
                raise one
            yield one

    monkeypatch.setattr(triggers, "places", given)
    path, arguments = trigger.serialize()
    again = getattr(triggers, path.rpartition(".")[2])(**arguments)  # as the triggerer makes it

    async def collect() -> list[dict[str, Any]]:
        return [event.payload async for event in again.run()]

    return asyncio.run(collect())


def test_a_flow_is_woken_once_for_a_place_and_not_while_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [
        place("a:4", 0),
        place("a:4", 5),
        place("a:4", 6),
        place("a:4", 6, running=True),
        place("a:8", 2, running=True),
        place("a:9", 0),
        place("a:9", 1),
    ]
    told = fired(triggers.ChangesTrigger(FLOW), seen, monkeypatch)
    assert [(t["place"]["committed"], t["place"]["lag_bytes"]) for t in told] == [("a:4", 5), ("a:9", 1)]


def test_a_place_at_which_the_woken_run_failed_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = fired(triggers.ChangesTrigger(FLOW, again_s=0), [place("a:4", 5), place("a:4", 5)], monkeypatch)
    assert len(told) == 2


def test_a_flow_that_has_not_begun_is_woken_unless_somebody_else_begins_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [place("", 0), place("a:4", 5)]
    assert len(fired(triggers.ChangesTrigger(FLOW), seen, monkeypatch)) == 2

    async def waits(_dag_id: str) -> bool:
        return False

    monkeypatch.setattr(triggers, "run_waits", waits)
    (told,) = fired(triggers.ChangesTrigger(FLOW, wakes="orders_dag"), seen, monkeypatch)
    assert told["place"]["committed"] == "a:4"


def test_the_same_place_is_told_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks each 5 s over an hour and a half: a run that does not begin is not answered with more runs."""
    clock = 0.0
    monkeypatch.setattr(triggers.time, "monotonic", lambda: clock)  # type: ignore[attr-defined]

    async def given(*_: Any, **__: Any) -> AsyncIterator[Place]:
        nonlocal clock
        for second in range(0, 5400, 5):
            clock = float(second)
            yield place("a:4" if second < 5000 else "a:9", 5)

    async def collect() -> list[float]:
        return [clock async for _ in triggers.ChangesTrigger(FLOW, again_s=60).run()]

    monkeypatch.setattr(triggers, "places", given)
    assert asyncio.run(collect()) == [0, 60, 180, 420, 900, 1800, 2700, 3600, 4500, 5000, 5060, 5180]


def test_no_run_is_begun_while_one_waits_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come at 100 s, a run that waits is there until 400 s and fails: the flow is asked for again, and woken."""
    clock = 0.0
    asked: list[float] = []
    monkeypatch.setattr(triggers.time, "monotonic", lambda: clock)  # type: ignore[attr-defined]

    async def given(*_: Any, **__: Any) -> AsyncIterator[Place]:
        nonlocal clock
        for second in range(100, 700, 5):
            clock = float(second)
            yield place("a:4", 5)

    async def waits(dag_id: str) -> bool:
        assert dag_id == "orders_dag"
        asked.append(clock)
        return clock < 400

    async def collect() -> list[float]:
        return [clock async for _ in triggers.ChangesTrigger(FLOW, again_s=60, wakes="orders_dag").run()]

    monkeypatch.setattr(triggers, "places", given)
    monkeypatch.setattr(triggers, "run_waits", waits)
    assert asyncio.run(collect()) == [400, 460, 580]
    assert asked == [100, 160, 220, 280, 340, 400, 460, 580]


@pytest.mark.parametrize(("apart_s", "places"), [(0, ["a:4", "a:6", "a:8"]), (3600, ["a:4"])])
def test_where_others_write_too_a_flow_is_woken_at_most_so_often(
    apart_s: float, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = fired(
        triggers.ChangesTrigger(FLOW, apart_s=apart_s), [place(at, 5) for at in ("a:4", "a:6", "a:8")], monkeypatch
    )
    assert [t["place"]["committed"] for t in told] == places


def test_a_sensor_ends_with_the_first_change_also_while_a_run_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = ChangesSensor(task_id="changes", flow=FLOW)
    seen = [place("a:4", 0), place("a:4", 5, running=True), place("a:9", 5)]
    (told,) = fired(sensor.trigger(), seen, monkeypatch)
    assert sensor.met({}, told)["committed"] == "a:4"


def test_lag_within_its_bound_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = LagSensor(task_id="lag", flow=FLOW, max_seconds=2)
    (told,) = fired(sensor.trigger(), [place("a:4", 5), place("a:7", 2), place("a:9", 0)], monkeypatch)
    assert sensor.met({}, told)["committed"] == "a:7"


@pytest.mark.parametrize(("retryable", "raised"), [(True, "AirflowException"), (False, "AirflowFailException")])
def test_an_error_reaches_the_task(retryable: bool, raised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = LagSensor(task_id="lag", flow=FLOW)
    error = SourceUnavailableError("mysql_shop does not answer", retryable=retryable)
    (told,) = fired(sensor.trigger(), [error], monkeypatch)
    with pytest.raises(Exception, match="mysql_shop does not answer") as ended:
        sensor.met({}, told)
    assert type(ended.value).__name__ == raised


def test_looks_that_fail_are_borne_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = [SourceUnavailableError("away")] * 3 + [place("a:4", 5)] + [SourceUnavailableError("away")] * 9
    closed = []

    class Look:
        def __init__(self, *_: Any) -> None: ...

        def place(self) -> Place:
            found = looks.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        def close(self) -> None:
            closed.append(True)

    async def connections(_flow: Flow) -> None: ...

    monkeypatch.setattr(head, "HeadLook", Look)
    monkeypatch.setattr(triggers, "connections_of", connections)

    async def collect() -> list[Place]:
        return [found async for found in triggers.places(FLOW, 0, triggers.PATIENCE)]

    with pytest.raises(SourceUnavailableError):
        asyncio.run(collect())
    assert len(looks) == 4
    assert closed == [True]
