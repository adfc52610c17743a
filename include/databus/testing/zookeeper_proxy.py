"""A TCP proxy in front of ZooKeeper that cuts or delays a chosen request, leaves a greeting unanswered, or goes away.

It understands just enough of the protocol to distinguish requests: each frame is a length and a body, in both
directions; a request's body begins with xid and opcode, an answer's with the xid (zookeeper.jute: RequestHeader,
ReplyHeader).
"""

from __future__ import annotations

import enum
import socket
import struct
import threading
from dataclasses import dataclass

from databus.testing.local_proxy import LocalProxy, Loop, ProxiedConnection

MULTI = 14
"""Opcode of an atomic write (ZooDefs.OpCode.multi)."""

_WORD = struct.Struct(">i")
_HEADER = struct.Struct(">ii")


class Fault(enum.Enum):
    """Fault that befalls a request.

    Attributes:
        BEFORE: the connection is cut and the request never reaches the server.
        AFTER: the server has answered, and the connection is cut instead of passing the answer on.
        HOLD: the request is kept on the way until `let_go`, as by a long pause of its sender.
    """

    BEFORE = "before"
    AFTER = "after"
    HOLD = "hold"


@dataclass(frozen=True)
class _ArmedFault:
    fault: Fault
    content: bytes
    stay_down: bool


class ZooKeeperProxy(LocalProxy):
    """Listens on a free local port and forwards to one server; use it as a context manager.

    Attributes:
        target_port: the server's client port.
        held: set once a request is held.
    """

    name = "zookeeper-proxy"

    def __init__(self, host: str, port: int):
        """Start to listen.

        Args:
            host: the server's host.
            port: its client port.
        """
        self.target_port = port
        self._faults: list[_ArmedFault] = []
        self._unanswered = 0
        self.held = threading.Event()
        self._go = threading.Event()
        super().__init__(host, port)

    def fail_next(self, fault: Fault, content: str, *, stay_down: bool = False) -> None:
        """Let the next atomic write that contains `content` (a path, say) meet a fault; once per call, in order.

        Args:
            fault: what befalls it.
            content: text in the request.
            stay_down: refuse new connections from then on, until `come_back`.
        """
        with self._lock:
            self._faults.append(_ArmedFault(fault, content.encode(), stay_down))

    def leave_unanswered(self, connections: int = 1) -> None:
        """Accept the next connections and never answer them, as a server does that is asked in mid-start."""
        with self._lock:
            self._unanswered += connections

    @property
    def armed(self) -> int:
        """Number of faults that did not happen yet."""
        with self._lock:
            return len(self._faults) + self._unanswered

    def takes_greeting(self) -> bool:
        """Return whether a new connection's greeting is passed on; counts it."""
        with self._lock:
            if not self._unanswered:
                return True
            self._unanswered -= 1
            return False

    def close(self) -> None:
        """Cut everything and stop to listen."""
        self.go_down()  # first: what is held must not be passed on
        self._go.set()
        super().close()

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

    def loops(self, link: ProxiedConnection) -> tuple[Loop, Loop]:
        """Return the two directions of a client's conversation."""
        conversation = _Conversation(self, link)
        return conversation.requests, conversation.answers


class _Conversation:
    """Conversation of one client and the server."""

    def __init__(self, proxy: ZooKeeperProxy, link: ProxiedConnection):
        self._proxy, self._client, self._server = proxy, link.client, link.server
        self._cut_at_answer: int | None = None

    def requests(self) -> None:
        greeting = _frame(self._client)
        if not self._proxy.takes_greeting():
            _frame(self._client)  # none comes: ends with the client's patience
            return
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

    def answers(self) -> None:
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
