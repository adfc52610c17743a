"""Local proxies' base: a local port, a link to the server per client, and ways to cut all of them."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

Loop = Callable[[], None]
"""Passes on what comes from one end until that ends; OSError and EOFError end it too."""


class ProxiedConnection:
    """Proxied connection of one client and the one to the server behind it; closed once both directions have ended."""

    def __init__(self, client: socket.socket, server: socket.socket, ended: Callable[[ProxiedConnection], None]):
        self.client, self.server = client, server
        self._ended = ended
        self._lock = threading.Lock()
        self._running = 2

    def start(self, name: str, loops: tuple[Loop, Loop]) -> None:
        """Run the loops of the two directions in threads."""
        for loop in loops:
            threading.Thread(target=self._run, args=(loop,), name=name, daemon=True).start()

    def cut(self) -> None:
        """End both connections."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self, loop: Loop) -> None:
        with suppress(OSError, EOFError):
            loop()
        self.cut()
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if last:
            self.client.close()
            self.server.close()
            self._ended(self)


class LocalProxy(ABC):
    """Listens on a local port and forwards to one server; use it as a context manager.

    Attributes:
        port: where it listens.
    """

    name = "proxy"

    def __init__(self, host: str, port: int, listen: int = 0):
        """Start to listen.

        Args:
            host: the server's host.
            port: its port.
            listen: local port; 0 for a free one.
        """
        self._target = (host, port)
        self._lock = threading.Lock()
        self._down = False
        self._links: set[ProxiedConnection] = set()
        self._listener = socket.create_server(("127.0.0.1", listen))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name=self.name, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def loops(self, link: ProxiedConnection) -> tuple[Loop, Loop]:
        """Return what passes on from client to server, and from server to client."""

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def go_down(self) -> None:
        """End all connections and refuse new ones."""
        with self._lock:
            self._down = True
        self.cut()

    def come_back(self) -> None:
        """Accept connections again."""
        with self._lock:
            self._down = False

    def close(self) -> None:
        """End everything and stop to listen."""
        self.go_down()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _forget(self, link: ProxiedConnection) -> None:
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            with self._lock:
                down = self._down
            if down:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = ProxiedConnection(client, server, self._forget)
            with self._lock:
                self._links.add(link)
                down = self._down
            link.start(f"{self.name}-link", self.loops(link))
            if down:
                link.cut()
