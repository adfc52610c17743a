"""A proxy in front of a search server that answers chosen bulk requests otherwise: what cannot be provoked at will."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def proxy(connection, on_bulk):
    """Pass requests on to the server; `on_bulk(items, forward)` answers those to _bulk with (status, answer or None).

    None as the answer cuts the connection.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self, body):
            upstream = HTTPConnection(connection.host, connection.port)
            upstream.request(self.command, self.path, body, {"content-type": self.headers["content-type"] or ""})
            answer = upstream.getresponse()
            text = answer.read()
            upstream.close()
            return answer.status, text

        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path.startswith("/_bulk"):
                items = bulk_items(body)
                status, parsed = on_bulk(items, lambda some: parse(self.forward(b"".join(some))))
                if parsed is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                text = json.dumps(parsed).encode()
            else:
                status, text = self.forward(body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_HEAD = answer  # noqa: N815 - names of the standard library

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield connection.model_copy(update={"host": "127.0.0.1", "port": server.server_address[1]})
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parse(answer):
    return answer[0], json.loads(answer[1])


def bulk_items(body):
    lines = body.splitlines(keepends=True)
    items = []
    while lines:
        take = 1 if b'{"delete"' in lines[0] else 2
        items.append(b"".join(lines[:take]))
        del lines[:take]
    return items
