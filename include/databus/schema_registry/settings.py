"""Schema registry settings, from a connection. Imports no client: a flow opens it at every plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from databus.core.connections import Connection
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SourceSettingError
from databus.core.findings import Finding, Level
from databus.core.secrets import redacted, secret_values

CONN_TYPES = "http|schema_registry"
KINDS: Mapping[str, str] = {"avro": "AVRO", "json_schema": "JSON", "protobuf": "PROTOBUF"}
"""Format → what the registry calls it."""
_OWN = frozenset({"url", "path"})
_HINT = (
    "Set schema, host and port of the connection, and in its extra the path where the API begins, "
    'e.g. {"path": "/apis/ccompat/v7"} for Apicurio; or all of it as {"url": "https://host:8081"}.'
)


@dataclass(frozen=True)
class RegistrySettings:
    """Schema registry settings; picklable and hashable, and its repr shows no secret.

    Attributes:
        conn_id: the connection's id, for messages.
        url: where the API begins; several, parted by commas, are tried in turn.
        login: user name, "" for none.
        password: its password.
        values: further settings of confluent-kafka's `SchemaRegistryClient`: ssl.ca.location, ssl.certificate.location,
            ssl.key.location, ssl.key.password, bearer.auth.…, proxy.
        timeout_s: seconds that a request waits for an answer.
    """

    conn_id: str
    url: str
    login: str = ""
    password: SecretStr = field(default_factory=lambda: SecretStr(""))
    values: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    timeout_s: float = 30.0

    @classmethod
    def of(cls, connection: Connection, timeout_s: float) -> RegistrySettings:
        """Read a connection.

        Raises:
            SourceSettingError: it names no address, or holds what a client cannot take.
        """
        extra = {name: value for name, value in connection.extra.items() if value is not None}
        url = str(extra.get("url") or "") or _address(connection, str(extra.get("path") or ""))
        where = f"connection {connection.conn_id}"
        for part in url.split(",") if url else [""]:
            parsed = urlsplit(part.strip())
            if parsed.scheme not in ("http", "https") or not parsed.hostname:
                raise SourceSettingError(f"{where} names no address of a schema registry", hint=_HINT)
        if "basic.auth.user.info" in extra or "@" in f"{url}{extra.get('proxy', '')}":
            raise SourceSettingError(
                f"{where} holds credentials inside its url, proxy or basic.auth.user.info",
                hint="Those are shown in messages: move them to the connection's login and password.",
            )
        values = {name: value for name, value in extra.items() if name not in _OWN}
        if bad := sorted(name for name, value in values.items() if not isinstance(value, str | int | float | bool)):
            raise SourceSettingError(f"{where}: {', '.join(bad)} of its extra is no text, number or boolean")
        return cls(
            connection.conn_id, url, connection.login, connection.password, tuple(sorted(values.items())), timeout_s
        )

    def client_settings(self) -> dict[str, Any]:
        """Return the settings of `SchemaRegistryClient`, secrets in clear."""
        found = {"timeout": self.timeout_s, "max.retries": 2, "retries.wait.ms": 200, **dict(self.values)}
        if self.login:
            found["basic.auth.user.info"] = f"{self.login}:{self.password.get_secret_value()}"
        return {**found, "url": self.url}

    def redacted(self, text: str) -> str:
        """Return a text, such as a client's own error, without the secrets among these settings."""
        return redacted(text, secret_values(dict(self.values)) | ({self.password.get_secret_value()} - {""}))


def _address(connection: Connection, path: str) -> str:
    host = connection.host.strip().rstrip("/")
    if not host:
        return ""
    if "://" not in host:
        host = f"{connection.db_schema or 'http'}://{host}"
    if connection.port and urlsplit(host).port is None:
        scheme, _, rest = host.partition("://")
        name, slash, behind = rest.partition("/")
        host = f"{scheme}://{name}:{connection.port}{slash}{behind}"
    return f"{host}/{path.strip('/')}".rstrip("/")


def registry_findings(settings: RegistrySettings | None, formats: Sequence[str]) -> list[Finding]:
    """Ask the registry which kinds of schema it knows; nothing for a source without one."""
    if settings is None:
        return []
    from databus.schema_registry.client import schema_types

    subject = f"schema registry: {settings.conn_id}"
    try:
        known = schema_types(settings)
    except DatabusError as error:
        return [Finding.of(subject, error)]
    if missing := [form for form in formats if KINDS[form] not in known]:
        what = f"{settings.url} knows {', '.join(sorted(known)) or 'no format'}, not {', '.join(missing)}"
        return [Finding(subject, Level.ERROR, what, "Use a registry that does.", "registry_format")]
    return [Finding(subject, Level.OK, f"{settings.url} answers, knows {', '.join(sorted(known))}")]
