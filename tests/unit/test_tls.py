"""TLS faults by name, TLS files, and handshakes with a server of this process."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from databus.core.errors import ConfigError
from databus.sandbox.certificates import Authority, KeyPair
from databus.tls import TlsFiles, fault_of, file_problem, handshake, host_of, is_local

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("certificate verify failed: Hostname mismatch, certificate is not valid for 'db'.", "host_mismatch"),
        ("certificate verify failed: IP address mismatch, certificate is not valid for '10.0.0.1'", "host_mismatch"),
        ("certificate verify failed: certificate has expired (_ssl.c:1006)", "certificate_expired"),
        ("certificate verify failed: certificate is not yet valid", "certificate_not_yet_valid"),
        ("certificate verify failed: self-signed certificate in certificate chain", "ca_unknown"),
        ("certificate verify failed: unable to get local issuer certificate", "ca_unknown"),
        ("error:0A000086:SSL routines::certificate verify failed: broker certificate could not be", "ca_unknown"),
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate (_ssl.c:2580)", "client_certificate"),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", "client_certificate"),
        ("tlsv13 alert certificate required", "client_certificate"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "not_spoken"),
        ("SSL is required but the server doesn't support it", "not_spoken"),
        ("EOF occurred in violation of protocol (_ssl.c:2427) SSL", "failed"),
    ],
)  # fmt: skip
def test_words_of_openssl_have_a_name(text: str, code: str) -> None:
    fault = fault_of(text)
    assert fault is not None
    assert fault.code == f"tls_{code}"
    assert fault.hint


def test_what_is_not_about_tls_has_none() -> None:
    assert fault_of("Connection refused") is None
    assert fault_of(OSError(111, "Connection refused")) is None


def test_the_password_of_a_key_is_in_no_repr() -> None:
    files = TlsFiles("ca", "crt", "key", "hunter2-hunter2")
    assert "hunter2" not in f"{files!r} {files}"
    assert "crt" in repr(files)


def test_bad_files_are_named(tmp_path: Path) -> None:
    known = Authority(tmp_path / "tls")
    pair, strange = known.issue("a"), known.issue("b")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for files, name in (
        (TlsFiles(ca="/nowhere.pem"), "/nowhere.pem"),
        (TlsFiles(ca=str(text)), "text.pem"),
        (TlsFiles(certificate=str(pair.certificate), key="/nowhere.key"), "/nowhere.key"),
        (TlsFiles(certificate=str(pair.certificate), key=str(strange.key)), "b.key"),
    ):
        with pytest.raises(ConfigError, match=name) as caught:
            files.context("db")
        assert caught.value.code == "tls_files"
        assert caught.value.message.startswith("db: ")
    TlsFiles(str(known.certificate), str(pair.bundle)).context("db")


@contextmanager
def server(pair: KeyPair, ca: Path | None = None) -> Iterator[int]:
    """Serve handshakes on a port of this machine until the block ends; with `ca`, clients need a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if ca:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            with raw:
                try:
                    with context.wrap_socket(raw, server_side=True) as secured:
                        secured.recv(1)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def outcome(port: int, files: TlsFiles, host: str = "127.0.0.1") -> str:
    found = handshake(host, port, files.context("db"))
    return found.fault.code if found.fault else "ok"


def test_handshakes(tmp_path: Path) -> None:
    known, other = Authority(tmp_path / "tls"), Authority(tmp_path / "other")
    trusting = TlsFiles(str(known.certificate))
    with server(known.issue("server", ("127.0.0.1",))) as port:
        assert outcome(port, trusting) == "ok"
        assert outcome(port, TlsFiles(str(other.certificate))) == "tls_ca_unknown"
        assert outcome(port, trusting, "localhost") == "tls_host_mismatch"
        assert outcome(port, TlsFiles(str(known.certificate), check_host=False), "localhost") == "ok"
        assert outcome(port, TlsFiles(verify=False)) == "ok"
        expires = handshake("127.0.0.1", port, trusting.context("db")).expires
        assert expires is not None
        assert expires > datetime.now(UTC)
    for valid, code in (((-2 * HOUR, -HOUR), "certificate_expired"), ((HOUR, 2 * HOUR), "certificate_not_yet_valid")):
        with server(known.issue(code, valid=valid)) as port:
            assert outcome(port, trusting) == f"tls_{code}"
    client, stranger = known.issue("client", ()), other.issue("client", ())
    with server(known.issue("server"), known.certificate) as port:
        assert outcome(port, TlsFiles(str(known.certificate), str(client.bundle))) == "ok"
        assert outcome(port, trusting) == "tls_client_certificate"
        assert outcome(port, TlsFiles(str(known.certificate), str(stranger.bundle))) == "tls_client_certificate"


def test_nobody_there_is_no_fault_of_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        handshake("127.0.0.1", port, TlsFiles(verify=False).context("db"))


@contextmanager
def hanging_up() -> Iterator[int]:
    """A load balancer whose servers are down: it ends every connection at once, by FIN and by RST in turn."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for number in itertools.count():
            try:
                client = listener.accept()[0]
            except OSError:
                return
            if number % 3:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


# Where the other end has hung up before the socket is wrapped, ssl.SSLSocket._create raises, and leaves it to the
# garbage collector (where its recv is reset); a whole run of the suite has met it once.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_who_ends_every_connection_says_nothing_about_tls() -> None:
    """Else a server that is down behind a load balancer would count as one that refuses plain connections."""
    with hanging_up() as port:
        for _ in range(12):
            with pytest.raises(ConnectionError):
                handshake("127.0.0.1", port, TlsFiles(verify=False).context("c"))


def test_hosts() -> None:
    assert [host_of(a) for a in ("db", "db:1", "[::1]:9092", "https://db:9200", " a ")] == [
        "db",
        "db",
        "::1",
        "db",
        "a",
    ]
    assert [is_local(h) for h in ("127.0.0.1", "localhost", "::1", "", "db", "10.0.0.1")] == [True] * 4 + [False] * 2


def test_who_may_read_a_key(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    assert file_problem(str(key)) == ""
    key.chmod(0o640)
    assert "others" in file_problem(str(key))
    assert file_problem(str(tmp_path / "none")) == "No such file or directory"
