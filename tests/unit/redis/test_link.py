"""Servers that answer on purpose what real ones say seldom: each has a named error, and no file is left."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from databus.core.errors import (
    DatabusError,
    RdbCutError,
    RedisGapError,
    RedisStreamError,
    SourceAccessError,
    SourceError,
    SourceSettingError,
    SourceUnavailableError,
)
from databus.redis import Place, read_server
from databus.sandbox.certificates import Authority
from databus.tls import CLIENT_REFUSED, Handshake
from tests.unit.redis import rdb_writer as w

REPLID = "0123456789abcdef0123456789abcdef01234567"
OK = b"+OK\r\n"
FULL = b"+FULLRESYNC %b 500\r\n" % REPLID.encode()
RDB = w.file(w.entry(0, b"k", b"v"))
SET = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
Answering = Callable[[Sequence[bytes]], int]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Listen, and answer one connection: each entry is sent when something was received; then it is closed."""
    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def listen(answers: Sequence[bytes]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                for answer in answers:
                    if not accepted.recv(1 << 16):
                        return
                    accepted.sendall(answer)
                accepted.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):
                    while accepted.recv(1 << 16):
                        pass

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield listen
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for listener in opened:
        listener.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"$%d\r\n%b" % (len(RDB), RDB),
        b"\n\n$EOF:%b\r\n%b%b" % (b"m" * 40, RDB, b"m" * 40),
    ],
)
def test_both_forms_of_a_snapshot(answering: Answering, tmp_path: Path, sent: bytes) -> None:
    port = answering([OK, OK, OK, b"\n\n" + FULL + sent, SET])
    with read_server("127.0.0.1", port, password="p", folder=tmp_path) as replica:
        assert not list(tmp_path.iterdir()), "what a killed reader would leave"
        assert [(key.name, key.value) for key in replica.snapshot] == [(b"k", b"v")]
        transaction = next(replica.transactions())
        assert transaction.place == Place(REPLID, 500 + len(SET), 0)
        with pytest.raises(SourceUnavailableError, match="ended the connection"):
            list(replica.transactions())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ([b"-WRONGPASS invalid username-password pair\r\n"], SourceAccessError, "refuses AUTH"),
        ([b"-ERR AUTH <password> called without any password configured\r\n"], SourceAccessError, "refuses AUTH"),
        ([OK, b"-NOPERM this user has no permissions\r\n"], SourceAccessError, "refuses REPLCONF"),
        ([OK, b"-NOAUTH Authentication required.\r\n"], SourceAccessError, "refuses REPLCONF"),
        ([b"-DENIED Redis is running in protected mode\r\n"], SourceAccessError, "protected mode"),
        ([OK, OK, OK, b"-ERR unknown command 'PSYNC'\r\n"], SourceSettingError, "unknown command"),
        ([OK, OK, OK, b"-LOADING Redis is loading the dataset in memory\r\n"], SourceUnavailableError, "LOADING"),
        ([OK, OK, OK, b"-ERR something else\r\n"], SourceError, "something else"),
        ([OK, OK, OK, b"+WHAT\r\n"], RedisStreamError, "answers PSYNC with 'WHAT'"),
        ([OK, OK, OK, b"+FULLRESYNC short 1\r\n"], RedisStreamError, "answers PSYNC"),
        ([OK, OK, OK, b"+FULLRESYNC %b x\r\n" % REPLID.encode()], RedisStreamError, "answers PSYNC"),
        ([b"HTTP/1.1 400 Bad Request\r\n"], RedisStreamError, "answers AUTH with b'HTTP/1.1"),
        ([b"x" * 5000], RedisStreamError, "no end of line"),
        ([b"\x15\x03\x03\x00\x02"], SourceAccessError, "takes only connections with TLS"),
        ([b""], SourceUnavailableError, "ended the connection"),
        ([OK, OK, OK, FULL + b"$200\r\nREDIS0010"], SourceUnavailableError, "ended the connection"),
        ([OK, OK, OK, FULL + b"$EOF:%b\r\nREDIS0010" % (b"m" * 40)], SourceUnavailableError, "ended the connection"),
        ([OK, OK, OK, FULL + b"$EOF:%b\r\nR%b and more" % (b"m" * 40, b"m" * 40)], RedisStreamError, "nobody asked"),
        ([OK, OK, OK, FULL + b"$x\r\n"], RedisStreamError, "where a snapshot was to begin"),
        ([OK, OK, OK, FULL + b"$9\r\nREDIS0010"], RdbCutError, "ends at byte 9"),
    ],
)  # fmt: skip
def test_answers_that_end_it(
    answering: Answering, tmp_path: Path, answers: list[bytes], kind: type[DatabusError], words: str
) -> None:
    port = answering(answers)
    with pytest.raises(kind, match=words) as caught:
        read_server("127.0.0.1", port, user="u", password="not to be seen", folder=tmp_path)
    assert type(caught.value) is kind
    assert caught.value.hint
    assert "not to be seen" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("answer", "replid"), [(b"+CONTINUE\r\n", REPLID), (b"+CONTINUE %b\r\n" % (b"f" * 40), "f" * 40)]
)
def test_a_place_that_is_gone_on_from(answering: Answering, answer: bytes, replid: str) -> None:
    port = answering([OK, OK, answer + SET])
    with read_server("127.0.0.1", port, place=Place(REPLID, 77, 5)) as replica:
        assert replica.snapshot is None
        transaction = next(replica.transactions())
        assert transaction.commands[0].database == 5
        assert transaction.place == Place(replid, 77 + len(SET), 5)


def test_a_place_that_is_not_gone_on_from_is_a_gap(answering: Answering) -> None:
    port = answering([OK, OK, FULL])
    place = Place(REPLID, 77)
    with pytest.raises(RedisGapError, match=f"does not go on at {place}: it stands at offset 500"):
        read_server("127.0.0.1", port, place=place)
    port = answering([OK, OK, b"+CONTINUE x\r\n"])
    with pytest.raises(RedisStreamError, match="answers PSYNC"):
        read_server("127.0.0.1", port, place=place)


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SourceUnavailableError, match="refused") as caught:
        read_server("127.0.0.1", port)
    assert caught.value.retryable


def test_a_server_that_answers_no_tls(answering: Answering) -> None:
    port = answering([b"-ERR unknown command\r\n"])
    with pytest.raises(SourceAccessError) as caught:
        read_server("127.0.0.1", port, extra={"ssl": True})
    assert caught.value.code == "tls_not_spoken"
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SourceUnavailableError, match="TLS handshake"):
        read_server("127.0.0.1", silent.getsockname()[1], extra={"ssl": True, "socket_connect_timeout": 0.05})


def test_a_lost_connection_is_asked_about_once_and_acknowledged_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.issue("redis")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    asked: list[tuple[str, int]] = []

    def refused(host: str, port: int, _: ssl.SSLContext) -> Handshake:
        asked.append((host, port))
        return Handshake(CLIENT_REFUSED, "certificate required")

    monkeypatch.setattr("databus.redis.replication.link.handshake", refused)
    monkeypatch.setattr("databus.redis.replication.replica.PERIOD_S", 0.01)
    with socket.create_server(("localhost", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            accepted, _ = listener.accept()
            with context.wrap_socket(accepted, server_side=True) as secured:
                for answer in (OK, OK, b"+CONTINUE\r\n"):
                    secured.recv(1 << 16)
                    secured.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        extra = {"ssl": True, "ssl_ca_certs": str(authority.certificate)}
        with read_server("localhost", port, place=Place(REPLID, 77), extra=extra) as replica:
            serving.join()
            (acknowledging,) = (each for each in threading.enumerate() if each.name.startswith("acknowledge"))
            acknowledging.join(30)
            assert not acknowledging.is_alive()
            with pytest.raises((SourceAccessError, SourceUnavailableError)):
                next(replica.transactions())
            with pytest.raises(SourceAccessError) as caught:
                replica._link.send("PING")
            assert caught.value.code == "tls_client_certificate"
    assert asked == [("localhost", port)]
