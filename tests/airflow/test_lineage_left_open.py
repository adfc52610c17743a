"""Which windows a run ends for others, by what Airflow's supervisor answers about their runs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import comms, task_runner

from databus.airflow.reporting import lineage
from tests.unit.ops.test_lineage_runs import FLOW, PARENT, Told, told  # noqa: F401 - a fixture

Answer = Callable[[Any], None]


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answer]:
    """Have the next question of the task answered, in the frames and over the kind of socket that Airflow uses."""
    task, theirs = socket.socketpair()
    with task, theirs:
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms.CommsDecoder(socket=task), raising=False)
        asked = iter(range(100))

        def answer(found: Any) -> None:
            said = {"error" if isinstance(found, comms.ErrorResponse) else "body": found.model_dump()}
            theirs.sendall(comms._ResponseFrame(id=next(asked), **said).as_bytes())

        yield answer


def close_left_open(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(lineage, "_teller", lambda _flow: told.teller)
    instance = SimpleNamespace(dag_id="orders", get_dagrun_state=task_runner.RuntimeTaskInstance.get_dagrun_state)
    lineage.close_left_open(FLOW, {"ti": instance, "run_id": "r9"})


def refused(status: int | None) -> comms.ErrorResponse:
    """An answer as WatchedSubprocess.handle_requests makes it of what the api-server says, None for nothing."""
    return comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": status, "message": "no"})


@pytest.mark.parametrize(
    "unknown",
    [refused(503), refused(500), refused(None), comms.ErrorResponse(error=ErrorType.GENERIC_ERROR)],
    ids=["503", "500", "no answer", "no detail"],
)
def test_an_api_server_that_does_not_tell_ends_no_window(
    told: Told,  # noqa: F811
    supervisor: Answer,
    monkeypatch: pytest.MonkeyPatch,
    unknown: comms.ErrorResponse,
) -> None:
    told.teller.started("r1", 0, PARENT)
    supervisor(unknown)
    close_left_open(told, monkeypatch)
    assert told.kinds == ["START"]
    told.teller.ended("r1", 0, "COMPLETE")
    assert told.kinds == ["START", "COMPLETE"]


def test_the_window_of_a_run_that_was_deleted_is_aborted(
    told: Told,  # noqa: F811
    supervisor: Answer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told.teller.started("r1", 0, PARENT)
    supervisor(refused(404))
    close_left_open(told, monkeypatch)
    assert told.kinds == ["START", "ABORT"]


@pytest.mark.parametrize(("state", "kinds"), [("running", ["START"]), ("failed", ["START", "FAIL"])])
def test_the_window_of_a_run_that_is_there_ends_as_the_run_has(
    told: Told,  # noqa: F811
    supervisor: Answer,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    kinds: list[str],
) -> None:
    told.teller.started("r1", 0, PARENT)
    supervisor(comms.DagRunStateResult(state=state))
    close_left_open(told, monkeypatch)
    assert told.kinds == kinds
