"""`databus sandbox`: real servers on this machine, without containers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from databus.cli.terminal.options import Output, sandbox_home
from databus.cli.terminal.output import ERR, OUT, Format, show_rows
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.accounts import logins
from databus.sandbox.state import homes_below
from databus.sandbox.status import ServerState, ServerStatus
from databus.sandbox.terminal_progress import drawn

app = typer.Typer(help="Start and stop real servers on this machine, without docker.", no_args_is_help=True)

DEFAULT = ("zookeeper", "kafka", "mysql", "opensearch", "spark", "airflow")

Home = Annotated[
    Path | None,
    typer.Option(
        "--home", help="Folder of the sandbox: data and logs.", envvar="DATABUS_SANDBOX", show_default="./.sandbox"
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Names of servers, e.g. kafka mysql.",
        metavar="SERVER",
        show_default="up: zookeeper kafka mysql opensearch spark airflow; down: all that run",
    ),
]
Name = Annotated[str, typer.Argument(help="Name of a server, e.g. kafka.", metavar="SERVER")]
_COLUMNS = ("name", "state", "pid", "host", "port", "credentials", "data_folder")


@app.command()
def up(
    names: Names = None,
    home: Home = None,
    ports_from: Annotated[
        int | None,
        typer.Option("--ports-from", help="Take free ports from this number on.", min=1024, show_default="any free"),
    ] = None,
    dags: Annotated[
        Path | None, typer.Option("--dags", help="DAG folder that Airflow reads.", show_default="./dags")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Start servers, and wait until each is healthy.

    What must be downloaded is cached.
    """
    options = SandboxOptions(dags_folder=(dags or Path("dags")).absolute(), plugins_folder=Path("plugins").absolute())
    sandbox = Sandbox(sandbox_home(home), ports_from, options)
    with drawn(ERR) as progress:
        started = sandbox.up(names or DEFAULT, progress)
    show_rows([s.as_dict() for s in started], _COLUMNS, output)
    _say_logins(started)


@app.command()
def down(names: Names = None, home: Home = None) -> None:
    """Stop servers of this sandbox; their data is kept."""
    with drawn(ERR) as progress:
        Sandbox(sandbox_home(home)).down(names or None, progress)


@app.command()
def status(home: Home = None, output: Output = Format.TABLE) -> None:
    """Show servers, ports and logins, also of sandboxes below this home."""
    root = sandbox_home(home)
    homes = [root, *(found for found in homes_below(root) if home is None)]
    servers = [(found, status) for found in homes for status in Sandbox(found).status()]
    rows = [{**status.as_dict(), "home": str(found)} for found, status in servers]
    below = any(found != root for found, _ in servers)
    show_rows(rows, (*(("home",) if below else ()), *_COLUMNS), output, empty="no servers: databus sandbox up")
    _say_logins(status for _, status in servers)
    if below:
        ERR.print("Servers of another home are meant with --home.", style="dim")


def _say_logins(servers: Iterable[ServerStatus]) -> None:
    for server in servers:
        for account in logins(server.name) if server.state is not ServerState.STOPPED else ():
            ERR.print(f"{server.name}: {account.login()} ({account.purpose})", markup=False, highlight=False)


@app.command()
def logs(
    name: Name,
    lines: Annotated[int, typer.Option("--lines", "-n", help="Number of lines.", min=1)] = 50,
    home: Home = None,
) -> None:
    """Print the end of a server's log."""
    OUT.print(Sandbox(sandbox_home(home)).logs(name, lines), markup=False, soft_wrap=True)


@app.command()
def restart(name: Name, home: Home = None) -> None:
    """Restart one server; its data and port are kept."""
    with drawn(ERR) as progress:
        Sandbox(sandbox_home(home)).restart(name, progress=progress)


@app.command()
def env(home: Home = None) -> None:
    """Print its connections as shell variables.

    They point `databus run` and Airflow at the sandbox: eval "$(databus sandbox env)".
    """
    from databus.sandbox.connections import databus_environment

    root = sandbox_home(home)
    for name, value in databus_environment(Sandbox(root).status(), root).items():
        OUT.print(f"export {name}='{value}'", markup=False, soft_wrap=True)
