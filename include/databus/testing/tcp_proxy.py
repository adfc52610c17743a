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

from databus.testing.local_proxy import LocalProxy, Loop, ProxiedConnection


class TcpProxy(LocalProxy):
    """Listens on a local port and forwards to one server; use it as a context manager.

    Attributes:
        delay_s: each piece waits this long, in both directions.
        stopped: directions that pass nothing on, "to" the server and "from" it; connections stay open.
    """

    name = "tcp-proxy"

    def __init__(self, address: str, port: int = 0, *, kafka: bool = False):
        host, _, number = address.rpartition(":")
        self._rewrites: tuple[tuple[bytes, bytes], ...] = ()
        self.delay_s = 0.0
        self.stopped: frozenset[str] = frozenset()
        self._closing = threading.Event()
        self._broker = int(number) if kafka else 0
        super().__init__(host, int(number), port)

    def rewrite(self, ports: Mapping[int, int]) -> None:
        """Replace brokers' ports in Kafka's answers: port of a broker → port of its proxy. Before the first client."""
        self._rewrites = tuple(
            (b"127.0.0.1" + struct.pack(">i", theirs), b"127.0.0.1" + struct.pack(">i", ours))
            for theirs, ours in ports.items()
        )

    def heal(self) -> None:
        """Pass everything on again; what was held back is delivered late, as after a partition."""
        self.come_back()
        self.delay_s, self.stopped = 0.0, frozenset()

    def close(self) -> None:
        """Cut everything and stop to listen."""
        self._closing.set()
        super().close()

    def loops(self, link: ProxiedConnection) -> tuple[Loop, Loop]:
        """Return the two directions, each with what is to befall it."""
        if self._broker and not self._rewrites:
            self.rewrite({self._broker: self.port})
        asked = self.reader()
        return (
            lambda: self._pump(link.client, link.server, "to", asked),
            lambda: self._pump(link.server, link.client, "from", None),
        )

    def reader(self) -> Callable[[bytes], None] | None:
        """Return what gets all that one client sends, piece by piece; None for nobody."""
        return None

    def _pump(self, source: socket.socket, sink: socket.socket, way: str, told: Callable[[bytes], None] | None) -> None:
        rewrites = self._rewrites if way == "from" else ()
        waiting = b""
        while piece := source.recv(262_144):
            if told is not None:
                told(piece)
            if self.delay_s:
                time.sleep(self.delay_s)
            while way in self.stopped and not self._closing.is_set():
                time.sleep(0.01)
            if rewrites:
                piece, waiting = whole_frames(waiting + piece)
                for pair in rewrites:
                    piece = piece.replace(*pair)
            sink.sendall(piece)


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
        """Proxy addresses, comma-separated."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.members)

    def cut(self) -> None:
        """See TcpProxy.cut."""
        for proxy in self.members:
            proxy.cut()

    def go_down(self) -> None:
        """End all connections and refuse new ones, until `heal`."""
        for proxy in self.members:
            proxy.go_down()

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


def whole_frames(data: bytes) -> tuple[bytes, bytes]:
    """Cut behind the last whole request or answer: each begins with its length, an int32 (Kafka protocol guide)."""
    end = 0
    while len(data) >= end + 4:
        (length,) = struct.unpack_from(">i", data, end)
        if len(data) < end + 4 + length:
            break
        end += 4 + length
    return data[:end], data[end:]
