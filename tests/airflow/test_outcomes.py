"""What a task's end means to Airflow: retry, fail, and a cancel that may take a few seconds and no more."""

from __future__ import annotations

import signal
import time

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from databus.airflow.operators import transfer
from databus.airflow.operators.task import airflow_outcome
from databus.airflow.operators.transfer import DrainDeadline, DrainDeadlineError
from databus.core.errors import ConfigError, FlowPausedError, SinkUnavailableError


def test_what_a_retry_can_mend_is_retried() -> None:
    with pytest.raises(AirflowException, match="no broker") as raised, airflow_outcome():
        raise SinkUnavailableError("no broker")
    assert not isinstance(raised.value, AirflowFailException)


def test_what_only_a_person_can_mend_fails_at_once() -> None:
    with pytest.raises(AirflowFailException, match="no such topic"), airflow_outcome():
        raise ConfigError("no such topic", hint="Create it.")


def test_a_paused_flow_is_skipped_and_says_who_paused_it() -> None:
    with pytest.raises(AirflowSkipException, match="paused by ada"), airflow_outcome():
        raise FlowPausedError("flow orders is paused by ada since noon: maintenance")


def test_an_unexpected_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), airflow_outcome():
        _ = 1 / 0


def test_a_long_batch_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "GRACE_S", 0.05)
    former = signal.getsignal(signal.SIGALRM)
    deadline = DrainDeadline()
    try:
        with pytest.raises(DrainDeadlineError) as given_up:
            _cancelled_for(30, deadline)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert given_up.value.retryable


def _cancelled_for(seconds: float, deadline: DrainDeadline) -> None:
    with deadline:
        deadline.start()
        time.sleep(seconds)


def test_outside_the_block_there_is_nothing_to_give_up() -> None:
    former = signal.getsignal(signal.SIGALRM)
    deadline = DrainDeadline()
    deadline.start()
    assert signal.getsignal(signal.SIGALRM) is former


def test_the_log_of_a_task_leads_to_the_entry_of_its_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AirflowFailException), airflow_outcome():
        raise ConfigError("no such topic")
    assert caplog.messages == [
        "[config_invalid] no such topic\nmore: databus explain config_invalid (docs/reference/errors.md#config_invalid)"
    ]
