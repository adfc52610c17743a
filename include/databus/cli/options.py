"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from databus.cli.output import Format
from databus.core.connections import ConnectionSource
from databus.core.flow import Flow
from databus.ops.discovery import find_flow
from databus.ops.services import open_services
from databus.runtime.context import Services

FlowName = Annotated[str, typer.Argument(help="Name of the flow.", metavar="FLOW")]
Dags = Annotated[
    Path | None, typer.Option("--dags", help="Folder of the DAG files.", envvar="DATABUS_DAGS", show_default="./dags")
]
Output = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]


def connection_source() -> ConnectionSource:
    """Return where the command line finds connections: a file, AIRFLOW_CONN_ variables, then a running sandbox."""
    from databus.connections.chain import ChainedConnections
    from databus.connections.environment import EnvironmentConnections
    from databus.connections.file import FileConnections
    from databus.sandbox import Sandbox
    from databus.sandbox.connections import airflow_connections

    sources: list[ConnectionSource] = []
    if path := os.environ.get("DATABUS_CONNECTIONS"):
        sources.append(FileConnections(Path(path)))
    sandbox = airflow_connections(Sandbox(sandbox_home()).status())
    sources += [EnvironmentConnections(), EnvironmentConnections(sandbox)]
    return ChainedConnections(sources)


def sandbox_home(chosen: Path | None = None) -> Path:
    """Return the folder of the sandbox: the one named, $DATABUS_SANDBOX, else ./.sandbox."""
    return chosen or Path(os.environ.get("DATABUS_SANDBOX") or ".sandbox")


@contextmanager
def opened(name: str, dags: Path | None) -> Iterator[tuple[Flow, Services]]:
    """Find a flow and connect to its checkpoint store and records."""
    flow = find_flow(name, dags).flow
    with open_services(flow, connection_source()) as services:
        yield flow, services
