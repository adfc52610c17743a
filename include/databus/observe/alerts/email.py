"""Alerts by e-mail over SMTP."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from databus.core.alerts.alert import Alert, ChannelSpec
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.batch import AlertingError

if TYPE_CHECKING:
    import smtplib
    from email.message import EmailMessage

log = logging.getLogger(__name__)


class Email(ChannelSpec):
    """Alert channel by e-mail: `Email(to="ops@example.com")`.

    The connection is Airflow's SMTP connection: host, port, login, password, and in extra `from_email`, `timeout`,
    `disable_ssl` (no TLS from the start) and `disable_tls` (no STARTTLS either).

    Attributes:
        to: addresses, one or several, e.g. ("ops@example.com", "night@example.com").
        conn_id: the SMTP connection, e.g. "smtp_ops"; default "smtp_default".
        sender: address it comes from, e.g. "databus@example.com"; default "", the connection's `from_email`.
    """

    kind: ClassVar[str] = "email"
    fields_in_name: ClassVar[tuple[str, ...]] = ("conn_id", "to")

    to: tuple[str, ...] = Field(min_length=1)
    conn_id: str = "smtp_default"
    sender: str = ""

    @field_validator("to", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("to")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            if "@" not in address or any(c.isspace() for c in address):
                raise ValueError(f"{address!r} is not an e-mail address")
        return value

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the SMTP connection."""
        return ((self.conn_id, "smtp"),)

    def send(self, alert: Alert, connections: ConnectionSource) -> None:
        """Send it; see `ChannelSpec.send`. Retries and repetitions carry the same Message-ID.

        It is taken once the server took it for one address: those that the server refused are named in the log.
        """
        import smtplib

        connection = connections.get(self.conn_id)
        try:
            message = self._message(alert, connection)
            client = _connected(connection)
            try:
                refused = client.send_message(message)
            finally:
                # What it took it has, however it parts: another try would be another mail.
                with contextlib.suppress(smtplib.SMTPException, OSError):
                    client.quit()
        except (smtplib.SMTPException, OSError) as error:
            raise self._not_taken(connection, f"{type(error).__name__}: {error}") from None
        except ValueError as error:  # its text may hold a piece of the password, say one that is not ASCII
            raise self._not_taken(connection, type(error).__name__) from None
        if refused:
            # Another try would give it again to those who have it.
            who = ", ".join(f"{to} ({code} {why.decode(errors='replace')})" for to, (code, why) in refused.items())
            log.error("alert %s: %s", alert.incident, connection.redacted(f"{connection.host} refused {who}"))

    def _not_taken(self, connection: Connection, problem: str) -> AlertingError:
        return AlertingError(
            connection.redacted(f"{connection.host}: {problem}"),
            hint=f"Check connection {self.conn_id}: host, port, login, disable_ssl and disable_tls in extra.",
        )

    def _message(self, alert: Alert, connection: Connection) -> EmailMessage:
        import hashlib
        from email.message import EmailMessage
        from email.utils import format_datetime

        from databus.observe.alerts.shapes import text

        sender = self.sender or str(connection.extra.get("from_email") or connection.login or "databus@localhost")
        name = hashlib.sha256(f"{alert.incident} {alert.event} {alert.at.isoformat()}".encode()).hexdigest()[:32]
        thread = hashlib.sha256(alert.incident.encode()).hexdigest()[:32]
        message = EmailMessage()
        message["Subject"] = " ".join(alert.title.split())[:200]
        message["From"] = sender
        message["To"] = ", ".join(self.to)
        message["Date"] = format_datetime(alert.at)
        message["Message-ID"] = f"<{name}@databus>"
        message["References"] = f"<{thread}@databus>"
        message["Auto-Submitted"] = "auto-generated"
        message["X-Databus-Incident"] = " ".join(alert.incident.split())
        message.set_content(text(alert))
        return message


def _connected(connection: Connection) -> smtplib.SMTP:
    """Return a client as Airflow's SMTP hook makes it (airflow.providers.smtp.hooks.smtp)."""
    import smtplib
    import ssl

    extra = connection.extra
    timeout_s = float(extra.get("timeout", 10))
    host = connection.host or "localhost"
    if not _is_set(extra.get("disable_ssl", False)):
        return _logged_in(
            smtplib.SMTP_SSL(host, connection.port or 465, timeout=timeout_s, context=ssl.create_default_context()),
            connection,
        )
    client = smtplib.SMTP(host, connection.port or 25, timeout=timeout_s)
    try:
        if not _is_set(extra.get("disable_tls", False)):
            client.starttls(context=ssl.create_default_context())
    except BaseException:
        client.close()
        raise
    return _logged_in(client, connection)


def _is_set(value: Any) -> bool:
    return str(value).strip().lower() in {"true", "1", "yes", "on"}


def _logged_in(client: smtplib.SMTP, connection: Connection) -> smtplib.SMTP:
    try:
        if connection.login:
            client.login(connection.login, connection.password.get_secret_value())
    except BaseException:
        client.close()
        raise
    return client
