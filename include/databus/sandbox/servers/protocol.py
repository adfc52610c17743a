"""Server protocol of the sandbox: what a kind of server has to offer, and what it is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Protocol

from databus.core.errors.config import SandboxError
from databus.sandbox.connections import Endpoint
from databus.sandbox.ports import LOOPBACK
from databus.sandbox.process import Command
from databus.sandbox.progress import Progress, log_progress
from databus.sandbox.state import SandboxOptions
from databus.sandbox.versions import ServerVersions


@dataclass(frozen=True)
class Context:
    """Server context: its place in one sandbox.

    Attributes:
        name: name of the server.
        folder: its own folder: configuration, logs, data.
        data: where its data goes; outside `folder` only when the server's user cannot reach that.
        ports: purpose → TCP port on `host`.
        versions: of every server.
        options: choices of the user.
        progress: where it reports.
        others: the other servers that were ever started in the same sandbox.
        installation: the cached program, set after `install`.
        started_at: when the processes being waited for were started; None when nobody waits for a start.
    """

    name: str
    folder: Path
    data: Path
    ports: Mapping[str, int]
    versions: ServerVersions
    options: SandboxOptions = field(default_factory=SandboxOptions)
    progress: Progress = log_progress
    others: Mapping[str, Endpoint] = field(default_factory=dict)
    installation: Path = Path()
    started_at: datetime | None = None
    host: str = LOOPBACK

    @property
    def logs(self) -> Path:
        """Folder of its logs."""
        return self.folder / "log"

    def other(self, name: str, why: str) -> Endpoint:
        """Return another server of the same sandbox that this one needs.

        Args:
            name: name of the other one.
            why: what this one does with it, for the error: "writes to Kafka".

        Raises:
            SandboxError: it was not started here.
        """
        if name not in self.others:
            raise SandboxError(
                f"{self.name} {why}, which was not started here",
                hint=f"Start both: databus sandbox up {name} {self.name}",
            )
        return self.others[name]

    def installed_at(self, installation: Path) -> Context:
        """A copy that knows where the program is."""
        return replace(self, installation=installation)


class Server(Protocol):
    """A kind of server. Stateless: the same object serves every sandbox and may be called from several threads."""

    @property
    def name(self) -> str:
        """Name that users know it by."""
        ...

    @property
    def default_ports(self) -> Mapping[str, int]:
        """Purpose → default TCP port; the first is the one that clients use."""
        ...

    @property
    def after_others(self) -> bool:
        """Return whether it needs the addresses of the other servers, and so starts last and stops first."""
        ...

    @property
    def credentials(self) -> tuple[str, ...]:
        """Names of its accounts."""
        ...

    @property
    def ready_within_s(self) -> float:
        """Seconds after which a start counts as failed; generous, for busy machines."""
        ...

    @property
    def stops_within_s(self) -> float:
        """Seconds that it gets after SIGTERM before it is killed."""
        ...

    def data_folder(self, folder: Path) -> Path:
        """Return the data folder of a server whose own folder is `folder`."""
        ...

    def install(self, context: Context) -> Path:
        """Fetch the program unless it is cached; idempotent; may take minutes. Returns its folder."""
        ...

    def prepare(self, context: Context) -> None:
        """Write the configuration and make the data folder unless it is there; idempotent, keeps data."""
        ...

    def commands(self, context: Context) -> tuple[Command, ...]:
        """The processes to start, in order; no I/O."""
        ...

    def check_health(self, context: Context) -> None:
        """Ask the server itself, as a client would.

        Raises:
            NotHealthyError: it does not answer, or says that it is not ready; may be asked again.
        """
        ...

    def address(self, ports: Mapping[str, int], host: str) -> str:
        """`host:port` for clients; several separated by commas for a cluster."""
        ...


class NotHealthyError(Exception):
    """The server is not ready yet; the message says why."""


@dataclass(frozen=True)
class ServerDefaults:
    """Answers that most kinds share."""

    name: str
    default_ports: Mapping[str, int]
    after_others: bool = False
    credentials: tuple[str, ...] = ()
    ready_within_s: float = 180.0
    stops_within_s: float = 20.0

    def data_folder(self, folder: Path) -> Path:
        """`data` below its own folder."""
        return folder / "data"

    def address(self, ports: Mapping[str, int], host: str) -> str:
        """The port of the first purpose."""
        return f"{host}:{ports[next(iter(self.default_ports))]}"


def get_json(host: str, port: int, path: str, timeout_s: float = 5.0) -> Any:
    """GET a JSON document from a server of the sandbox; never through a proxy.

    Raises:
        NotHealthyError: no connection, a status other than 200, or no JSON.
    """
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise NotHealthyError(f"http://{host}:{port}{path}: {error}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise NotHealthyError(f"http://{host}:{port}{path} answers {response.status}")
    try:
        return json.loads(body)
    except ValueError:
        raise NotHealthyError(f"http://{host}:{port}{path} does not answer JSON") from None


def check_cluster(context: Context) -> None:
    """The cluster is green or yellow (`GET /_cluster/health`), and the node answers at its root as clients expect.

    Raises:
        NotHealthyError: it is not.
    """
    port = context.ports["http"]
    health = get_json(context.host, port, "/_cluster/health")
    status = health.get("status") if isinstance(health, dict) else None
    if status not in {"green", "yellow"}:
        raise NotHealthyError(f"the cluster's status is {status}")
    root = get_json(context.host, port, "/")
    if "version" not in root:
        raise NotHealthyError("the node does not name its version")
