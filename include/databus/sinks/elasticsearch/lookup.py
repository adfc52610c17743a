"""Reading documents over plain HTTP: opensearch-py would take longer to load than to answer, and rounds numbers."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from databus.core.connections import Connection
from databus.core.errors.sink import SinkError
from databus.sinks.elasticsearch.client import DEFAULT_TIMEOUT_S, addresses, no_answer, refused, tls_files, where


class DocumentLookup:
    """Asks the nodes of one connection; for one thread. Opening it does no I/O.

    Args:
        connection: read as `elasticsearch_client.connect` reads it.
    """

    def __init__(self, connection: Connection) -> None:
        self._where = where(connection)
        self._nodes = NodeRequests(connection)

    def get(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return id → what the server has of a document, of those that are there; in real time.

        Raises:
            SinkUnavailableError: no node answers.
            SinkAccessError, SinkSettingError, SinkError: the server refuses.
        """
        if not ids:
            return {}
        one = len(ids) == 1
        path = f"/{quote(index, safe='')}/" + (f"_doc/{quote(ids[0], safe='')}" if one else "_mget")
        place = f"{self._where}: reading {index}/{ids[0] if one else f'{len(ids)} documents'}"
        status, answer = self._ask(path, "" if one else json.dumps({"ids": list(ids)}), place)
        if status == 404:
            return {}
        if status != 200:
            raise refused(place, status, answer)
        found = {}
        for told in [answer] if one else answer["docs"]:
            if "error" in told and "index_not_found" not in json.dumps(told["error"]):
                raise refused(place, status, told)
            if told.get("found"):
                found[str(told["_id"])] = told
        return found

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._nodes.close()

    def _ask(self, path: str, body: str, place: str) -> tuple[int, Any]:
        status, text = self._nodes.ask(path, body, place)
        try:
            return status, json.loads(text)
        except ValueError:
            if status == 200:
                raise SinkError(f"{self._where}: the answer to {path} is no JSON") from None
            return status, text.decode("utf-8", "replace")


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
