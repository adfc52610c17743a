"""Alerts by HTTP POST: plain JSON, or the shapes of Slack, Microsoft Teams and PagerDuty."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from databus.core.alerts.alert import Alert, ChannelSpec
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.batch import AlertingError
from databus.core.errors.config import ConfigError
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption
from databus.observe.alerts.shapes import pagerduty, slack, teams

if TYPE_CHECKING:
    from urllib.error import HTTPError
    from urllib.request import OpenerDirector

Shape = Literal["json", "slack", "teams", "pagerduty"]
_SHAPES: Mapping[str, Callable[[Alert], dict[str, Any]]] = {
    "json": Alert.to_json,
    "slack": slack,
    "teams": teams,
    "pagerduty": pagerduty,
}
_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"


class Webhook(ChannelSpec):
    """Alert channel by HTTP POST, as JSON: `Webhook(conn_id="slack_ops", shape="slack")`.

    The connection is Airflow's HTTP connection: host (or a whole URL), schema, port, and in extra `path` and
    `headers`. Where the whole URL is a secret (Slack, Teams), it is the password; with shape "pagerduty" the password
    is the routing key and the host may be left out.

    Attributes:
        conn_id: the connection, e.g. "slack_ops".
        shape: form of the body: "json" (default), "slack", "teams" or "pagerduty".
        timeout: time to wait for an answer, e.g. timedelta(seconds=5), 30 seconds at most; default 10 seconds.
    """

    kind: ClassVar[str] = "webhook"
    fields_in_name: ClassVar[tuple[str, ...]] = ("shape", "conn_id")

    conn_id: str
    shape: Shape = "json"
    timeout: Duration = Field(timedelta(seconds=10), gt=ZERO, le=timedelta(seconds=30))

    timeout_s: ClassVar = StoredOption[float]("timeout", SECOND)

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the HTTP connection."""
        return ((self.conn_id, "http|slackwebhook|generic"),)

    def send(self, alert: Alert, connections: ConnectionSource) -> None:
        """Post it; see `ChannelSpec.send`. A redirect is a refusal."""
        import http.client
        import urllib.error
        import urllib.request

        connection = connections.get(self.conn_id)
        url, body = self.request(alert, connection)
        headers = {"Content-Type": "application/json", "User-Agent": "databus", **_headers(connection)}
        secrets, data = connection.secrets | {url}, json.dumps(body).encode()
        try:
            request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - see _url
            with _opener().open(request, timeout=self.timeout_s):
                return
        except urllib.error.HTTPError as error:
            problem = f"HTTP {error.code}: {_said(error)}"
        except OSError as error:
            problem = f"{type(error).__name__}: {error}"
        except (http.client.HTTPException, ValueError) as error:  # the text may hold a piece of address or header
            problem = type(error).__name__
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
    headers = connection.extra.get("headers") or {}
    if not isinstance(headers, Mapping):
        raise ConfigError(
            f"connection {connection.conn_id}: headers in extra is no mapping",
            hint='Write {"headers": {"NAME": "VALUE"}}.',
        )
    return {str(name): str(value) for name, value in headers.items()}


def _opener() -> OpenerDirector:
    """Return what opens an address, and no other: a POST that is redirected would go on as a GET without its body."""
    import urllib.request

    class Straight(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Return no request to go on with: then the answer is an error like any other."""

    return urllib.request.build_opener(Straight)


def _said(error: HTTPError) -> str:
    import http.client

    try:
        with error:
            return error.read(500).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""
