"""Task of an operator: its outcome by our errors, and the identity of its run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from databus import __version__
from databus.airflow.moved import AirflowException, AirflowFailException, AirflowSkipException
from databus.core.errors.checkpoint import FlowPausedError
from databus.core.errors.entries import told_with_more
from databus.core.errors.root import DatabusError

if TYPE_CHECKING:
    from databus.runtime.context import RunIdentity


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
        log.error("%s", told_with_more(error))
        if error.retryable:
            raise AirflowException(str(error)) from error
        raise AirflowFailException(str(error)) from error


def run_identity(context: Any) -> RunIdentity:
    """Return the identity of the DAG run of a task's context.

    Args:
        context: what Airflow hands to `execute`.
    """
    from databus.runtime.context import RunIdentity

    instance = context["ti"]
    address = str(getattr(instance, "log_url", "") or "").partition("/tasks/")[0]
    return RunIdentity(run_id=context["run_id"], run_url=address, code_version=__version__)
