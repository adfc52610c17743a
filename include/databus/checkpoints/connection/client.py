"""The kazoo client as this package wants it: bounded waits, quick reconnects, quiet, and no secret in its log."""

from __future__ import annotations

import logging
import socket
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Auth
from kazoo.security import make_digest_acl

from databus.checkpoints.connection.options import DEFAULT_PORT, ZooKeeperOptions
from databus.tls import CLIENT_REFUSED, TLS_REQUIRED, TlsFault, TlsFiles, handshake

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
"""Kazoo's default lets the pause between reconnects grow to an hour."""

_TRIES_PER_SESSION = 3
"""A server that is asked between binding its port and loading its data neither answers nor hangs up (ZooKeeper 3.9:
NIOServerCnxn.close fails on the database that is not there yet). Kazoo waits `timeout / number of hosts` for an answer,
which for one host is as long as the session lives: a lease would be lost to a restart of milliseconds. And it waits
all of `timeout` for a connection to a machine that is gone, however many others there are."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo is untyped
    """Leaves time for another host within the session when one takes no connection."""

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        return super().create_connection(*args, timeout=timeout / _TRIES_PER_SESSION, **options)


class _SecretFilter(logging.Filter):
    """Drops kazoo's debug record of the request that carries login and password."""

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(arg, Auth) for arg in args)


def client_logger() -> logging.Logger:
    """Return the logger of all clients, silent below ERROR unless its level is set: the session logs what matters."""
    logger = logging.getLogger("databus.checkpoints.kazoo")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    if not any(isinstance(f, _SecretFilter) for f in logger.filters):
        logger.addFilter(_SecretFilter())
    return logger


def _with_tries(hosts: str) -> str:
    """Name each host as often as it takes for several tries within a session."""
    return ",".join([hosts] * -(-_TRIES_PER_SESSION // (hosts.count(",") + 1)))


def new_client(options: ZooKeeperOptions) -> Any:
    """Return a client that was not started yet (KazooClient, untyped)."""
    password = options.password.get_secret_value()
    keyfile_password = options.keyfile_password
    return KazooClient(
        hosts=_with_tries(options.hosts),
        timeout=options.session_timeout_s,
        handler=_Handler(),
        connection_retry=dict(_RECONNECT),
        auth_data=[("digest", f"{options.login}:{password}")] if options.login else None,
        default_acl=[make_digest_acl(options.login, password, all=True)] if options.login else None,
        logger=client_logger(),
        use_ssl=options.use_ssl,
        ca=options.ca,
        certfile=options.certfile,
        keyfile=options.keyfile,
        keyfile_password=keyfile_password.get_secret_value() if keyfile_password else None,
        verify_certs=options.verify_certs,
        check_hostname=options.check_hostname,
    )


def tls_fault(options: ZooKeeperOptions, conn_id: str) -> tuple[TlsFault, str] | None:
    """Return why TLS with a host does not come about, and OpenSSL's words; kazoo only tries again in silence.

    Raises:
        ConfigError: a TLS file cannot be used.
    """
    password = options.keyfile_password
    files = TlsFiles(
        ca=options.ca or "",
        certificate=options.certfile or "",
        key=options.keyfile or "",
        key_password=password.get_secret_value() if password else "",
        verify=options.verify_certs if options.use_ssl else False,
        check_host=options.check_hostname,
    )
    context = (files if options.use_ssl else TlsFiles(verify=False)).context(conn_id)
    for address in options.hosts.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            found = handshake((host or address.strip()).strip("[]"), int(port) if host else DEFAULT_PORT, context)
        except (OSError, ValueError):
            continue
        if not options.use_ssl:
            if found.fault is None or found.fault is CLIENT_REFUSED:
                return TLS_REQUIRED, "it answers a TLS greeting"
        elif found.fault is not None:
            return found.fault, found.detail
    return None


def reachability(hosts: str, timeout_s: float = 1.0) -> str:
    """Say in words what a TCP connection to each host comes to, e.g. "127.0.0.1:2181: Connection refused"."""
    answers = []
    for address in hosts.partition("/")[0].split(","):
        host, _, port = address.strip().rpartition(":")
        if not host:
            host, port = address.strip(), "2181"
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
            answers.append(f"{address.strip()}: accepts connections, but gives no session")
        except (OSError, ValueError) as error:
            answers.append(f"{address.strip()}: {getattr(error, 'strerror', None) or error}")
    return "; ".join(answers)
