"""Python workers of a Spark Connect server: one set for all of its sessions.

A Connect session has Python workers of its own as long as `spark.sql.artifact.isolation.enabled` holds for it: some two
CPU seconds and 300 MB for each flow that begins to move rows. `SparkConnectServer` turns the setting on whatever it was
started with, and a session's own setting comes too late: the request that sets it has used the old one. A session that
is cloned from one in which it is off has it off from its beginning.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterable
from typing import Any

log = logging.getLogger(__name__)

_ISOLATION = "spark.sql.artifact.isolation.enabled"


class WorkerSharing:
    """Makes sessions of one server that share its Python workers.

    It works with clients alone: a `SparkSession` that the garbage collector meets later closes its client from wherever
    the program then stands, for ever if that is inside the pool of threads which the client waits for.

    Args:
        models: Connect URLs of the session that others are cloned from, in the order they are tried: the server takes
            no id again whose session it has closed (idle time-out). They carry the user id that the sessions have.
    """

    def __init__(self, models: Iterable[str]):
        self._models = iter(models)
        self._model: Any = None

    def make(self, session_id: str) -> bool:
        """Make the session unless it is there; it has workers of its own where the server cannot do better.

        Args:
            session_id: UUID of the session to be.

        Returns:
            Whether the id can be used: False when the server has closed a session of that id.

        Raises:
            SparkConnectException: the server does not answer.
        """
        import grpc

        self._model = self._model or self._opened()
        if self._model is None:
            return True
        try:
            unheld(self._model.clone(session_id)).close()
        except grpc.RpcError as error:
            told = str(error)
            # A server older than 4.1 cannot clone. Whatever else it is, whoever opens the session finds out.
            known = "TARGET_SESSION_ID_ALREADY" in told or error.code() == grpc.StatusCode.UNIMPLEMENTED
            log.log(logging.DEBUG if known else logging.WARNING, "session %s is not cloned: %s", session_id, told)
            return "TARGET_SESSION_ID_ALREADY_CLOSED" not in told
        return True

    def close(self) -> None:
        """Leave the server; its sessions stay."""
        if self._model is not None:
            self._model.close()
            self._model = None

    def _opened(self) -> Any:
        from pyspark.errors.exceptions.connect import SparkConnectException
        from pyspark.sql.connect.client.core import SparkConnectClient
        from pyspark.sql.connect.conf import RuntimeConf

        for url in self._models:
            model = unheld(SparkConnectClient(connection=url))
            model.set_retry_policies(retry_policies())
            try:
                RuntimeConf(model).set(_ISOLATION, "false")
            except SparkConnectException as error:
                model.close()
                if "INVALID_HANDLE" not in str(error):
                    raise
            else:
                return model
        return None


def unheld(client: Any) -> Any:
    """Return a Connect client without what holds it until the interpreter ends.

    Each asks its server then to clear what it has of ML models, which are never used here: one after the other, and for
    15 seconds each where the server has gone before.
    """
    clears = getattr(client, "_cleanup_ml_cache", None)
    if clears is not None:
        atexit.unregister(clears)
    return client


def retry_policies() -> list[Any]:
    """Return how a client tries again: for seconds.

    Its own policy does for ten minutes, also in threads that the interpreter joins at its exit.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return [DefaultPolicy(max_retries=6, max_backoff=2000)]
