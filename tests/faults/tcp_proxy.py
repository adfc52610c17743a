"""A TCP proxy whose traffic can be delayed, cut, or stopped in one direction; in front of Kafka it rewrites addresses.

Brokers name themselves in their answers (Metadata, FindCoordinator: host as text, then port as int32, Kafka protocol
guide), so a client would go round the proxy after its first question: the port behind the host is replaced by the
proxy's own, which has the same length.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self


class TcpProxy:
    """Listens on a local port and forwards to one server; use it as a context manager.

    Attributes:
        port: where it listens.
        delay_s: each piece waits this long, in both directions.
        stopped: directions that pass nothing on, "to" the server and "from" it; connections stay open.
    """

    def __init__(self, address: str, port: int = 0, *, kafka: bool = False):
        host, _, number = address.rpartition(":")
        self._target = (host, int(number))
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._rewrites: tuple[tuple[bytes, bytes], ...] = ()
        if kafka:
            self.rewrite({int(number): self.port})
        self.delay_s = 0.0
        self.stopped: frozenset[str] = frozenset()
        self._down = False
        self._lock = threading.Lock()
        self._links: set[tuple[socket.socket, socket.socket]] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="tcp-proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def rewrite(self, ports: Mapping[int, int]) -> None:
        """Replace brokers' ports in Kafka's answers: port of a broker → port of its proxy. Before the first client."""
        self._rewrites = tuple(
            (b"127.0.0.1" + struct.pack(">i", theirs), b"127.0.0.1" + struct.pack(">i", ours))
            for theirs, ours in ports.items()
        )

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        with self._lock:
            links = list(self._links)
        for link in links:
            for end in link:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def go_down(self) -> None:
        """End all connections and refuse new ones."""
        self._down = True
        self.cut()

    def heal(self) -> None:
        """Pass everything on again; what was held back is delivered late, as after a partition."""
        self._down, self.delay_s, self.stopped = False, 0.0, frozenset()

    def close(self) -> None:
        """Cut everything and stop to listen."""
        self._closing.set()
        self.go_down()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            if self._down:
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
            link = (client, server)
            left = threading.Semaphore(1)
            with self._lock:
                self._links.add(link)

            def ended(link: tuple[socket.socket, socket.socket] = link, left: threading.Semaphore = left) -> None:
                for end in link:
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                if not left.acquire(blocking=False):  # the second of the two directions
                    for end in link:
                        end.close()
                    with self._lock:
                        self._links.discard(link)

            for source, sink, way in ((client, server, "to"), (server, client, "from")):
                threading.Thread(
                    target=self._pump, args=(source, sink, way, ended), name="tcp-proxy-link", daemon=True
                ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: str, ended: Callable[[], None]) -> None:
        rewrites = self._rewrites if way == "from" else ()
        waiting = b""
        with suppress(OSError):
            while piece := source.recv(262_144):
                if self.delay_s:
                    time.sleep(self.delay_s)
                while way in self.stopped and not self._closing.is_set():
                    time.sleep(0.01)
                if rewrites:
                    piece, waiting = _whole_frames(waiting + piece)
                    for pair in rewrites:
                        piece = piece.replace(*pair)
                sink.sendall(piece)
        ended()


class ProxyGroup:
    """A proxy in front of each member of one server; what is done to the group befalls them all.

    Attributes:
        members: in the order of the addresses.
    """

    def __init__(self, addresses: str, *, kafka: bool = False):
        targets = addresses.split(",")
        self.members = tuple(TcpProxy(target) for target in targets)
        if kafka:
            ports = {
                int(target.rpartition(":")[2]): proxy.port for target, proxy in zip(targets, self.members, strict=True)
            }
            for proxy in self.members:
                proxy.rewrite(ports)

    @property
    def address(self) -> str:
        """Where the proxies listen, comma-separated."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.members)

    def cut(self) -> None:
        """See TcpProxy.cut."""
        for proxy in self.members:
            proxy.cut()

    def delay(self, seconds: float) -> None:
        """Let each piece wait so long."""
        for proxy in self.members:
            proxy.delay_s = seconds

    def stop(self, *ways: str) -> None:
        """Pass nothing on in these directions, "to" the server or "from" it."""
        for proxy in self.members:
            proxy.stopped = frozenset(ways)

    def heal(self) -> None:
        """See TcpProxy.heal."""
        for proxy in self.members:
            proxy.heal()

    def close(self) -> None:
        """Close all proxies."""
        for proxy in self.members:
            proxy.close()


def _whole_frames(data: bytes) -> tuple[bytes, bytes]:
    """Cut behind the last whole answer: each begins with its length, an int32 (Kafka protocol guide)."""
    end = 0
    while len(data) >= end + 4:
        (length,) = struct.unpack_from(">i", data, end)
        if len(data) < end + 4 + length:
            break
        end += 4 + length
    return data[:end], data[end:]
