"""Why a broker does not let a client in: TLS and SASL faults by name.

librdkafka says "certificate verify failed" for an unknown CA, another host name and an expired certificate alike, so a
refused handshake is repeated once by Python's ssl, with the same files, to learn which it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.errors.root import DatabusError
from databus.tls import CLIENT_REFUSED, FAILED, TLS_REQUIRED, TlsFault, TlsFiles, fault_of, handshake

SASL_MECHANISM = TlsFault(
    "sasl_mechanism",
    "the broker does not offer the SASL mechanism of the connection",
    "Set sasl.mechanism in the connection's extra to one that the broker enables (sasl.enabled.mechanisms).",
)
SASL_MISSING = TlsFault(
    "sasl_mechanism",
    "security.protocol asks for SASL, but no sasl.mechanism is set",
    'Set sasl.mechanism in the connection\'s extra, e.g. "SCRAM-SHA-512", and login and password of the connection.',
)
LOGIN_MISSING = TlsFault(
    "sasl_mechanism",
    "the broker answers TLS and then closes the connection, as one does that wants a SASL login first",
    "If this listener wants SASL: set security.protocol to SASL_SSL, sasl.mechanism, and login and password.",
)
LOGIN_REFUSED = TlsFault(
    "sink_access_denied",
    "the broker refuses the login",
    "Check login and password of the connection, and that the account exists for this sasl.mechanism.",
)
_FILES = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location and ssl.key.location"}
_CLOSED_SIGN = "incorrect security.protocol"
_MECHANISM_SIGNS = (
    "unsupported sasl mechanism",
    "does not support the requested sasl mechanism",
    "no provider for sasl",
)
_LOGIN_SIGNS = ("authentication failed", "invalid credentials", "sasl authentication error")


@dataclass(frozen=True)
class Refusal:
    """A fault, with the servers' own words.

    Attributes:
        code: error code.
        what: cause in plain words.
        hint: what mends it.
        detail: words of the one who noticed.
    """

    code: str
    what: str
    hint: str
    detail: str


def protocol_of(values: Mapping[str, Any]) -> str:
    """Return security.protocol in upper case; librdkafka's default is PLAINTEXT."""
    return str(values.get("security.protocol") or "PLAINTEXT").upper()


def missing_mechanism(values: Mapping[str, Any]) -> bool:
    """Return whether SASL is wanted without a mechanism: librdkafka would take Kerberos for granted."""
    named = values.get("sasl.mechanism") or values.get("sasl.mechanisms")
    return protocol_of(values).startswith("SASL_") and not named


def check_files(conn_id: str, values: Mapping[str, Any]) -> None:
    """Read the files of a TLS connection once, since librdkafka does not say what is wrong with which.

    Raises:
        ConfigError: one cannot be used.
    """
    if protocol_of(values) in {"SSL", "SASL_SSL"}:
        _files(values).context(conn_id)


def refusal(text: str, conn_id: str, servers: str, values: Mapping[str, Any]) -> Refusal | None:
    """Return the named cause of a refused connection, None when it is not about TLS or SASL.

    Args:
        text: librdkafka's words.
        conn_id: connection, for messages about its files.
        servers: bootstrap servers; the first that answers is asked once more.
        values: librdkafka's settings of the connection.
    """
    low = text.lower()
    if any(sign in low for sign in _MECHANISM_SIGNS):
        return _named(SASL_MECHANISM, text)
    if any(sign in low for sign in _LOGIN_SIGNS):
        return _named(LOGIN_REFUSED, text)
    tls = protocol_of(values) in {"SSL", "SASL_SSL"}
    if only_closed(text):
        return _closed(text, conn_id, servers, values) if tls else silent_refusal(servers, values)
    if not tls or fault_of(text) is None:
        return None
    return _probed(text, conn_id, servers, values)


def silent_refusal(servers: str, values: Mapping[str, Any]) -> Refusal | None:
    """Return why brokers that accept connections never answer, as far as a TLS greeting shows; None when it does not.

    librdkafka has no words for a broker that closes the connection.
    """
    protocol = protocol_of(values)
    if protocol not in {"PLAINTEXT", "SASL_PLAINTEXT", "SSL"}:
        return None
    anyone = TlsFiles(verify=False).context("")
    for host, port in _addresses(servers):
        try:
            found = handshake(host, port, anyone)
        except OSError:
            continue
        speaks = found.fault is None or found.fault.code == CLIENT_REFUSED.code
        if speaks:
            return _named(LOGIN_MISSING if protocol == "SSL" else TLS_REQUIRED, f"security.protocol is {protocol}")
    return None


def only_closed(text: str) -> bool:
    """Return whether the words are about no more than a new connection that was closed.

    So does a broker that wants TLS, but also one that stops just then, and a proxy in front of one that is away.
    """
    return _CLOSED_SIGN in text.lower()


def _closed(text: str, conn_id: str, servers: str, values: Mapping[str, Any]) -> Refusal | None:
    """Return the fault that a TLS greeting meets; None when it meets none, or nobody answers."""
    found = _probed(text, conn_id, servers, values)
    return None if found.code == FAILED.code else found


def _probed(text: str, conn_id: str, servers: str, values: Mapping[str, Any]) -> Refusal:
    try:
        context = _files(values).context(conn_id)
    except DatabusError as error:
        return Refusal(error.code, error.message, error.hint, text)
    for host, port in _addresses(servers):
        try:
            found = handshake(host, port, context)
        except OSError:
            continue
        if found.fault is not None:
            return _named(found.fault, found.detail)
    return _named(fault_of(text) or FAILED, text)


def _addresses(servers: str) -> Iterator[tuple[str, int]]:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        if host and port.isdigit():
            yield host.strip("[]"), int(port)


def _files(values: Mapping[str, Any]) -> TlsFiles:
    ca = str(values.get("ssl.ca.location") or "")
    verify = str(values.get("enable.ssl.certificate.verification", True)).lower() not in {"false", "0"}
    return TlsFiles(
        ca="" if ca == "probe" else ca,
        certificate=str(values.get("ssl.certificate.location") or ""),
        key=str(values.get("ssl.key.location") or ""),
        key_password=str(values.get("ssl.key.password") or ""),
        verify=verify,
        check_host=str(values.get("ssl.endpoint.identification.algorithm", "https")).lower() != "none",
    )


def _named(fault: TlsFault, detail: str) -> Refusal:
    return Refusal(fault.code, fault.what, fault.hint.format(**_FILES), detail)
