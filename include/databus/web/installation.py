"""Installation that the API works on: flows by their DAG, connections, Spark, rights and Airflow's log of events.

Nothing here imports Airflow, which gives all of it: the API server runs no DAG file, so a flow comes as Airflow has
stored its DAG.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.ops.services import open_services
from databus.runtime.context import Services
from databus.web.problems import refused

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
    """

    flow: Flow
    spark_conn_id: str


@dataclass(frozen=True)
class Access:
    """Rights as Airflow's auth manager gives them, and who asks.

    Attributes:
        lists: refuses who may see no DAG at all.
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
    """

    flow_of: Callable[[str], DagFlow | None]
    connections: ConnectionSource
    spark: Callable[[str, str], Any]

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
        if not _free.acquire(blocking=False):
            raise refused(503, f"{AT_ONCE} requests of flows' pages and of the API wait for servers", "Try again.")
        try:
            with open_services(flow, self.connections, records=records) as services:
                yield flow, services
        finally:
            _free.release()
