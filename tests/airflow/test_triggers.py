"""Triggers over places that a test gives: when they fire, when they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from databus import Flow, MysqlBinlog, Noop
from databus.airflow import triggers
from databus.airflow.sensors import ChangesSensor, LagSensor
from databus.core.connections import ConnectionSource
from databus.core.errors import ConnectionMissingError, SourceAccessError, SourceUnavailableError
from databus.ops.health import head
from databus.ops.health.head import FlowPosition

POLL_S = 5.0
FLOW = Flow(name="orders", source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)), sinks=(Noop(),))


def place(committed: str, behind: int, *, running: bool = False) -> FlowPosition:
    return FlowPosition("orders", committed, "a:9", behind, float(behind), running)


def fired(
    trigger: Any, seen: Sequence[FlowPosition | Exception], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    async def given(
        _flow: Flow, _poll_s: float, _patience: int | None, *, of_changes: bool = False
    ) -> AsyncIterator[FlowPosition]:
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

    async def given(*_: Any, **__: Any) -> AsyncIterator[FlowPosition]:
        nonlocal clock
        for second in range(0, 5400, 5):
            clock = float(second)
            yield place("a:4" if second < 5000 else "a:9", 5)

    async def collect() -> list[float]:
        return [clock async for _ in triggers.ChangesTrigger(FLOW, again_s=60).run()]

    monkeypatch.setattr(triggers, "places", given)
    assert asyncio.run(collect()) == [0, 60, 180, 420, 900, 1800, 2700, 3600, 4500, 5000, 5060, 5180]


def test_a_flow_that_stands_still_for_weeks_is_woken_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run each quarter of an hour that fails: after ten days they are more than a float can double."""
    clock, woken = 0.0, 0
    monkeypatch.setattr(triggers.time, "monotonic", lambda: clock)  # type: ignore[attr-defined]

    async def given(*_: Any, **__: Any) -> AsyncIterator[FlowPosition]:
        nonlocal clock
        for quarter in range(2000):
            clock = quarter * 900.0
            yield place("a:4", 5)

    async def wakes() -> int:
        return len([event async for event in triggers.ChangesTrigger(FLOW, again_s=300).run()])

    monkeypatch.setattr(triggers, "places", given)
    woken = asyncio.run(wakes())
    assert woken == 2000


def test_no_run_is_begun_while_one_waits_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come at 100 s, a run that waits is there until 400 s and fails: the flow is asked for again, and woken."""
    clock = 0.0
    asked: list[float] = []
    monkeypatch.setattr(triggers.time, "monotonic", lambda: clock)  # type: ignore[attr-defined]

    async def given(*_: Any, **__: Any) -> AsyncIterator[FlowPosition]:
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
    sensor = LagSensor(task_id="lag", flow=FLOW, max_lag=timedelta(seconds=2))
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


class Look:
    """A look that finds what a test gives, with the flow's connections at hand."""

    made: ClassVar[list[Look]] = []
    found: ClassVar[Callable[[Look], FlowPosition]]

    def __init__(self, flow: Flow, connections: ConnectionSource) -> None:
        self.source = flow.source.conn_ids()[0][0]
        self.zookeeper, self.connections = flow.zookeeper, connections
        self.closed = 0
        self.made.append(self)

    def place(self) -> FlowPosition:
        return type(self).found(self)

    def close(self) -> None:
        self.closed += 1


def seen(
    found: Callable[[Look], FlowPosition], monkeypatch: pytest.MonkeyPatch, patience: int | None, wanted: int
) -> list[FlowPosition]:
    """Look through `places`, with connections of the environment, until so many places were seen."""
    monkeypatch.setattr(Look, "made", [])
    monkeypatch.setattr(Look, "found", found, raising=False)
    monkeypatch.setattr(head, "HeadLook", Look)

    async def collect() -> list[FlowPosition]:
        places = []
        async with aclosing(triggers.places(FLOW, POLL_S, patience)) as given:  # type: ignore[type-var]
            async for one in given:
                places.append(one)
                if len(places) == wanted:
                    break
        return places

    try:
        return asyncio.run(collect())
    finally:
        assert [look.closed for look in Look.made] == [1] * len(Look.made)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between looks, which take no time."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(triggers.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    return pauses


def test_looks_that_fail_are_borne_for_a_while(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    looks: list[Any] = [SourceUnavailableError("away")] * 3 + [place("a:4", 5)] + [SourceUnavailableError("away")] * 9

    def found(_: Look) -> FlowPosition:
        one = looks.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    with pytest.raises(SourceUnavailableError):
        seen(found, monkeypatch, triggers.PATIENCE, 2)
    assert len(looks) == 4
    assert slept == [5, 10, 20, 5, 5, 10, 20, 30]


def test_an_outage_of_days_is_looked_at_twice_a_minute(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    looks = 0

    def found(_: Look) -> FlowPosition:
        nonlocal looks
        looks += 1
        if looks <= 2000:
            raise SourceUnavailableError("away")
        return place("a:4", 5)

    assert seen(found, monkeypatch, None, 1) == [place("a:4", 5)]
    assert slept == [5, 10, 20, *[30] * 1997]


def asks_for_both(look: Look) -> FlowPosition:
    """Find a place by connections to ZooKeeper and to a source that takes the newest password."""
    look.connections.get(look.zookeeper)
    if look.connections.get(look.source).password.get_secret_value() != "new":
        raise SourceAccessError("mysql_shop refused the login")
    return place("a:4", 5)


@pytest.mark.parametrize("patience", [None, triggers.PATIENCE])
@pytest.mark.usefixtures("slept")
def test_connections_that_come_later_are_found(monkeypatch: pytest.MonkeyPatch, patience: int | None) -> None:
    """A flow is deployed before its connections, or the triggerer starts while Airflow's database is away."""

    def found(look: Look) -> FlowPosition:
        try:
            return asks_for_both(look)
        finally:
            missing = ["MYSQL_SHOP", "ZOOKEEPER_DEFAULT"][len(Look.made) % 2]
            monkeypatch.setenv(f"AIRFLOW_CONN_{missing}", '{"conn_type": "generic", "host": "h", "password": "new"}')

    assert seen(found, monkeypatch, patience, 1) == [place("a:4", 5)]
    assert len(Look.made) == 3


@pytest.mark.usefixtures("slept")
def test_a_password_that_is_changed_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ZOOKEEPER_DEFAULT", '{"conn_type": "zookeeper", "host": "h"}')
    monkeypatch.setenv("AIRFLOW_CONN_MYSQL_SHOP", '{"conn_type": "mysql", "host": "h", "password": "old"}')

    def found(look: Look) -> FlowPosition:
        if len(Look.made) == 3:
            monkeypatch.setenv("AIRFLOW_CONN_MYSQL_SHOP", '{"conn_type": "mysql", "host": "h", "password": "new"}')
        return asks_for_both(look)

    assert seen(found, monkeypatch, None, 2) == [place("a:4", 5)] * 2
    assert len(Look.made) == 4


@pytest.mark.usefixtures("slept")
def test_a_connection_that_does_not_come_ends_a_sensors_wait_for_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionMissingError, match="zookeeper_default") as missing:
        seen(asks_for_both, monkeypatch, triggers.PATIENCE, 1)
    assert len(Look.made) == triggers.PATIENCE
    assert missing.value.retryable
