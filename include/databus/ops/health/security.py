"""Connection security, read off its settings: TLS, verification, login, who may read its key files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.connections import Connection
from databus.core.findings import Finding, Level
from databus.tls import file_problem, host_of, is_local


@dataclass(frozen=True)
class ConnectionSecurity:
    """Security of one connection.

    Attributes:
        hosts: where it leads.
        tls: whether TLS is spoken.
        verified: whether the server has to prove who it is.
        login: how the client says who it is, "" for not at all.
        keys: setting → file of a private key.
        to_encrypt: setting that turns TLS on.
        to_verify: setting that turns verification on.
    """

    hosts: tuple[str, ...]
    tls: bool
    verified: bool
    login: str
    keys: Mapping[str, str]
    to_encrypt: str
    to_verify: str


def examine_security(connection: Connection) -> list[Finding]:
    """Return what there is to say of a connection; nothing for kinds that are not looked at.

    A connection that stays on this machine needs no TLS.
    """
    read = _READERS.get(connection.conn_type)
    if read is None:
        return []
    found = read(connection)
    subject = f"connection {connection.conn_id}"
    return [_protection(f"{subject}: security", found), *_key_files(subject, found)]


def _protection(subject: str, found: ConnectionSecurity) -> Finding:
    who = found.login or "no login"
    local = all(is_local(host) for host in found.hosts)
    if found.tls and found.verified:
        return Finding(subject, Level.OK, f"TLS, the server is verified; {who}")
    if found.tls:
        hint = f"Verify the server: {found.to_verify}."
        return Finding(
            subject, Level.WARN, f"TLS, but any server is taken for the right one; {who}", hint, "tls_not_verified"
        )
    if local:
        return Finding(subject, Level.OK, f"no TLS, on this machine only; {who}")
    clear = "rows and passwords" if found.login else "rows"
    return Finding(subject, Level.WARN, f"no TLS: {clear} cross the network in clear", found.to_encrypt, "tls_off")


def _key_files(subject: str, found: ConnectionSecurity) -> Iterator[Finding]:
    for setting, path in found.keys.items():
        problem = file_problem(path)
        if problem:
            hint = f"chmod 600 {path}, and give it to the user that runs the flow."
            yield Finding(f"{subject}: {setting}", Level.WARN, f"{path}: {problem}", hint, "key_readable")


def _flag(value: Any) -> bool:
    return str(value).lower() not in {"false", "0", "no", "none", ""}


def _text(extra: Mapping[str, Any], *names: str) -> str:
    return next((str(extra[name]) for name in names if extra.get(name)), "")


def _hosts(addresses: str) -> tuple[str, ...]:
    return tuple(map(host_of, addresses.split(",")))


def _login(connection: Connection, *, certificate: str, kind: str = "password") -> str:
    parts = [f"{kind} as {connection.login}"] if connection.login else []
    return ", ".join([*parts, *(["client certificate"] if certificate else [])])


def _mysql(connection: Connection) -> ConnectionSecurity:
    extra = connection.extra
    nested = {f"ssl_{name}": value for name, value in dict(extra.get("ssl") or {}).items()}
    options = {**nested, **{name: value for name, value in extra.items() if name.startswith("ssl_")}}
    mode = str(options.get("ssl_mode", "verify_identity" if options else "disabled")).lower()
    keys = {"ssl_key": str(options["ssl_key"])} if options.get("ssl_key") else {}
    return ConnectionSecurity(
        () if extra.get("unix_socket") else (connection.host,),
        mode != "disabled",
        mode == "verify_identity",
        _login(connection, certificate=_text(options, "ssl_cert")),
        keys,
        "Set ssl_ca in the connection's extra.",
        "ssl_ca, and ssl_mode verify_identity (or none), in the connection's extra",
    )


def _kafka(connection: Connection) -> ConnectionSecurity:
    extra = connection.extra
    protocol = (_text(extra, "security.protocol") or "PLAINTEXT").upper()
    mechanism = _text(extra, "sasl.mechanism", "sasl.mechanisms")
    named = _flag(extra.get("enable.ssl.certificate.verification", True))
    checked = _text(extra, "ssl.endpoint.identification.algorithm").lower() != "none"
    certificate = _text(extra, "ssl.certificate.location", "ssl.keystore.location") if protocol.endswith("SSL") else ""
    login = _login(connection, certificate=certificate, kind=mechanism) if protocol.startswith("SASL") else ""
    key = _text(extra, "ssl.key.location")
    return ConnectionSecurity(
        _hosts(_text(extra, "bootstrap.servers", "metadata.broker.list") or connection.host),
        protocol.endswith("SSL"),
        named and checked,
        login or ("client certificate" if certificate else ""),
        {"ssl.key.location": key} if key else {},
        "Set security.protocol to SASL_SSL or SSL, and ssl.ca.location, in the connection's extra.",
        "drop enable.ssl.certificate.verification and ssl.endpoint.identification.algorithm from the extra",
    )


def _search(connection: Connection) -> ConnectionSecurity:
    extra = connection.extra
    secure = "https" in (connection.db_schema, extra.get("scheme")) or _flag(extra.get("use_ssl", False))
    nodes = connection.host.split(",")
    key = _text(extra, "client_key")
    return ConnectionSecurity(
        _hosts(connection.host),
        all(node.strip().startswith("https://") if "://" in node else secure for node in nodes),
        _flag(extra.get("verify_certs", True)) and _flag(extra.get("ssl_assert_hostname", True)),
        _login(connection, certificate=_text(extra, "client_cert")),
        {"client_key": key} if key else {},
        'Set the connection\'s schema to "https", and ca_certs in its extra.',
        "verify_certs true, and ca_certs, in the connection's extra",
    )


def _zookeeper(connection: Connection) -> ConnectionSecurity:
    extra = connection.extra
    key = _text(extra, "keyfile")
    return ConnectionSecurity(
        _hosts(_text(extra, "hosts") or connection.host),
        _flag(extra.get("use_ssl", False)),
        _flag(extra.get("verify_certs", True)) and _flag(extra.get("check_hostname", True)),
        _login(connection, certificate=_text(extra, "certfile"), kind="digest"),
        {"keyfile": key} if key else {},
        "Set use_ssl and ca in the connection's extra, and its port to ZooKeeper's secureClientPort.",
        "drop verify_certs and check_hostname from the connection's extra",
    )


_READERS: dict[str, Callable[[Connection], ConnectionSecurity]] = {
    "mysql": _mysql,
    "kafka": _kafka,
    "opensearch": _search,
    "elasticsearch": _search,
    "zookeeper": _zookeeper,
}
