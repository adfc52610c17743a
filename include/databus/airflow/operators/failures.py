"""One mapping of our errors to Airflow's outcomes: retry what a retry can mend, fail the rest at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from databus.core.errors.checkpoint import FlowPausedError
from databus.core.errors.root import DatabusError

log = logging.getLogger(__name__)


@contextmanager
def airflow_outcome() -> Iterator[None]:
    """Turn a DatabusError into the exception that makes Airflow retry, fail or skip the task.

    Raises:
        AirflowSkipException: a person has paused the flow; the message says who, since when and why.
        AirflowException: a retry may help (`retryable`); the task goes up for retry.
        AirflowFailException: only a person can help; no retry is spent.
    """
    try:
        yield
    except FlowPausedError as error:
        log.warning("%s", error)
        raise AirflowSkipException(str(error)) from error
    except DatabusError as error:
        log.error("%s", error)
        if error.retryable:
            raise AirflowException(str(error)) from error
        raise AirflowFailException(str(error)) from error
