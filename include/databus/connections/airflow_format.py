"""Airflow's text forms of a connection: JSON, URI, and the fields of `airflow connections export`.

Source: Airflow documentation, "Managing Connections" (JSON format, URI format), read as its Connection class does.
Options in a URI's query stay text, as in `airflow.sdk.Connection`. Errors name the connection and the field, never a
value: it may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from databus.core.connections import Connection
from databus.core.errors.config import ConfigError

_FIELDS = frozenset({"conn_id", "conn_type", "description", "host", "login", "password", "schema", "port", "extra"})
_URI_EXTRA = "__extra__"
_HINT = (
    'JSON: {"conn_type": "mysql", "host": "db", "port": 3306, "login": "u", "password": "…", "schema": "shop", '
    '"extra": {}}; or a URI: mysql://u:percent-encoded-password@db:3306/shop'
)


def parse_connection(conn_id: str, text: str) -> Connection:
    """Read a connection from its JSON form (begins with "{") or URI form.

    Raises:
        ConfigError: neither.
    """
    if text.lstrip().startswith("{"):
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise _bad(conn_id, f"its JSON ends at character {getattr(error, 'pos', 0)}") from None
        return from_fields(conn_id, fields)
    return _from_uri(conn_id, text.strip())


def from_fields(conn_id: str, fields: Mapping[str, Any]) -> Connection:
    """Build a connection from Airflow's field names.

    Raises:
        ConfigError: an unknown field, or a value of the wrong type.
    """
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise _bad(conn_id, f"unknown fields {', '.join(map(repr, unknown))}; known: {', '.join(sorted(_FIELDS))}")
    return Connection(
        conn_id=conn_id,
        conn_type=_conn_type(_text(conn_id, fields, "conn_type")),
        host=_text(conn_id, fields, "host"),
        port=_port(conn_id, fields.get("port")),
        login=_text(conn_id, fields, "login"),
        password=SecretStr(_text(conn_id, fields, "password")),
        db_schema=_text(conn_id, fields, "schema"),
        extra=_extra(conn_id, fields.get("extra")),
    )


def to_json(connection: Connection) -> str:
    """Return the JSON form, with its secrets in clear: for the environment of a process, never for a log or a file."""
    fields = {
        "conn_type": connection.conn_type,
        "host": connection.host,
        "port": connection.port,
        "login": connection.login,
        "password": connection.password.get_secret_value(),
        "schema": connection.db_schema,
        "extra": dict(connection.extra),
    }
    return json.dumps({name: value for name, value in fields.items() if value})


def _from_uri(conn_id: str, uri: str) -> Connection:
    """Read `type://login:password@host:port/schema?extra`; a second `scheme://` after the first belongs to the host."""
    scheme, found, rest = uri.partition("://")
    if not found or not scheme:
        raise _bad(conn_id, "it is neither JSON nor a URI")
    host_scheme, nested, remainder = rest.partition("://")
    prefix = ""
    # The second scheme stands before any user, path or query; a "://" further on belongs to those.
    if nested and not set(host_scheme) & set("@:/?"):
        prefix, rest = f"{host_scheme}://", remainder
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port
    except ValueError:
        raise _bad(conn_id, "the host or port of its URI is malformed (percent-encode special characters)") from None
    host = unquote(parts.hostname or "")
    if "/" in host:
        # A path as host (a socket) keeps its case, which `hostname` does not.
        host = unquote(parts.netloc.rpartition("@")[2].partition(":")[0])
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    extra: Any = query.get(_URI_EXTRA, query)
    return Connection(
        conn_id=conn_id,
        conn_type=_conn_type(scheme),
        host=f"{prefix}{host}" if host else "",
        port=port,
        login=unquote(parts.username or ""),
        password=SecretStr(unquote(parts.password or "")),
        db_schema=unquote(parts.path[1:]),
        extra=_extra(conn_id, extra),
    )


def _conn_type(text: str) -> str:
    return "postgres" if text == "postgresql" else text.replace("-", "_")


def _text(conn_id: str, fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(conn_id, f"{name} must be text, not {type(value).__name__}")
    return value


def _port(conn_id: str, value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _bad(conn_id, "port must be a number") from None


def _extra(conn_id: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError:
            raise _bad(conn_id, "extra is not JSON") from None
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise _bad(conn_id, f"extra must be a JSON object, not {type(value).__name__}")
    return value


def _bad(conn_id: str, problem: str) -> ConfigError:
    return ConfigError(f"connection {conn_id!r} cannot be read: {problem}", hint=_HINT)
