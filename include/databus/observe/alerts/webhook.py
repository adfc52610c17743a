"""Alerts by HTTP POST: plain JSON, or the shapes of Slack, Microsoft Teams and PagerDuty."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from databus.core.alerts import Alert, ChannelSpec
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors import AlertingError, ConfigError
from databus.observe.alerts.shapes import pagerduty, slack, teams

Shape = Literal["json", "slack", "teams", "pagerduty"]
_SHAPES: Mapping[str, Callable[[Alert], dict[str, Any]]] = {
    "json": Alert.to_json,
    "slack": slack,
    "teams": teams,
    "pagerduty": pagerduty,
}
_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"


class Webhook(ChannelSpec):
    """Posts an alert as JSON.

    The connection is Airflow's HTTP connection: host (or a whole URL), schema, port, and in extra `path` and
    `headers`. Where the whole URL is a secret (Slack, Teams), it is the password; with shape "pagerduty" the password
    is the routing key and the host may be left out.

    Attributes:
        conn_id: the connection.
        shape: what the body looks like.
        timeout_s: how long to wait for an answer.
    """

    kind: ClassVar[str] = "webhook"
    fields_in_name: ClassVar[tuple[str, ...]] = ("shape", "conn_id")

    conn_id: str
    shape: Shape = "json"
    timeout_s: float = Field(10.0, gt=0, le=30)

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the HTTP connection."""
        return ((self.conn_id, "http|slackwebhook|generic"),)

    def send(self, alert: Alert, connections: ConnectionSource) -> None:
        """Post it; see `ChannelSpec.send`."""
        import urllib.error
        import urllib.request

        connection = connections.get(self.conn_id)
        url, body = self.request(alert, connection)
        headers = {"Content-Type": "application/json", "User-Agent": "databus", **_headers(connection)}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - see _url
        secrets = connection.secrets | {url}
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(500).decode(errors="replace")
            problem = f"HTTP {error.code}: {said}"
        except (urllib.error.URLError, OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        for secret in secrets:
            problem = problem.replace(secret, "***")
        raise AlertingError(
            f"webhook of connection {self.conn_id}: {problem}",
            hint=f"Check connection {self.conn_id}: host, schema and `path` in extra, or the URL as its password.",
        )

    def request(self, alert: Alert, connection: Connection) -> tuple[str, dict[str, Any]]:
        """Return address and body of the request.

        Raises:
            ConfigError: the connection names no address.
        """
        body = _SHAPES[self.shape](alert)
        if self.shape == "pagerduty":
            body["routing_key"] = connection.password.get_secret_value()
        return _url(connection, self.shape), body


def _url(connection: Connection, shape: str) -> str:
    secret = connection.password.get_secret_value()
    if shape != "pagerduty" and secret.startswith(("https://", "http://")):
        return secret
    if not connection.host and shape == "pagerduty":
        return _PAGERDUTY
    if not connection.host:
        raise ConfigError(
            f"connection {connection.conn_id} names no address", hint="Set its host, or the whole URL as its password."
        )
    base = connection.host.rstrip("/")
    if "://" not in base:
        base = f"{connection.db_schema or 'https'}://{base}"
    if not base.startswith(("https://", "http://")):
        raise ConfigError(f"connection {connection.conn_id}: {base.partition(':')[0]} is not http or https")
    if connection.port:
        base = f"{base}:{connection.port}"
    # Slack's provider keeps the token of its address as the password.
    path = secret if connection.conn_type == "slackwebhook" else str(connection.extra.get("path", ""))
    return f"{base}/{path.lstrip('/')}" if path else base


def _headers(connection: Connection) -> dict[str, str]:
    return {str(name): str(value) for name, value in dict(connection.extra.get("headers", {})).items()}
