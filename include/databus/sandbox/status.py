"""Sandbox status of its servers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from databus.sandbox.process import is_alive, is_paused
from databus.sandbox.servers.catalog import server_named
from databus.sandbox.state import StoredServer


class ServerState(StrEnum):
    """State of a server, from its processes; whether it is well is asked by `Sandbox.check`."""

    RUNNING = "running"
    PAUSED = "paused"
    DEGRADED = "degraded"
    """Some of its processes have ended."""
    DEAD = "dead"
    """All have ended, and nobody asked them to."""
    STOPPED = "stopped"


@dataclass(frozen=True)
class ServerStatus:
    """Server status, as a person or a program wants to see it.

    Attributes:
        name: name of the server.
        state: from its processes.
        pid: of its first live process; None when none lives.
        host: address that it listens on.
        port: the one that clients use.
        address: `host:port`, several for a cluster.
        ports: purpose → port.
        credentials: names of its accounts.
        data_folder: where its data is.
        log: output of its first process.
        processes: role → pid of those that live.
    """

    name: str
    state: ServerState
    pid: int | None
    host: str
    port: int
    address: str
    ports: dict[str, int]
    credentials: tuple[str, ...]
    data_folder: Path
    log: Path
    processes: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "name": self.name,
            "state": self.state.value,
            "pid": self.pid,
            "host": self.host,
            "port": self.port,
            "address": self.address,
            "ports": dict(self.ports),
            "credentials": list(self.credentials),
            "data_folder": str(self.data_folder),
            "log": str(self.log),
            "processes": dict(self.processes),
        }


def status_of(stored: StoredServer) -> ServerStatus:
    """Look at the processes of a stored server."""
    server = server_named(stored.name)
    living = {process.role: process.pid for process in stored.processes if is_alive(process.identity)}
    return ServerStatus(
        name=stored.name,
        state=_state_of(stored, len(living)),
        pid=next(iter(living.values()), None),
        host=stored.host,
        port=stored.ports[next(iter(server.default_ports))],
        address=server.address(stored.ports, stored.host),
        ports=dict(stored.ports),
        credentials=stored.credentials,
        data_folder=stored.data_folder,
        log=stored.processes[0].log if stored.processes else stored.folder / "log",
        processes=living,
    )


def _state_of(stored: StoredServer, living: int) -> ServerState:
    if any(is_paused(process.identity) for process in stored.processes):
        return ServerState.PAUSED
    if living:
        return ServerState.RUNNING if living == len(stored.processes) else ServerState.DEGRADED
    return ServerState.DEAD if stored.wanted == "up" else ServerState.STOPPED
