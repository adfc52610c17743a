"""Real receivers of alerts: an SMTP server and an HTTP server on this machine, that can also refuse."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mailbox:
    """What an SMTP server took.

    Attributes:
        port: of the server on 127.0.0.1.
        mails: taken, oldest first.
        logins: AUTH PLAIN arguments seen.
        recipients: of each mail, without those refused.
        refuse: an answer to RCPT, e.g. "451 later", while it is set.
        refuse_only: what an address has to hold to be refused.
        farewell: the answer to QUIT.
    """

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    refuse: str = ""
    refuse_only: str = ""
    farewell: str = "221 bye"


@contextlib.contextmanager
def smtp_sink() -> Iterator[Mailbox]:
    """Run an SMTP server (RFC 5321, with AUTH PLAIN) while the block runs."""
    box = Mailbox()

    class Session(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            recipients: list[str] = []
            self.say("220 sink")
            while line := self.rfile.readline().decode().strip():
                verb, _, rest = line.partition(" ")
                match verb.upper():
                    case "EHLO":
                        self.say("250-sink")
                        self.say("250 AUTH PLAIN")
                    case "AUTH":
                        box.logins.append(rest)
                        self.say("235 ok")
                    case "RCPT":
                        refused = box.refuse if box.refuse_only in rest else ""
                        recipients += [] if refused else [rest]
                        self.say(refused or "250 ok")
                    case "DATA":
                        self.say("354 go on")
                        self.take(recipients)
                    case "QUIT":
                        self.say(box.farewell)
                        return
                    case _:
                        self.say("250 ok")

        def take(self, recipients: list[str]) -> None:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line[1:] if line.startswith(b"..") else line)
            box.mails.append(message_from_bytes(b"".join(lines), policy=policy.default))
            box.recipients.append(list(recipients))
            self.say("250 taken")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        box.port = server.server_address[1]
        with _serving(server):
            yield box


@dataclass
class Posted:
    """One request."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Hooks:
    """What an HTTP server was sent.

    Attributes:
        port: of the server on 127.0.0.1.
        requests: oldest first.
        asked: paths of GET requests, all of which are answered by a page.
        status: what it answers.
        location: where an answer redirects to.
    """

    port: int = 0
    requests: list[Posted] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    status: int = 200
    location: str = ""


@contextlib.contextmanager
def http_receiver() -> Iterator[Hooks]:
    """Run an HTTP server while the block runs."""
    hooks = Hooks()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hooks.requests.append(Posted(self.path, dict(self.headers), body))
            self.send_response(hooks.status)
            if hooks.location:
                self.send_header("Location", hooks.location)
            self.end_headers()
            self.wfile.write(b"said so")

        def do_GET(self) -> None:
            hooks.asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>log in</html>")

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hooks.port = server.server_address[1]
        with _serving(server):
            yield hooks


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Run a server that answers each request with these bytes and closes, while the block runs; yield its port."""

    class Once(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while line := self.rfile.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            self.rfile.read(length)
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Once) as server, _serving(server):
        yield int(server.server_address[1])


@contextlib.contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
