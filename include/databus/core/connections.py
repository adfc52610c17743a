"""A connection as a value: where a server is and how to log in. Secrets never appear in its repr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from databus.core.secrets import masked, redacted, secret_values


class Connection(BaseModel):
    """Connection, resolved.

    Attributes:
        conn_id: the id flows name.
        conn_type: as Airflow names it: "mysql", "kafka", "zookeeper", "spark_connect", "opensearch", …
        host: host name or address; "" where `extra` says it.
        port: TCP port, None for the service's default.
        login: user name, "" for none.
        password: secret.
        db_schema: default database or path.
        extra: further settings of the service's client.
    """

    # A refused value may be a secret in the wrong field: errors of validation do not repeat it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    conn_id: str
    conn_type: str
    host: str = ""
    port: int | None = None
    login: str = ""
    password: SecretStr = SecretStr("")
    db_schema: str = ""
    extra: Mapping[str, Any] = Field(default_factory=dict, repr=False)

    @field_serializer("extra")
    def _extra_is_masked(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Dumps are for people and logs; what hands a connection on (pickle, `environment_of`) reads the fields."""
        return masked(extra)

    @property
    def secrets(self) -> frozenset[str]:
        """Return every secret in clear: the password, and what sensitive names in `extra` hold. Only to redact by."""
        return secret_values(self.extra) | ({self.password.get_secret_value()} - {""})

    def redacted(self, text: str) -> str:
        """Return a text, such as a client's own error, without this connection's secrets."""
        return redacted(text, self.secrets)


class ConnectionSource(Protocol):
    """Finds connections by id; building a flow never calls it."""

    def get(self, conn_id: str) -> Connection:
        """Return the connection.

        Raises:
            ConnectionMissingError: no such conn_id; the hint says how to define it.
        """
        ...
