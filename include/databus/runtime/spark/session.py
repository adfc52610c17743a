"""Spark sessions: a warm Connect server, or a classic session of this process."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from databus.core.errors.root import DatabusError
from databus.core.packages import require, require_one_version
from databus.runtime.spark.errors import grpc_details
from databus.runtime.spark.shared_workers import WorkerSharing, retry_policies, unheld

log = logging.getLogger(__name__)

_NAMESPACE = uuid.UUID("6f3bd0f5-9f0e-5a8f-a3b5-3a5a4f0f4f1e")
_GENERATIONS = 1_100
"""More than a server remembers closed sessions (spark.connect.session.manager.closedSessionsTombstonesSize, 1,000)."""
_MODEL = "databus/model of sessions that share workers"

SESSION_CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Spark's own defaults, said here so that a condition means the same in both lanes, whatever a cluster is set to.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    # Not its default: with it the text "${x}" is replaced before it is read, by a setting or by nothing.
    "spark.sql.variable.substitute": "false",
    # It replaces a shuffle without rows by nothing, and with it what `observe` counted before the filter: a batch whose
    # rows are all held back or filtered would count as not read.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
}
"""Settings of every session; the rest of the engine's settings belong to whoever runs the cluster."""


class EngineError(DatabusError):
    """The Spark server cannot be reached."""

    code = "engine_unavailable"
    retryable = True


def connect_session(url: str, identity: str) -> Any:
    """Return a session on a Spark Connect server, the same server-side session for the same identity.

    A session id that is fixed per flow lets a new run find and interrupt what a killed run left behind. An id whose
    session the server has closed (idle time-out) cannot be reopened, so the next generation of the id is taken.

    Args:
        url: Connect URL, e.g. sc://host:15002/;user_id=x.
        identity: what the session belongs to, e.g. "installation/flow".

    Raises:
        EngineError: the server does not answer.
        PackageMissingError: pyspark is not installed here.
        PackageVersionError: pyspark and pyspark-client differ.
    """
    # pyspark.sql.functions build Connect columns only when this says so; the public builder sets it the same way.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    require(("spark",), f"a session on {_address(url)}")
    require_one_version("pyspark", "pyspark-client")
    from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException
    from pyspark.sql.connect.session import SparkSession

    sharing = WorkerSharing(_with_session(url, session_id) for session_id in _generations(_MODEL))
    try:
        for session_id in _generations(identity):
            try:
                if not sharing.make(session_id):
                    continue
                session = SparkSession.builder.remote(_with_session(url, session_id)).create()
                # What builds columns asks the thread's active session for settings; pyspark leaves an earlier one,
                # which its server may have closed.
                SparkSession._active_session.session = session  # noqa: SLF001
                unheld(session.client).set_retry_policies(retry_policies())
                session.conf._set_all(dict(SESSION_CONF), silent=False)  # noqa: SLF001 - by one request, not one for each
            except SparkConnectException as error:
                if "INVALID_HANDLE" in str(error):  # closed, on a server that cannot clone
                    continue
                if isinstance(error, SparkConnectGrpcException) or "UNAVAILABLE" in str(error):
                    raise _unreachable(url, error) from error
                raise
            return session
    finally:
        sharing.close()
    raise EngineError(f"{_GENERATIONS} sessions of {identity} were closed by {_address(url)}", retryable=False)


def classic_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> Any:
    """Return the classic session of this process, started if there is none.

    Python workers run by the interpreter of this process, unless PYSPARK_PYTHON or the settings name another: Spark
    would take the first `python3` of the PATH, which has databus only in an activated environment.

    Args:
        master: Spark master URL; None leaves it to spark-submit.
        conf: further settings.

    Raises:
        PackageMissingError: pyspark is not installed here.
    """
    require(("spark",), "a Spark session")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("databus")
    if master is not None:
        builder = builder.master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.python.daemon.module": "databus.runtime.spark.worker_daemon",
        **SESSION_CONF,
        **(conf or {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _generations(identity: str) -> Iterator[str]:
    return (str(uuid.uuid5(_NAMESPACE, f"{identity}/{generation}")) for generation in range(_GENERATIONS))


def _with_session(url: str, session_id: str) -> str:
    root = url if "/;" in url or url.endswith("/") else f"{url}/"
    return f"{root}{'' if root.endswith(';') else ';'}session_id={session_id}"


def _address(url: str) -> str:
    return url.partition(";")[0]


def _unreachable(url: str, error: Exception) -> EngineError:
    return EngineError(
        f"the Spark Connect server {_address(url)} does not answer: {grpc_details(str(error))}",
        hint="Start it, or correct the spark_connect connection's host and port.",
    )
