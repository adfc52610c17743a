"""ZooKeeper connection options: addresses, timeouts, login, TLS."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from databus.core.connections import Connection
from databus.core.errors.config import ConfigError

DEFAULT_PORT = 2181


class ZooKeeperOptions(BaseModel):
    """Options of the ZooKeeper checkpoint store; all but login and password come from the connection's `extra`.

    Attributes:
        hosts: "host:port,host:port"; the connection's own host and port when `extra` has none.
        root: path that everything lies under.
        session_timeout_s: how long a dead holder's lease stays; the server may bound it.
        connect_timeout_s: seconds for the first connection.
        operation_timeout_s: seconds for one answer, reconnects included.
        history: entries kept per flow.
        first_server_id: first of the replication server ids to lease.
        last_server_id: last of them, inclusive.
        login: user of digest authentication, "" for none; what is created then belongs to this user alone.
        password: its password.
        use_ssl: whether to speak TLS.
        ca: file of trusted certificates.
        certfile: file of the client's certificate.
        keyfile: file of its key.
        keyfile_password: password of that file.
        verify_certs: whether the server's certificate must be trusted.
        check_hostname: whether it must name the host.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: str
    root: str = "/databus"
    session_timeout_s: float = Field(10.0, gt=0)
    connect_timeout_s: float = Field(10.0, gt=0)
    operation_timeout_s: float = Field(20.0, gt=0)
    history: int = Field(1000, ge=1)
    first_server_id: int = Field(5_400_000, ge=1, le=2**32 - 1)
    last_server_id: int = Field(5_499_999, ge=1, le=2**32 - 1)
    login: str = ""
    password: SecretStr = SecretStr("")
    use_ssl: bool = False
    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: SecretStr | None = None
    verify_certs: bool = True
    check_hostname: bool = True

    @field_validator("hosts")
    @classmethod
    def _hosts_are_addresses(cls, value: str) -> str:
        if not value.strip() or "/" in value:
            raise ValueError('"host:port,host:port" is expected, without a path: that is what root is for')
        return value

    @field_validator("root")
    @classmethod
    def _root_is_a_path(cls, value: str) -> str:
        parts = value.strip("/").split("/")
        if not value.startswith("/") or any(p in ("", ".", "..") for p in parts):
            raise ValueError('an absolute path such as "/databus" is expected')
        return "/" + "/".join(parts)

    @model_validator(mode="after")
    def _ids_are_a_range(self) -> Self:
        if self.last_server_id < self.first_server_id:
            raise ValueError("last_server_id lies before first_server_id")
        return self

    @classmethod
    def from_connection(cls, connection: Connection) -> ZooKeeperOptions:
        """Read the options of a connection.

        Raises:
            ConfigError: an unknown or bad option, or no host; names the conn_id, never a secret.
        """
        values: dict[str, Any] = dict(connection.extra)
        if "hosts" not in values and connection.host:
            values["hosts"] = f"{connection.host}:{connection.port or DEFAULT_PORT}"
        if connection.login:
            values.update(login=connection.login, password=connection.password)
        try:
            return cls(**values)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'options'}: {e['msg']}" for e in error.errors())
            raise ConfigError(
                f"connection {connection.conn_id}: {problems}",
                hint='Give host and port, or extra {"hosts": "a:2181,b:2181"}; extra takes: '
                + ", ".join(sorted(set(cls.model_fields) - {"login", "password"}))
                + ".",
            ) from None
