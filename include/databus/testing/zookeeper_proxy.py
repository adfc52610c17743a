"""A TCP proxy in front of ZooKeeper that cuts or delays a chosen request, or goes away for a while.

It understands just enough of the protocol to tell requests apart: each frame is a length and a body, in both
directions; a request's body begins with xid and opcode, an answer's with the xid (zookeeper.jute: RequestHeader,
ReplyHeader).
"""

from __future__ import annotations

import enum
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

MULTI = 14
"""Opcode of an atomic write (ZooDefs.OpCode.multi)."""

_WORD = struct.Struct(">i")
_HEADER = struct.Struct(">ii")


class Fault(enum.Enum):
    """What befalls a request.

    Attributes:
        BEFORE: the connection is cut and the request never reaches the server.
        AFTER: the server has answered, and the connection is cut instead of passing the answer on.
        HOLD: the request is kept on the way until `let_go`, as by a long pause of its sender.
    """

    BEFORE = "before"
    AFTER = "after"
    HOLD = "hold"


@dataclass(frozen=True)
class _Armed:
    fault: Fault
    content: bytes
    stay_down: bool


class ZooKeeperProxy:
    """Listens on a free local port and forwards to one server; use it as a context manager."""

    def __init__(self, host: str, port: int):
        """Start to listen.

        Args:
            host: the server's host.
            port: its client port.
        """
        self._target = (host, port)
        self.target_port = port
        self._faults: list[_Armed] = []
        self._lock = threading.Lock()
        self._down = False
        self.held = threading.Event()
        self._go = threading.Event()
        self._links: set[_Link] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="zookeeper-proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fail_next(self, fault: Fault, content: str, *, stay_down: bool = False) -> None:
        """Let the next atomic write that contains `content` (a path, say) meet a fault; once per call, in order.

        Args:
            fault: what befalls it.
            content: text in the request.
            stay_down: refuse new connections from then on, until `come_back`.
        """
        with self._lock:
            self._faults.append(_Armed(fault, content.encode(), stay_down))

    @property
    def armed(self) -> int:
        """Number of faults that did not happen yet."""
        with self._lock:
            return len(self._faults)

    def go_down(self) -> None:
        """Cut all connections and refuse new ones."""
        with self._lock:
            self._down = True
            links = list(self._links)
        for link in links:
            link.cut()

    def come_back(self) -> None:
        """Accept connections again."""
        with self._lock:
            self._down = False

    def close(self) -> None:
        """Cut everything and stop to listen."""
        self.go_down()
        self.let_go()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def let_go(self) -> None:
        """Send a held request on. `held` is set once one is held."""
        self._go.set()

    def hold(self) -> None:
        """Keep the calling link until `let_go`."""
        self.held.set()
        self._go.wait()

    def fault_for(self, body: bytes) -> Fault | None:
        """Take the first fault if it is meant for this request."""
        with self._lock:
            if not self._faults or self._faults[0].content not in body:
                return None
            armed = self._faults.pop(0)
            self._down = self._down or armed.stay_down
            return armed.fault

    def forget(self, link: _Link) -> None:
        """Drop a link that has ended."""
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
            server.settimeout(None)
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
                down = self._down
            link.start()
            if down:
                link.cut()


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, proxy: ZooKeeperProxy, client: socket.socket, server: socket.socket):
        self._proxy = proxy
        self._client = client
        self._server = server
        self._cut_at_answer: int | None = None
        self._lock = threading.Lock()
        self._running = 2

    def start(self) -> None:
        for target in (self._requests, self._answers):
            threading.Thread(target=self._run, args=(target,), name="zookeeper-proxy-link", daemon=True).start()

    def cut(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self, loop: Callable[[], None]) -> None:
        with suppress(OSError, EOFError):
            loop()
        self.cut()
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if last:
            self._client.close()
            self._server.close()
            self._proxy.forget(self)

    def _requests(self) -> None:
        greeting = _frame(self._client)
        self._server.sendall(greeting)
        while True:
            frame = _frame(self._client)
            xid, opcode = _HEADER.unpack_from(frame, 4)
            fault = self._proxy.fault_for(frame) if opcode == MULTI else None
            if fault is Fault.BEFORE:
                return
            if fault is Fault.HOLD:
                self._proxy.hold()
            if fault is Fault.AFTER:
                self._cut_at_answer = xid
            self._server.sendall(frame)

    def _answers(self) -> None:
        greeting = _frame(self._server)
        self._client.sendall(greeting)
        while True:
            frame = _frame(self._server)
            if self._cut_at_answer is not None and _WORD.unpack_from(frame, 4)[0] == self._cut_at_answer:
                return
            self._client.sendall(frame)


def _frame(source: socket.socket) -> bytes:
    """Read one frame with its length."""
    head = _exactly(source, 4)
    return head + _exactly(source, _WORD.unpack(head)[0])


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = source.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
