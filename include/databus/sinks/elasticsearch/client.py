"""The client: connecting, and the server's refusals in the words of the error tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from databus.core.connections import Connection
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import (
    SinkAccessError,
    SinkBackpressureError,
    SinkError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.tls import CLIENT_REFUSED, TLS_REQUIRED, TlsFiles, fault_of, handshake

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

DEFAULT_PORT = 9200
DEFAULT_TIMEOUT_S = 60.0
_REFUSALS: dict[int, tuple[type[DatabusError], str]] = {
    401: (SinkAccessError, "Check the connection's login and password."),
    403: (SinkAccessError, "Grant the login create_index, write and view_index_metadata on the index."),
    429: (SinkBackpressureError, "The server is overloaded; the batch is tried again after a pause."),
}
_SERVER_FAILED: tuple[type[DatabusError], str] = (SinkUnavailableError, "Look at the server's health and log.")
_NOT_TAKEN: tuple[type[DatabusError], str] = (SinkSettingError, "Look at the index's settings and mapping.")
_TLS_EXTRAS = ("ca_certs", "client_cert", "client_key", "ssl_assert_hostname")


def addresses(connection: Connection) -> list[dict[str, Any]]:
    """Return host, port and use_ssl of each node; `host` may name several, separated by commas.

    The scheme, http by default, may stand before a host, in the connection's schema (as Airflow's provider of
    Elasticsearch has it), or in `extra` as scheme or use_ssl (as that of OpenSearch has it).
    """
    secure = "https" in (connection.db_schema, connection.extra.get("scheme")) or _flag(connection.extra.get("use_ssl"))
    nodes = []
    for node in (connection.host or "localhost").split(","):
        scheme, separator, name = node.strip().rpartition("://")
        host, _, port = name.partition(":")
        if "@" in name or not (port.isdigit() or not port):
            raise SinkSettingError(
                f"{connection.conn_id}: a node is not written as host, host:port or https://host:port",
                hint="Login and password belong into the connection's own fields, not into its host.",
            )
        number = int(port) if port else connection.port or DEFAULT_PORT
        nodes.append({"host": host, "port": number, "use_ssl": scheme == "https" if separator else secure})
    return nodes


def connect(connection: Connection) -> OpenSearch:
    """Return a client; it connects with its first request and leaves retries to its caller.

    `extra` may hold verify_certs, ca_certs, client_cert, client_key, ssl_assert_hostname and timeout_s (60 by default).
    """
    from opensearchpy import OpenSearch

    nodes = addresses(connection)
    extra = connection.extra
    options: dict[str, Any] = {name: extra[name] for name in _TLS_EXTRAS if name in extra}
    if any(node["use_ssl"] for node in nodes):
        tls_files(connection).context(connection.conn_id)  # a bad file is named before any request
        options |= {"verify_certs": _flag(extra.get("verify_certs", True)), "ssl_show_warn": False}
    if connection.login:
        options["http_auth"] = (connection.login, connection.password.get_secret_value())
    return OpenSearch(
        nodes,
        timeout=float(extra.get("timeout_s", DEFAULT_TIMEOUT_S)),
        # Another node is tried after a failed connection; the same node only by the writer, with back-off.
        max_retries=len(nodes) - 1,
        retry_on_status=(),
        http_compress=bool(extra.get("http_compress", False)),
        **options,
    )


def tls_files(connection: Connection) -> TlsFiles:
    """Return what a connection's extra says of TLS."""
    extra = connection.extra
    ca, certificate, key = (str(extra.get(name) or "") for name in ("ca_certs", "client_cert", "client_key"))
    return TlsFiles(ca, certificate, key, verify=_flag(extra.get("verify_certs", True)))


def _flag(value: Any) -> bool:
    """Read a flag; a connection in URI form holds it as text."""
    return str(value).lower() not in {"false", "0", "no", "none", ""}


def where(connection: Connection) -> str:
    """Return the connection's id and addresses for messages."""
    nodes = ", ".join(f"{node['host']}:{node['port']}" for node in addresses(connection))
    return f"{connection.conn_id} ({nodes})"


def translated(error: Exception, place: str) -> DatabusError:
    """Return the error of our tree for one of the client's.

    Args:
        error: what the client raised.
        place: what was asked of whom, e.g. "bulk request to search_shop (host:9200)".
    """
    from opensearchpy import exceptions as client

    if isinstance(error, client.ConnectionError):
        return no_answer(place, type(error).__name__, error.error, refused_tls=isinstance(error, client.SSLError))
    if not isinstance(error, client.TransportError):
        return SinkError(f"{place}: {type(error).__name__}: {error}")
    return refused(place, int(error.status_code), error.info, str(error.error))


def no_answer(place: str, kind: str, cause: Any, *, refused_tls: bool) -> DatabusError:
    """Return the error of a request without an answer.

    Args:
        place: what was asked of whom.
        kind: name of the client's error.
        cause: what it says.
        refused_tls: TLS failed.
    """
    if refused_tls and (fault := fault_of(str(cause))):
        return SinkAccessError(
            f"{place}: {fault.what}: {cause}",
            hint=fault.hint.format(ca="ca_certs", cert="client_cert and client_key"),
            code=fault.code,
        )
    return SinkUnavailableError(
        f"{place}: no answer ({kind}: {cause})",
        hint="Check that the server runs and that the connection's host, port and scheme are right.",
    )


def refused(place: str, status: int, info: Any, otherwise: str = "") -> DatabusError:
    """Return the error of a request that was answered by a refusal.

    Args:
        place: what was asked of whom.
        status: HTTP status.
        info: the answer.
        otherwise: what to say where the answer gives no reason.
    """
    kind, hint = _REFUSALS.get(status, _SERVER_FAILED if status >= 500 else _NOT_TAKEN)
    return kind(f"{place}: HTTP {status}: {reason_of(info) or otherwise}", hint=hint)


def silent_refusal(connection: Connection) -> DatabusError | None:
    """Return why nodes that are asked without TLS hang up: they speak TLS only. None when that is not the cause."""
    for node in addresses(connection):
        if node["use_ssl"]:
            continue
        try:
            found = handshake(node["host"], node["port"], TlsFiles(verify=False).context(connection.conn_id))
        except OSError:
            continue
        if found.fault is None or found.fault is CLIENT_REFUSED:
            return SinkAccessError(
                f"{where(connection)}: {TLS_REQUIRED.what}: the connection asks over http",
                hint='Set the connection\'s schema to "https", and ca_certs in its extra.',
                code=TLS_REQUIRED.code,
            )
    return None


def reason_of(info: Any) -> str:
    """Return "type: reason (cause)" of an error as the servers write it, "" when there is none."""
    error = info.get("error", info) if isinstance(info, dict) else info
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    text = f"{error.get('type', 'error')}: {error.get('reason', '')}"
    cause = error.get("caused_by")
    return f"{text} ({cause['reason']})" if isinstance(cause, dict) and cause.get("reason") else text
