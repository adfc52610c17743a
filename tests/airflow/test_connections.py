"""What a connection that Airflow does not give means to a task: it is asked for again."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse

from databus import Flow, Kafka
from databus.airflow.connections import AirflowConnections
from databus.airflow.operators.task import airflow_outcome
from databus.core.settings import Settings
from databus.core.times import SystemClock
from databus.ops.health.preflight import preflight, require_passed
from databus.runtime.context import Services
from databus.sources.mock.spec import Mock
from databus.testing.memory_store import MemoryCheckpoints

GIVEN = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}'


class Supervisor:
    """What a task's supervisor answers when it is asked for a connection."""

    def __init__(self, kind: ErrorType) -> None:
        self._kind = kind

    def send(self, _message: Any) -> ErrorResponse:
        return ErrorResponse(error=self._kind, detail={"status_code": 500})


@pytest.mark.parametrize("kind", [None, ErrorType.CONNECTION_NOT_FOUND, ErrorType.API_SERVER_ERROR])
def test_a_connection_that_is_not_given_is_asked_for_again(
    kind: ErrorType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a task, an api-server or a database that is away and a connection that nobody made look alike."""
    if kind is not None:
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(kind), raising=False)
    with pytest.raises(AirflowException, match="kafka_east") as raised, airflow_outcome():
        AirflowConnections().get("kafka_east")
    assert not isinstance(raised.value, AirflowFailException)
    assert "connection_missing" in str(raised.value)
    assert "airflow connections add kafka_east" in str(raised.value)
    assert "did not answer" in str(raised.value)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EAST", GIVEN)
    assert AirflowConnections().get("kafka_east").conn_type == "kafka"


def test_a_preflight_without_a_sinks_connection_is_tried_again() -> None:
    flow = Flow(name="shop", source=Mock(rows=10), sinks=(Kafka(conn_id="kafka_nowhere", topic="shop"),))
    recorder: Any = None
    services = Services(
        Settings("test", "", ""), AirflowConnections(), MemoryCheckpoints(), None, recorder, SystemClock()
    )
    with pytest.raises(AirflowException, match="kafka_nowhere") as raised, airflow_outcome():
        require_passed(flow, preflight(flow, services))
    assert not isinstance(raised.value, AirflowFailException)
    assert "connection_missing" in str(raised.value)
