"""Node requests over plain HTTP: exact bytes of an answer, and opensearch-py would take longer to load than to ask."""

from __future__ import annotations

import http.client
import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from databus.core.connections import Connection
from databus.sinks.elasticsearch.client import DEFAULT_TIMEOUT_S, addresses, no_answer, tls_files


class LongAnswerError(Exception):
    """The answer has more bytes than were asked for."""


class NodeRequests:
    """Asks the nodes of one connection; for one thread. Opening it does no I/O.

    Args:
        connection: read as `elasticsearch_client.connect` reads it.
    """

    def __init__(self, connection: Connection) -> None:
        self._conn = connection
        self._open: http.client.HTTPConnection | None = None
        self._headers = {"Content-Type": "application/json"}
        if connection.login:
            login = f"{connection.login}:{connection.password.get_secret_value()}"
            self._headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"

    def ask(self, path: str, body: str, place: str, most_bytes: int | None = None) -> tuple[int, bytes]:
        """Ask the node that answered last, else one after the other; a request may reach a server twice.

        Args:
            path: path and query.
            body: JSON to POST; "" for a GET.
            place: what is asked of whom, for messages.
            most_bytes: length of the longest answer that is read; None for any.

        Returns:
            HTTP status and body.

        Raises:
            SinkUnavailableError: no node answers.
            LongAnswerError: the answer is longer.
        """
        if self._open is not None:
            try:
                return self._asked(self._open, path, body, most_bytes)
            except (OSError, http.client.HTTPException):
                self.close()  # closed by the server since
        failed: Exception | None = None
        for node in addresses(self._conn):
            asked = self._client(node)
            try:
                answer = self._asked(asked, path, body, most_bytes)
            except (OSError, http.client.HTTPException) as error:
                asked.close()
                failed = error
                continue
            except LongAnswerError:
                asked.close()
                raise
            self._open = asked
            return answer
        assert failed is not None  # noqa: S101 - a connection has at least one node
        raise no_answer(place, type(failed).__name__, failed, refused_tls=isinstance(failed, ssl.SSLError)) from failed

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _asked(
        self, client: http.client.HTTPConnection, path: str, body: str, most_bytes: int | None
    ) -> tuple[int, bytes]:
        client.request("POST" if body else "GET", path, body.encode() or None, self._headers)
        answer = client.getresponse()
        if most_bytes is None:
            return answer.status, answer.read()
        text = answer.read(most_bytes + 1)
        if len(text) > most_bytes:
            self.close()  # the rest is on its way
            raise LongAnswerError
        answer.read()  # the end of the message
        return answer.status, text

    def _client(self, node: Mapping[str, Any]) -> http.client.HTTPConnection:
        extra = self._conn.extra
        timeout = float(extra.get("timeout_s", DEFAULT_TIMEOUT_S))
        if not node["use_ssl"]:
            return http.client.HTTPConnection(node["host"], node["port"], timeout=timeout)
        context = tls_files(self._conn).context(self._conn.conn_id)
        if not extra.get("ca_certs") and not os.environ.get("SSL_CERT_FILE"):
            import certifi  # what opensearch-py trusts as well

            context.load_verify_locations(certifi.where())
        named = extra.get("ssl_assert_hostname")
        if named is False:
            context.check_hostname = False
        return _NamedHost(node["host"], node["port"], timeout, context, named if isinstance(named, str) else None)


class _NamedHost(http.client.HTTPConnection):
    """HTTP over TLS with a server whose certificate may name another host than the one that is asked."""

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, named: str | None) -> None:
        super().__init__(host, port, timeout=timeout)
        self._context, self._named = context, named or host

    def connect(self) -> None:
        """Connect, and shake hands."""
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._named)
