"""TLS as every client of this package sets it up, and OpenSSL's refusals as named faults with a way out.

Sources: RFC 5280 and RFC 6125 (trust and host names), OpenSSL 3 `X509_verify_cert_error_string` (the words matched).
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from databus.core.errors.config import ConfigError

HANDSHAKE_TIMEOUT_S = 5.0
_SILENCE_S = 0.3


@dataclass(frozen=True)
class TlsFault:
    """Why a TLS connection does not come about.

    Attributes:
        code: the error code, one per cause.
        what: the cause in plain words.
        hint: what mends it.
    """

    code: str
    what: str
    hint: str


UNTRUSTED = TlsFault(
    "tls_ca_unknown",
    "the server's certificate is not signed by a trusted CA",
    "Give the CA that signed it: {ca} in the connection's extra.",
)
HOST_MISMATCH = TlsFault(
    "tls_host_mismatch",
    "the server's certificate is for another host name",
    "Use a host name that stands in the certificate's subjectAltName, or have the server's certificate reissued.",
)
EXPIRED = TlsFault(
    "tls_certificate_expired",
    "the server's certificate has expired",
    "Renew the server's certificate; check this machine's clock.",
)
NOT_YET_VALID = TlsFault(
    "tls_certificate_not_yet_valid",
    "the server's certificate is not valid yet",
    "Check the clocks of both machines, then the certificate.",
)
CLIENT_REFUSED = TlsFault(
    "tls_client_certificate",
    "the server refuses this client's certificate, or wants one and got none",
    "Give a certificate and key that the server's CA signed, not expired: {cert} in the connection's extra.",
)
NOT_TLS = TlsFault(
    "tls_not_spoken",
    "the server does not speak TLS on this port",
    "Use the server's TLS port, or turn TLS off in the connection.",
)
TLS_REQUIRED = TlsFault(
    "tls_required",
    "the server takes only connections with TLS",
    "Turn TLS on in the connection: {ca} and what goes with it.",
)
FAILED = TlsFault("tls_failed", "the TLS handshake failed", "Compare protocol versions and ciphers of both sides.")

# The first that fits names the fault: OpenSSL puts the general "certificate verify failed" before the cause.
_SIGNS: tuple[tuple[TlsFault, tuple[str, ...]], ...] = (
    (HOST_MISMATCH, ("hostname mismatch", "ip address mismatch", "doesn't match", "not valid for '")),
    (EXPIRED, ("certificate has expired",)),
    (NOT_YET_VALID, ("not yet valid",)),
    (UNTRUSTED, ("unable to get local issuer", "unable to get issuer", "self-signed cert", "self signed cert")),
    (
        CLIENT_REFUSED,
        (
            "alert certificate required", "certificate_required", "alert bad certificate", "alert unknown ca",
            "alert certificate expired", "alert certificate unknown", "alert handshake failure",
        ),
    ),
    (
        NOT_TLS,
        (
            "wrong version number", "record layer failure", "packet length too long", "http request",
            "unknown protocol", "server doesn't support",
        ),
    ),
    (UNTRUSTED, ("certificate verify failed",)),
)  # fmt: skip
_TLS_WORDS = ("ssl", "tls", "certificate")


def fault_of(error: BaseException | str) -> TlsFault | None:
    """Return the fault that an error's words name, None when they are not about TLS."""
    text = _text(error).lower().replace("_", " ")
    for fault, signs in _SIGNS:
        if any(sign in text for sign in signs):
            return fault
    is_tls = isinstance(error, ssl.SSLError) or any(word in text for word in _TLS_WORDS)
    return FAILED if is_tls else None


@dataclass(frozen=True)
class TlsFiles:
    """TLS files that a client trusts and shows; file names only, so that it may be printed.

    Attributes:
        ca: file of trusted certificates, "" for the system's.
        certificate: file of the client's own, "" for none.
        key: file of its key, "" when the certificate's file holds it.
        key_password: the key's password; never in the repr.
        verify: whether the server's certificate must be trusted.
        check_host: whether it must name the host.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    verify: bool = True
    check_host: bool = True

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={v!r}" for n, v in vars(self).items() if n != "key_password")
        return f"TlsFiles({shown})"

    def context(self, conn_id: str) -> ssl.SSLContext:
        """Build the context.

        Raises:
            ConfigError: a file is missing, cannot be read, or is not what it should be; names the file.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify and self.check_host
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        try:
            if self.ca:
                folder = Path(self.ca).is_dir()
                context.load_verify_locations(None if folder else self.ca, self.ca if folder else None)
            else:
                context.load_default_certs()
        except (OSError, ssl.SSLError) as error:
            raise _bad_file(conn_id, self.ca, "no file of PEM certificates", error) from None
        if self.certificate:
            try:
                # A callable, even an empty one, keeps OpenSSL from asking on the terminal for a missing password.
                context.load_cert_chain(self.certificate, self.key or None, lambda: self.key_password)
            except (OSError, ssl.SSLError, ValueError) as error:
                files = ", ".join(name for name in (self.certificate, self.key) if name)
                raise _bad_file(conn_id, files, "no PEM certificate with its key, or another password", error) from None
        return context


@dataclass(frozen=True)
class Handshake:
    """TLS handshake result.

    Attributes:
        fault: None when it succeeded.
        detail: OpenSSL's words of a failure.
        expires: end of the server's certificate, None where it was not verified.
    """

    fault: TlsFault | None = None
    detail: str = ""
    expires: datetime | None = None


def handshake(host: str, port: int, context: ssl.SSLContext, timeout_s: float = HANDSHAKE_TIMEOUT_S) -> Handshake:
    """Try a handshake with a server that speaks TLS from the first byte.

    Raises:
        OSError: nobody answers there, or only something that ends every connection at once, as a load balancer whose
            servers are down; nothing is said about TLS then.
    """
    raw = socket.create_connection((host, port), timeout=timeout_s)
    try:
        with context.wrap_socket(raw, server_hostname=host) as secured:
            # A server of TLS 1.3 refuses the client's certificate after the handshake: its alert comes with a read.
            secured.settimeout(_SILENCE_S)
            with suppress(TimeoutError):
                secured.recv(1)
            return Handshake(expires=_expiry(secured))
    except (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError) as error:
        if _hangs_up(host, port, timeout_s):
            raise ConnectionResetError(f"{host}:{port} ends connections before a word is said") from error
        is_tls = isinstance(error, ssl.SSLError)
        return Handshake(fault_of(error) if is_tls else CLIENT_REFUSED, _text(error))
    except ssl.SSLError as error:
        return Handshake(fault_of(error), _text(error))
    finally:
        raw.close()


def _hangs_up(host: str, port: int, timeout_s: float) -> bool:
    """Return whether who listens there ends a connection on which nothing was sent; any server waits for its client."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as silent:
            silent.settimeout(_SILENCE_S)
            return silent.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def host_of(address: str) -> str:
    """Return the host of "host", "host:port", "[v6]:port" or "scheme://host:port"."""
    place = address.strip().rpartition("://")[2]
    host, _, port = place.rpartition(":")
    return (host if host and port.isdigit() else place).strip("[]")


def file_problem(path: str) -> str:
    """Say what is wrong with the permissions of a file that holds a key; "" when nothing is."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        return error.strerror or "cannot be read"
    return "others than its owner may read it" if mode & 0o077 else ""


def is_local(host: str) -> bool:
    """Return whether a host name or address is this machine's own."""
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _expiry(secured: ssl.SSLSocket) -> datetime | None:
    found = (secured.getpeercert() or {}).get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(found), UTC) if isinstance(found, str) else None


def _text(error: BaseException | str) -> str:
    return error if isinstance(error, str) else str(error)


def _bad_file(conn_id: str, files: str, expected: str, error: Exception) -> ConfigError:
    reason = error.strerror or "unreadable" if isinstance(error, OSError) and error.errno else expected
    return ConfigError(
        f"{conn_id}: the TLS file {files or 'of the system'} cannot be used: {reason}",
        hint="Check the path, its permissions for this user, and that it is PEM.",
        code="tls_files",
    )
