"""Ports of the servers: fixed defaults, or free ones counted up from a number."""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection, Mapping

from databus.core.errors.config import SandboxError

LOOPBACK = "127.0.0.1"
_LAST_PORT = 65_535


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether `port` can be bound on `host` now (a socket in TIME_WAIT does not count as taken)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def default_ports(server: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """The default ports of a server, if all of them are free.

    Raises:
        SandboxError: another program listens on one of them.
    """
    for purpose, port in wanted.items():
        if not is_free(port):
            raise SandboxError(
                f"{server}: port {port} ({purpose}) on {LOOPBACK} is taken by another program",
                hint="Stop that program, or let the sandbox choose free ports with --ports-from 20000.",
                code="sandbox_port_taken",
            )
    return dict(wanted)


def free_ports(wanted: Mapping[str, int], first: int, taken: Collection[int]) -> dict[str, int]:
    """Return a free port per purpose, counted up from `first`, leaving out `taken`.

    Raises:
        SandboxError: the numbers ran out.
    """
    chosen: dict[str, int] = {}
    port = first
    for purpose in wanted:
        while port <= _LAST_PORT and (port in taken or not is_free(port)):
            port += 1
        if port > _LAST_PORT:
            raise SandboxError(f"no free port from {first} on", hint="Start from a lower number with --ports-from.")
        chosen[purpose] = port
        port += 1
    return chosen
