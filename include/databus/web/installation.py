"""Installation that the API works on: flows by their DAG, connections, Spark, rights and Airflow's log of events.

Nothing here imports Airflow, which gives all of it: the API server runs no DAG file, so a flow comes as Airflow has
stored its DAG.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.ops.services import open_services
from databus.runtime.context import Services
from databus.web.problems import refused

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Requests of a process that may wait for servers at once: Airflow's own share its 40 threads."""

_free = threading.BoundedSemaphore(AT_ONCE)

Guard = Callable[..., Any]
"""A FastAPI dependency that refuses a request; finds the DAG in the path's `dag_id`."""


@dataclass(frozen=True)
class DagFlow:
    """Flow of a DAG.

    Attributes:
        flow: the flow, as its DAG runs it.
        spark_conn_id: the DAG's Spark Connect connection.
        file: the DAG's file, as Airflow names it; "" where that is not known.
    """

    flow: Flow
    spark_conn_id: str
    file: str = ""


@dataclass(frozen=True)
class Access:
    """Rights as Airflow's auth manager gives them, and who asks.

    Attributes:
        lists: refuses who may see no DAG at all; gives the ids of those that who asks may see.
        sees: refuses who may not see the DAG.
        values: refuses who may not see what its rows hold.
        audits: refuses who may not see who did what.
        changes: refuses who may not edit the DAG.
        who: gives the name of who asks.
        note: writes an event to Airflow's log: who, DAG, event, facts.
    """

    lists: Guard
    sees: Guard
    values: Guard
    audits: Guard
    changes: Guard
    who: Callable[..., str]
    note: Callable[[str, str, str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Installation:
    """Installation that the API works on.

    Attributes:
        flow_of: returns the flow of a DAG by the DAG's id; None where it is no flow's.
        connections: where connections are found.
        spark: returns a Spark session by the id of its connection and by what it is for.
        stored: returns the flows of several DAGs at once, or why one cannot be read; None asks `flow_of` one by one.
    """

    flow_of: Callable[[str], DagFlow | None]
    connections: ConnectionSource
    spark: Callable[[str, str], Any]
    stored: Callable[[Sequence[str]], Mapping[str, DagFlow | DatabusError]] | None = None

    def among(self, dag_ids: Sequence[str]) -> Mapping[str, DagFlow | DatabusError]:
        """Return DAG id → its flow, or why it cannot be read; DAGs that are no flow's are left out."""
        if self.stored is not None:
            return self.stored(dag_ids)
        found: dict[str, DagFlow | DatabusError] = {}
        for dag_id in dag_ids:
            try:
                of_dag = self.flow_of(dag_id)
            except Exception as error:  # noqa: BLE001 - one DAG takes no list of all of them away
                found[dag_id] = unreadable(dag_id, error)
            else:
                found |= {dag_id: of_dag} if of_dag is not None else {}
        return found

    def found(self, dag_id: str) -> DagFlow:
        """Return the flow of a DAG.

        Raises:
            ConfigError: the DAG is no flow's, or gone.
        """
        found = self.flow_of(dag_id)
        if found is None:
            raise ConfigError(
                f"DAG {dag_id!r} is no flow's, or is gone",
                hint="Name the DAG of a flow. After an upgrade of databus Airflow has to read its file once.",
                code="dag_no_flow",
            )
        return found

    @contextmanager
    def opened(self, dag_id: str, *, records: bool = False) -> Iterator[tuple[Flow, Services]]:
        """Open the checkpoint store of a DAG's flow, and the records with their first use.

        Raises:
            ConfigError: the DAG is no flow's.
            CheckpointUnavailableError: ZooKeeper does not answer.
            RequestRefusedError: so many requests wait for servers that Airflow's own would have to.
        """
        flow = self.found(dag_id).flow
        with waiting_for_servers(), open_services(flow, self.connections, records=records) as services:
            yield flow, services


def unreadable(dag_id: str, error: Exception) -> DatabusError:
    """Return why the flow of a DAG cannot be read; what another package raised, or a note of somebody's own, is logged.

    Args:
        dag_id: the DAG.
        error: as it was raised.
    """
    if isinstance(error, DatabusError):
        return error
    log.warning("DAG %s: its flow cannot be read", dag_id, exc_info=error)
    return ConfigError(
        f"DAG {dag_id}: its flow cannot be read: {type(error).__name__}",
        hint="The API server's log has the traceback: a package of one of its kinds may be broken there.",
    )


@contextmanager
def waiting_for_servers() -> Iterator[None]:
    """Take one of the places of requests that wait for servers.

    Raises:
        RequestRefusedError: all are taken.
    """
    if not _free.acquire(blocking=False):
        raise refused(503, f"{AT_ONCE} requests of flows' pages and of the API wait for servers", "Try again.")
    try:
        yield
    finally:
        _free.release()
