"""HTTP server of the stream service: address, TLS, and the process that serves until a signal ends it."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from typing import Any

import uvicorn

from databus.core.errors.config import ConfigError
from databus.stream.app import create_app
from databus.stream.connection import connection_class
from databus.stream.service import StreamService


@dataclass(frozen=True)
class Listener:
    """Address that the service listens on, with its TLS files.

    Attributes:
        host: name or address.
        port: 0 for one that is free.
        certificate: file of the server's certificate, PEM; "" for plain HTTP.
        key: file of its key.
        client_ca: file of the CA whose certificates clients have to show; "" for none.
    """

    host: str = "127.0.0.1"
    port: int = 8470
    certificate: str = ""
    key: str = ""
    client_ca: str = ""

    @classmethod
    def of(cls, address: str, certificate: str = "", key: str = "", client_ca: str = "") -> Listener:
        """Read HOST:PORT.

        Raises:
            ConfigError: it is none, or TLS files are missing.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise ConfigError(f"{address!r} is no address to listen on", hint="Give HOST:PORT, e.g. 0.0.0.0:8470.")
        if bool(certificate) != bool(key) or (client_ca and not certificate):
            raise ConfigError(
                "TLS needs a certificate and its key", hint="Give --tls-certificate and --tls-key, or neither."
            )
        return cls(host.strip("[]"), int(port), certificate, key, client_ca)

    def check_open(self, service: StreamService, *, allowed: bool) -> None:
        """Refuse to let everybody in from other machines, unless that is wanted.

        Raises:
            ConfigError: neither tokens nor clients' certificates are asked for.
        """
        if allowed or service.tokens or self.client_ca or self._is_local:
            return
        raise ConfigError(
            f"{self.host} is reached from other machines, and the service asks for no token",
            hint="Give --tokens FILE or --tls-client-ca FILE, or --open to let everybody write and read.",
        )

    @property
    def _is_local(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def server(service: StreamService, listener: Listener) -> uvicorn.Server:
    """Return the server of a service; `run()` serves until a signal, then answers what is under way.

    Raises:
        ConfigError: a TLS file cannot be used.
    """
    options = service.options
    tls: dict[str, Any] = {}
    if listener.certificate:
        tls = {"ssl_certfile": listener.certificate, "ssl_keyfile": listener.key}
    if listener.client_ca:
        tls |= {"ssl_ca_certs": listener.client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    config = uvicorn.Config(
        create_app(service),
        http=connection_class(options.body_s, service.count_dropped),
        host=listener.host,
        port=listener.port,
        lifespan="on",
        limit_concurrency=options.connections,
        timeout_graceful_shutdown=int(2 * options.timeout_s),
        log_config=None,
        access_log=False,
        server_header=False,
        **tls,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"TLS cannot be set up: {error}", hint="Check the files of certificate, key and CA."
        ) from None
    return uvicorn.Server(config)
