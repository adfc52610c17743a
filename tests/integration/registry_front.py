"""What stands before a registry in most places: TLS, and a login for every request; behind it the real one."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from databus.sandbox.certificates import KeyPair


@contextmanager
def secured_front(registry: str, pair: KeyPair, login: str, password: str, token: str = "") -> Iterator[int]:
    """Serve `host:port` of a registry under TLS to whom gives login and password, or the token; yield the port."""
    expected = ["Basic " + base64.b64encode(f"{login}:{password}".encode()).decode("ascii")]
    if token:
        expected.append(f"Bearer {token}")

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("authorization") not in expected:
                self.reply(401, b'{"error_code": 401, "message": "Unauthorized"}')
                return
            upstream = HTTPConnection(registry, timeout=60)
            try:
                kind = {"content-type": self.headers.get("content-type") or "application/json"}
                upstream.request(self.command, self.path, body, kind)
                found = upstream.getresponse()
                self.reply(found.status, found.read())
            finally:
                upstream.close()

        do_GET = do_POST = answer  # noqa: N815 - the names http.server calls

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that refuses the certificate ends the handshake: what a test here is about."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
