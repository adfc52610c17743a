"""Options and arguments that several commands share, each defined once."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from databus.cli.terminal.exits import OK, exit_code
from databus.cli.terminal.output import ERR, Format
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.config import ConnectionMissingError
from databus.core.errors.root import DatabusError
from databus.core.packages import lacking

if TYPE_CHECKING:
    from databus.core.flow import Flow
    from databus.ops.flows.discovery import BrokenFile
    from databus.runtime.context import Services

FlowName = Annotated[str, typer.Argument(help="Name of the flow, e.g. orders_to_kafka.", metavar="FLOW")]
OptionalFlow = Annotated[
    str | None, typer.Argument(help="Name of a flow.", metavar="FLOW", show_default="all flows of the DAG folder")
]
Dags = Annotated[
    Path | None,
    typer.Option(
        "--dags",
        help="Folder of the DAG files.",
        envvar="DATABUS_DAGS",
        show_default="$AIRFLOW__CORE__DAGS_FOLDER, else ./dags",
    ),
]
Output = Annotated[
    Format, typer.Option("--output", "-o", help="Format of what is printed: a table for people, else for programs.")
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Do it; without it, only a preview is printed and nothing changes.")
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", help='Why it is done, kept in the history; needed with --execute, e.g. "bad deploy of 3 May".'
    ),
]
Accept = Annotated[
    bool, typer.Option("--accept", help="Do it also where a sink would refuse it, or its markers have expired.")
]
Spark = Annotated[
    str, typer.Option("--spark", help="Spark master, or address of a Spark Connect server, e.g. sc://spark:15002.")
]


@dataclass(frozen=True)
class Shown:
    """Option group of a command on a flow: its DAG folder, and the output format."""

    dags: Dags = None
    output: Output = Format.TABLE


@dataclass(frozen=True)
class ChangeOptions:
    """Option group of a command that changes a flow's state: a preview, until --execute."""

    reason: Reason = ""
    execute: Execute = False


@dataclass(frozen=True)
class AmendmentOptions(ChangeOptions):
    """Option group of a change that a sink may refuse."""

    accept: Accept = False


def operator() -> str:
    """Return the operator as user@host."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def spark_session(address: str) -> Any:
    """Return a Spark session at an address: sc://… through Spark Connect, else a Spark master."""
    from databus.runtime.spark.session import classic_session, connect_session

    return connect_session(address, f"cli/{os.getpid()}") if address.startswith("sc://") else classic_session(address)


def connection_source() -> ConnectionSource:
    """Return the connections of the command line: a file, AIRFLOW_CONN_ variables, then a sandbox's servers."""
    from databus.connections.environment import ChainedConnections, EnvironmentConnections
    from databus.connections.file import FileConnections

    sources: list[ConnectionSource] = []
    if path := os.environ.get("DATABUS_CONNECTIONS"):
        sources.append(FileConnections(Path(path)))
    sources += [EnvironmentConnections(), *([] if path else [_NoFile()])]
    sources += [] if lacking("sandbox") else [_SandboxConnections()]
    return ChainedConnections(sources)


class _NoFile:
    """Connections of a file that is not named: of each id, how one is named."""

    def get(self, conn_id: str) -> Connection:
        """Raise ConnectionMissingError."""
        raise ConnectionMissingError(
            f"no connection {conn_id!r} in the environment", hint="Name a file of connections in DATABUS_CONNECTIONS."
        )


class _SandboxConnections:
    """Connections to a running sandbox, asked for ids that nothing else knows."""

    def get(self, conn_id: str) -> Connection:
        """Return the connection to a server of the sandbox; raises ConnectionMissingError."""
        from databus.connections.environment import EnvironmentConnections
        from databus.sandbox import Sandbox
        from databus.sandbox.connections import airflow_connections

        home = sandbox_home()
        servers = Sandbox(home).status()
        known = EnvironmentConnections(airflow_connections(servers))
        try:
            return known.get(conn_id)
        except ConnectionMissingError as error:
            if not any(server.processes for server in servers):  # none runs
                raise ConnectionMissingError(error.message, hint="") from None
            raise ConnectionMissingError(
                f"none in the sandbox at {home}",
                hint=f"The sandbox at {home} knows {', '.join(known.known())}; `databus sandbox up` starts servers.",
            ) from None


def sandbox_home(chosen: Path | None = None) -> Path:
    """Return the folder of the sandbox: the one named, $DATABUS_SANDBOX, else ./.sandbox."""
    return chosen or Path(os.environ.get("DATABUS_SANDBOX") or ".sandbox")


def tell_unreadable(broken: Iterable[BrokenFile]) -> None:
    """Name on stderr the DAG files that could not be read: their flows are missing from what is shown."""
    for item in broken:
        ERR.print(f"not readable: {item.error.message}", style="yellow", markup=False, soft_wrap=True)


def tell_causes(errors: Mapping[str, DatabusError]) -> int:
    """Print on stderr, cause by cause, why flows could not be read; return the exit code, OK for none.

    Args:
        errors: flow name → what stood in the way.
    """
    by_cause: dict[tuple[str, str], list[str]] = {}
    for flow, error in errors.items():
        by_cause.setdefault((error.message, error.hint), []).append(flow)
    for (message, hint), flows in by_cause.items():
        ERR.print(f"{', '.join(flows)}: {message}", style="red", markup=False, soft_wrap=True)
        if hint:
            ERR.print(f"  {hint}", markup=False, soft_wrap=True)
    return max(map(exit_code, errors.values()), default=OK)


@contextmanager
def opened(
    name: str, dags: Path | None, *, records: bool = True, places: Mapping[str, str | None] | None = None
) -> Iterator[tuple[Flow, Services]]:
    """Find a flow and connect to its checkpoint store and records; with records=False when they are first used.

    Args:
        name: of the flow.
        dags: folder of the DAG files.
        records: whether to connect to the records now.
        places: option → place of the flow's log given with it; refused before any server is asked.
    """
    from databus.ops.checkpoint.place_words import require_place
    from databus.ops.flows.discovery import find_flow
    from databus.ops.services import open_services

    flow = find_flow(name, dags, dags=False).flow
    for option, text in (places or {}).items():
        if text:
            require_place(flow, text, option)
    with open_services(flow, connection_source(), records=records) as services:
        yield flow, services
